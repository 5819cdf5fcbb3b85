/* read.h: reading memory as fast as this machine can. */
#pragma once

#include <stddef.h>

/** The sum of n floats, in no particular order. */
float hand_read(const float *x, size_t n);
