/* plain_product.h: the plain loops that products are tested against. */
#pragma once

#include "operands.h"

/* y[m,n] = op(a) op(b) + bias, with strides for a(i,l) and b(l,j) */
struct naive {
    int64_t m, n, k, a_m, a_k, b_k, b_n;
};

static inline void multiply(const struct naive *p, const double *a, const double *b,
                            const double *bias, double *y)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = bias ? bias[j] : 0;

            for (int64_t l = 0; l < p->k; l++)
                sum += a[i * p->a_m + l * p->a_k] * b[l * p->b_k + j * p->b_n];
            y[i * p->n + j] = sum;
        }
}
