/* read.c: see read.h. Compiled so that the loop becomes wide additions in several sums. */
#include "hand/read.h"

enum { SUMS = 64 };

float hand_read(const float *x, size_t n)
{
    float sum[SUMS] = {0}, total = 0;
    size_t i = 0;

    for (; i + SUMS <= n; i += SUMS)
        for (int j = 0; j < SUMS; j++) sum[j] += x[i + (size_t)j];
    for (; i < n; i++) total += x[i];
    for (int j = 0; j < SUMS; j++) total += sum[j];
    return total;
}
