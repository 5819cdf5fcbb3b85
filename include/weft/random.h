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

#include <weft/tensor.h>

/* ---- generators: a seed and the number of the next draw ---- */

typedef struct weft_generator weft_generator;

/** A generator that starts at draw 0 / one more owner / one owner less; NULL is allowed.
 * ranks: any; local, all alike. gives: a generator owned by the caller */
WEFT_API weft_generator *weft_generator_new(uint64_t seed);
WEFT_API weft_generator *weft_generator_retain(weft_generator *g);
WEFT_API void weft_generator_release(weft_generator *g);

/**
 * A generator with a name, kept by the thread until weft_generator_reset / the one with a name.
 *
 * ranks: any; local, all alike
 * gives: borrowed
 * fails: add: WEFT_ERR_STATE when the name is taken, or when one was added with that seed, whose
 *        numbers it would repeat; find: WEFT_ERR_NOT_FOUND
 */
WEFT_API weft_generator *weft_generator_add(const char *name, uint64_t seed);
WEFT_API weft_generator *weft_generator_find(const char *name);

/** Forget all named generators. ranks: any; local */
WEFT_API void weft_generator_reset(void);

/** The generator that NULL stands for: of the innermost fork, else the thread's own, which starts
 * with seed 0. ranks: any; local. gives: borrowed */
WEFT_API weft_generator *weft_generator_current(void);

/** The seed and the number of the next draw; both need a handle. ranks: any; local */
WEFT_API uint64_t weft_generator_seed(const weft_generator *g);
WEFT_API uint64_t weft_generator_draws(const weft_generator *g);

/** Set a generator's (NULL: the current one's) seed and go to its draw 0. ranks: any; local. A rank
 * that is given another seed draws other numbers, also for replicas: seeds may differ where no
 * tensor is shared, as between pipeline stages. */
WEFT_API void weft_generator_reseed(weft_generator *g, uint64_t seed);
/** The same for the current generator. ranks: any; local */
WEFT_API void weft_manual_seed(uint64_t seed);

/**
 * weft_manual_seed for the ranks of a mesh. Nothing is exchanged: the seed is taken as given.
 *
 * ranks: any; local. One stage of a pipeline seeds its own mesh: weft_manual_seed_on(mesh, 123 +
 *        stage)
 * fails: WEFT_ERR_STATE on a rank that is not in the mesh; its generator stays as it is
 */
WEFT_API weft_status weft_manual_seed_on(weft_mesh *mesh, uint64_t seed);

/** The name of the generator whose seed differs along an axis (Megatron's name for it). */
#define WEFT_MODEL_PARALLEL_RNG "model-parallel-rng"

/**
 * Two seeds from one: the current generator gets `seed`, the same on every rank, and the one named
 * WEFT_MODEL_PARALLEL_RNG, added if it is not there, seed + 2718 + this rank's place along the axis
 * (Megatron's rule). For programs that draw into plain shards: fork to it where each rank must draw
 * its own numbers. Distributed tensors need only one seed, for their numbers belong to elements.
 *
 * ranks: any; local, all alike
 * fails: WEFT_ERR_ARG for an axis that is not there; as weft_manual_seed_on
 */
WEFT_API weft_status weft_manual_seed_parallel(weft_mesh *mesh, int axis, uint64_t seed);

enum { WEFT_GENERATOR_BYTES = 16 };

/** The state (NULL: of the current generator) as bytes, the same on every machine / set it. ranks:
 * any; local. fails: WEFT_ERR_ARG for bytes that are no state */
WEFT_API void weft_generator_state(const weft_generator *g,
                                   unsigned char bytes[WEFT_GENERATOR_BYTES]);
WEFT_API weft_status weft_generator_set_state(weft_generator *g,
                                              const unsigned char bytes[WEFT_GENERATOR_BYTES]);

/**
 * Make `g` current until the matching join, after which what was current goes on as if nothing had
 * been drawn. A generator that is given goes on where its last fork ended; with NULL the current
 * one is copied, and the copy is gone after the join. Forks nest.
 *
 * ranks: any; local, all alike
 * fails: join: WEFT_ERR_STATE without a fork
 */
WEFT_API void weft_generator_fork(weft_generator *g);
WEFT_API weft_status weft_generator_join(void);

/**
 * Between these, elements of distributed tensors are numbered within each rank's shard, as if it
 * were plain (multinomial excepted): equally seeded ranks fill equal shards alike, and values
 * depend on the sharding. For programs that seed every rank differently; calls nest.
 *
 * ranks: any; local, all alike
 */
WEFT_API void weft_local_random_begin(void);
WEFT_API void weft_local_random_end(void);

/* ---- filling in place ----
 *
 * ranks: local, but every rank of the mesh alike
 * fails: WEFT_ERR_DTYPE, WEFT_ERR_ARG for parameters outside a distribution's range,
 *        WEFT_ERR_LAYOUT for a partial sum (the terms would not add up to such numbers),
 *        WEFT_ERR_STATE for the result of a recorded op
 * grad:  none
 * Uniform and normal numbers of f32 and bf16 are made of 24 bits each, the upper bits of the 53
 * that all others are made of: equal seeds give models of any dtype nearly equal weights.
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
 *  All dtypes but bool; what an integer cannot hold is its largest value. ranks: above */
WEFT_API weft_status weft_geometric_(weft_tensor *t, double p, weft_generator *g);
/** 1 with probability p, else 0. All dtypes. ranks: above */
WEFT_API weft_status weft_bernoulli_(weft_tensor *t, double p, weft_generator *g);
/** Whole numbers in [low, high), all equally likely, which the dtype must hold exactly. All dtypes.
 * ranks: above */
WEFT_API weft_status weft_randint_(weft_tensor *t, int64_t low, int64_t high, weft_generator *g);
/** A permutation of 0 .. n - 1 in a tensor [n], all equally likely. I32, I64. Each rank computes
 *  its own elements only: no rank holds the whole. ranks: above */
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
 * ranks: above. fails: also WEFT_ERR_SHAPE for fewer than two dims
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
 * grad:  none
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

/** The four words of one Philox4x32-10 block; needs all three. ranks: any; local */
WEFT_API void weft_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);
