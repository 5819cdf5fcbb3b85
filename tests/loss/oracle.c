/* oracle.c: cross-entropy from its definition, one token after the other. */
#include "loss/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/owned.h"

/* Elements between neighbours along the class dim. */
static int64_t step(const struct oracle *o)
{
    int64_t step = 1;

    for (int d = o->class_dim + 1; d < o->ndim; d++) step *= o->shape[d];
    return step;
}

/* Where class j of a token lies among the logits. */
static int64_t place(const struct oracle *o, int64_t token, int64_t j)
{
    int64_t inner = step(o);

    return (token / inner * o->classes + j) * inner + token % inner;
}

void *oracle_zeros(int64_t n)
{
    void *zeros = calloc((size_t)n + 1, 8);

    wt_own_with(zeros, free);
    return zeros;
}

void oracle_new(struct oracle *o, bool weighted)
{
    o->count = 1;
    for (int d = 0; d < o->ndim; d++) o->count *= o->shape[d];
    o->classes = o->shape[o->class_dim];
    o->tokens = 1;
    for (int d = 0; d < o->ndim; d++) o->tokens *= d == o->class_dim ? 1 : o->shape[d];
    o->z = oracle_zeros(o->count);
    o->grad = oracle_zeros(o->count);
    o->target = oracle_zeros(o->tokens);
    o->losses = oracle_zeros(o->tokens);
    o->weight = oracle_zeros(o->classes);
    for (int64_t i = 0; i < o->count; i++) o->z[i] = (double)((i * 37 + 11) % 101) / 50 - 1;
    for (int64_t j = 0; j < o->classes; j++)
        o->weight[j] = weighted ? (double)((j * 53 + 7) % 97) / 48 + 0.25 : 1;
    if (!o->ignored) o->ignored = ORACLE_IGNORED;
    for (int64_t i = 0; i < o->tokens; i++)
        o->target[i] = i % 5 == 3 ? o->ignored : (7 * i + 3) % o->classes;
}

/* One token; its gradient is scaled by g. */
static double token_loss(struct oracle *o, int64_t i, double g)
{
    double most = -INFINITY, sum = 0, loss = 0, together = 0, lse;

    for (int64_t j = 0; j < o->classes; j++) most = fmax(most, o->z[place(o, i, j)]);
    for (int64_t j = 0; j < o->classes; j++) sum += exp(o->z[place(o, i, j)] - most);
    lse = most + log(sum);
    for (int64_t pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < o->classes; j++) {
            int64_t at = place(o, i, j);
            double q = o->probability ? o->probability[at] : j == o->target[i];
            double term =
                o->weight[j] * ((1 - o->smoothing) * q + o->smoothing / (double)o->classes);

            if (pass == 0) {
                loss -= term * (o->z[at] - lse);
                together += term;
            } else {
                o->grad[at] = g * ((together + 2 * o->z_loss * lse) * exp(o->z[at] - lse) - term);
            }
        }
    return loss + o->z_loss * lse * lse;
}

void oracle_run(struct oracle *o, const double *upstream)
{
    o->total = o->weights = 0;
    memset(o->grad, 0, (size_t)o->count * sizeof(double));
    for (int64_t i = 0; i < o->tokens; i++) {
        bool ignored = !o->probability && o->target[i] == o->ignored;

        o->losses[i] = ignored ? 0 : token_loss(o, i, upstream ? upstream[i] : 1);
        o->total += o->losses[i];
        if (o->probability)
            o->weights += 1;
        else if (!ignored)
            o->weights += o->weight[o->target[i]];
    }
}
