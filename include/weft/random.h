/*
 * random.h: random numbers that belong to global elements (docs/concepts/random.md).
 *
 * Philox4x32-10 (Salmon et al. 2011) with key = seed and counter = (element index / 4, draw
 * number): the same bits for every mesh, placement and number of ranks, without communication.
 *
 * Random functions take their generator last; NULL means the thread's current one. Each call is
 * one draw of it, whatever it fills, so generators of ranks that make the same calls stay in step.
 * A rank outside the tensor's mesh fills nothing, and its generator stays where it is.
 */
#pragma once

#include <weft/generator.h>
#include <weft/tensor.h>

/* ---- filling in place ----
 *
 * ranks: local, but every rank of the mesh alike
 * fails: WEFT_ERR_DTYPE, WEFT_ERR_ARG for parameters outside a distribution's range,
 *        WEFT_ERR_LAYOUT for a partial sum (the terms would not add up to such numbers),
 *        WEFT_ERR_STATE for the result of a recorded op
 * grad:  none
 *
 * Uniform and normal numbers of f32, bf16 and f16 are made of 24 bits each, the upper bits of the
 * 53 that all others are made of: equal seeds give models of any dtype nearly equal weights.
 */

/** Uniform in [low, high). Floats. ranks: above */
WEFT_API weft_status weft_uniform_(weft_tensor *t, double low, double high, weft_generator *g);
/** Normal. Floats. ranks: above */
WEFT_API weft_status weft_normal_(weft_tensor *t, double mean, double std, weft_generator *g);
/** Normal, given that it lies in [low, high]; bounds may be infinite. Floats. ranks: above */
WEFT_API weft_status weft_trunc_normal_(weft_tensor *t, double mean, double std, double low,
                                        double high, weft_generator *g);
/** e to the power of a normal number. Floats. ranks: above */
WEFT_API weft_status weft_log_normal_(weft_tensor *t, double mean, double std, weft_generator *g);
/** Density rate e^(-rate x), x > 0. Floats. ranks: above */
WEFT_API weft_status weft_exponential_(weft_tensor *t, double rate, weft_generator *g);
/** The number of the first success, 1 or more, each trial succeeding with probability p in (0, 1].
 *  All dtypes but bool; what an integer cannot hold is its largest value.
 *  ranks: above */
WEFT_API weft_status weft_geometric_(weft_tensor *t, double p, weft_generator *g);
/** 1 with probability p, else 0. All dtypes. ranks: above */
WEFT_API weft_status weft_bernoulli_(weft_tensor *t, double p, weft_generator *g);
/** Whole numbers in [low, high), all equally likely, which the dtype must hold exactly. All dtypes.
 * ranks: above */
WEFT_API weft_status weft_randint_(weft_tensor *t, int64_t low, int64_t high, weft_generator *g);
/** A permutation of 0 .. n - 1 in a tensor [n], all equally likely. I32, I64. Each rank computes
 *  its own elements only: no rank holds the whole.
 *  ranks: above */
WEFT_API weft_status weft_randperm_(weft_tensor *t, weft_generator *g);

/** Set every element; a partial sum's terms too. ranks: above */
WEFT_API weft_status weft_fill_(weft_tensor *t, double value);

/** Which size of a weight [out, in, ...] an initialisation keeps the variance over. */
typedef enum weft_fan { WEFT_FAN_IN, WEFT_FAN_OUT } weft_fan;

/**
 * He et al. 2015 for leaky ReLU with `slope` (0: ReLU, 1: linear), Glorot & Bengio 2010.
 *
 * Fans follow from the global shape: in = size(1) * rest, out = size(0) * rest, where rest is the
 * product of further dims.
 *
 * ranks: above
 * fails: also WEFT_ERR_SHAPE for fewer than two dims
 */
WEFT_API weft_status weft_kaiming_uniform_(weft_tensor *t, double slope, weft_fan fan,
                                           weft_generator *g);
WEFT_API weft_status weft_kaiming_normal_(weft_tensor *t, double slope, weft_fan fan,
                                          weft_generator *g);
WEFT_API weft_status weft_xavier_uniform_(weft_tensor *t, double gain, weft_generator *g);
WEFT_API weft_status weft_xavier_normal_(weft_tensor *t, double gain, weft_generator *g);

/* ---- from tensors ---- */

/**
 * 1 with each element's probability, else 0.
 *
 * shape: p [*] -> [*], of p's dtype and placements; where p is a partial sum it is reduced first,
 *        by an all-reduce, and the result is replicated
 * ranks: every rank of p's mesh
 * fails: WEFT_ERR_DTYPE unless p is a float
 * grad:  0
 */
WEFT_API weft_tensor *weft_bernoulli(weft_tensor *p, weft_generator *g);

/**
 * Indices drawn from rows of weights, which need not sum to 1.
 *
 * shape: p [*, k] -> i64 [*, n]; the last dim of p is made whole first
 * ranks: every rank of p's mesh. A row with a negative weight or with too few positive ones ends
 *        the job, since only ranks that hold it know
 * fails: WEFT_ERR_DTYPE unless p is a float, WEFT_ERR_SHAPE without a last dim, WEFT_ERR_ARG for
 *        n > k without replacement
 * grad:  none
 */
WEFT_API weft_tensor *weft_multinomial(weft_tensor *p, int64_t n, bool replacement,
                                       weft_generator *g);

/**
 * Zero each element with probability p, scale the rest by 1/(1-p).
 *
 * The mask belongs to the elements of the whole tensor. Inside code that works on plain local
 * shards, say where the shard lies: weft_to_local(weft_dropout(weft_from_local(shard, ...), p, g)).
 * ranks: local, but every rank of the mesh alike
 * fails: WEFT_ERR_ARG unless 0 <= p <= 1, WEFT_ERR_LAYOUT for a partial sum
 * grad:  the same mask
 */
WEFT_API weft_tensor *weft_dropout(weft_tensor *x, double p, weft_generator *g);
