/*
 * coverage.c: coverage as an equality of polynomials.
 *
 * An element (i, j) is the term x^i y^j, a shard the sum of its elements' terms. Shards make up the
 * tensor exactly when their sum is that of the tensor: where an element is missing or there twice,
 * a term has another coefficient than 1. Two polynomials that differ agree in a point drawn among
 * 2^61 with a chance of at most (the sum of the dims' sizes) / 2^61; two points are drawn. Nothing
 * is compared with each other, so the cost grows only linearly with the number of shards.
 */
#include "io/checkpoint/coverage.h"

#include "base/sys.h"

static const uint64_t prime =
    (UINT64_C(1) << 61) - 1; /* numbers are counted up to it, then from 0 */

static uint64_t add_mod_prime(uint64_t a, uint64_t b) { return (a + b) % prime; }

/* 2^61 is 1: what a product has above is added to what it has below. */
static uint64_t multiply_mod_prime(uint64_t a, uint64_t b)
{
    uint64_t a1 = a >> 32, a0 = a & UINT32_MAX, b1 = b >> 32, b0 = b & UINT32_MAX;
    uint64_t middle = a1 * b0 + a0 * b1, low = a0 * b0;
    uint64_t high = a1 * b1 * 8 + (middle >> 29); /* 2^64 is 8 */

    middle = (middle & ((1u << 29) - 1)) << 32;
    return add_mod_prime(add_mod_prime(high % prime, middle), low % prime);
}

static uint64_t power_mod_prime(uint64_t x, uint64_t exponent)
{
    uint64_t result = 1;

    for (; exponent; exponent >>= 1, x = multiply_mod_prime(x, x))
        if (exponent & 1) result = multiply_mod_prime(result, x);
    return result;
}

/* 1 + x + ... + x^(size - 1), times x - 1. */
static uint64_t polynomial_of_run(uint64_t x, struct wf_index_range run)
{
    uint64_t begin = power_mod_prime(x, (uint64_t)run.offset),
             end = multiply_mod_prime(begin, power_mod_prime(x, (uint64_t)run.size));

    return add_mod_prime(end, prime - begin);
}

/* The points: for each of two, one number per dim, drawn once per thread. */
static uint64_t random_point_of_dim(int which, int d)
{
    static _Thread_local struct {
        uint64_t x[2][WEFT_MAX_DIMS];
        bool drawn;
    } points;
    if (!points.drawn) {
        for (int i = 0; i < 2 * WEFT_MAX_DIMS; i++) points.x[i % 2][i / 2] = wf_system_random();
        points.drawn = true;
    }
    return 2 + points.x[which][d] % (prime - 2);
}

void wf_coverage_add_slice(struct wf_coverage *coverage, const struct wf_local_runs *shard,
                           int ndim)
{
    for (int which = 0; which < 2; which++) {
        uint64_t product = 1;

        for (int d = 0; d < ndim; d++) {
            uint64_t terms = 0;

            for (int64_t i = 0; i < shard->n_runs[d]; i++)
                terms = add_mod_prime(
                    terms, polynomial_of_run(random_point_of_dim(which, d), shard->runs[d][i]));
            product = multiply_mod_prime(product, terms);
        }
        coverage->sum[which] = add_mod_prime(coverage->sum[which], product);
    }
}

bool wf_coverage_is_complete(const struct wf_coverage *coverage, const int64_t *shape, int ndim)
{
    for (int which = 0; which < 2; which++) {
        uint64_t product = 1;

        for (int d = 0; d < ndim; d++)
            product = multiply_mod_prime(product,
                                         polynomial_of_run(random_point_of_dim(which, d),
                                                           (struct wf_index_range){0, shape[d]}));
        if (product != coverage->sum[which]) return false;
    }
    return true;
}
