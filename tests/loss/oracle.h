/* oracle.h: what a cross-entropy and its gradient are, by plain loops in f64 from the definition:
 * -sum_j w_j q_j log softmax(z)_j + zeta (log sum exp z)^2. It shares no code with the library. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { ORACLE_DIMS = 4, ORACLE_IGNORED = -100 };

struct oracle {
    /* to be set; the rest is 0 or NULL unless told */
    int ndim;
    int64_t shape[ORACLE_DIMS];
    int class_dim;
    double smoothing, z_loss;
    int64_t ignored;
    /* made by oracle_new, to be changed before oracle_run */
    int64_t tokens, classes, count;
    double *z;           /* [shape] */
    int64_t *target;     /* [shape without the class dim] */
    double *weight;      /* [classes], all 1 unless `weighted` */
    double *probability; /* [shape]; NULL: the targets are classes */
    /* made by oracle_run */
    double *losses;        /* [tokens] */
    double total, weights; /* the sum, and what the mean divides it by */
    double *grad;          /* [shape], of sum_i upstream[i] loss[i] */
};

/** So many zeros of 8 bytes, which the case owns. */
void *oracle_zeros(int64_t n);
/** Logits and weights by the fill rules of the acceptance cases, every fifth target ignored. */
void oracle_new(struct oracle *o, bool weighted);
/** Losses, and the gradient under these gradients of the losses; NULL: all 1. */
void oracle_run(struct oracle *o, const double *upstream);
