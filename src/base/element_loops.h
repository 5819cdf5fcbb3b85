/* element_loops.h: the loops over elements that redistribution needs beside copies, on host memory.
 */
#pragma once

#include <stddef.h>

#include <weft/dtype.h>

/** x / divisor: the end of an average. */
void wf_elements_divide(weft_dtype dtype, size_t count, void *x, int divisor);

/** |x| ^ p: before a norm's terms are summed, and with 1 / p after it. */
void wf_elements_power(weft_dtype dtype, size_t count, void *x, double p);
