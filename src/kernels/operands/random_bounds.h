/* random_bounds.h: what random kernels of every device work out on the host, once per call. */
#pragma once

#include <stdint.h>

/** The largest value of the dtype below `high`, or `low` where there is none in between. */
double wf_random_largest_below(uint8_t dtype, double low, double high);

/** The values of the dtype nearest to the bounds, inside them where there are any. */
void wf_random_bounds(uint8_t dtype, double *low, double *high);

/** The largest that an integer dtype holds exactly as a double; infinity for floats. */
double wf_random_largest_integer(uint8_t dtype);

/** The words below it are the share p. */
uint64_t wf_random_threshold(double p);
