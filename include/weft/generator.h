/*
 * generator.h: where random numbers come from: a seed and the number of the next draw
 * (docs/concepts/random.md). What is drawn: random.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/error.h>
#include <weft/types.h>

typedef struct weft_generator weft_generator;

/** A generator that starts at draw 0 / one more owner / one owner less; NULL is allowed.
 *  ranks: any; local, all alike
 *  gives: a generator owned by the caller */
WEFT_API weft_generator *weft_generator_new(uint64_t seed);
WEFT_API weft_generator *weft_generator_retain(weft_generator *g);
WEFT_API void weft_generator_release(weft_generator *g);

/**
 * A generator that gives the numbers of cuRAND's host generator CURAND_RNG_PSEUDO_PHILOX4_32_10
 * with this seed, in its default order: for programs that compare with others that use it. Element
 * i of a tensor, in row-major order of the whole, gets the i-th number after those that were drawn
 * before, in any layout; weft_generator_draws counts numbers. It draws uniform numbers, in (low,
 * high], and normal ones, f32 and f64; everything else is refused (WEFT_ERR_ARG). Normal numbers
 * agree to the last places: both sides use their own sine and logarithm. f32 and f64 numbers are
 * counted alike; a program that mixes them in one sequence of cuRAND gets others there.
 *
 * ranks: any; local, all alike
 * gives: a generator owned by the caller
 */
WEFT_API weft_generator *weft_generator_new_curand(uint64_t seed);

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

/** The generator that NULL stands for: of the innermost region, else the thread's own, which starts
 *  with seed 0.
 *  ranks: any; local
 *  gives: borrowed */
WEFT_API weft_generator *weft_default_generator(void);

/** The seed and the number of the next draw; both need a handle. ranks: any; local */
WEFT_API uint64_t weft_generator_seed(const weft_generator *g);
WEFT_API uint64_t weft_generator_draws(const weft_generator *g);

/** Set a generator's (NULL: the current one's) seed and go to its draw 0.
 *  ranks: any; local. A rank that is given another seed draws other numbers, also for replicas:
 *         seeds may differ where no tensor is shared, as between pipeline stages */
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
 * (Megatron's rule). For programs that draw into plain shards: weft_default_generator_open of it
 * where each rank must draw its own numbers. Distributed tensors need only one seed, for their
 * numbers belong to elements.
 *
 * ranks: any; local, all alike
 * fails: WEFT_ERR_ARG for an axis that is not there; as weft_manual_seed_on
 */
WEFT_API weft_status weft_manual_seed_parallel(weft_mesh *mesh, int axis, uint64_t seed);

enum { WEFT_GENERATOR_BYTES = 16 };

/** The state (NULL: of the current generator) as bytes, the same on every machine / set it.
 *  ranks: any; local
 *  fails: WEFT_ERR_ARG for bytes that are no state */
WEFT_API void weft_generator_state(const weft_generator *g,
                                   unsigned char bytes[WEFT_GENERATOR_BYTES]);
WEFT_API weft_status weft_generator_set_state(weft_generator *g,
                                              const unsigned char bytes[WEFT_GENERATOR_BYTES]);

/**
 * Make `g` the default one until the region is closed, after which what was the default goes on as
 * if nothing had been drawn (PyTorch: fork_rng). A generator that is given goes on where its last
 * region ended; with NULL the default one is copied, and the copy is gone afterwards. Regions nest.
 *
 * ranks: any; local, all alike
 * fails: close: WEFT_ERR_STATE when none is open, which changes nothing
 */
WEFT_API void weft_default_generator_open(weft_generator *g);
WEFT_API weft_status weft_default_generator_close(void);

/**
 * Between these, elements of distributed tensors are numbered within each rank's shard, as if it
 * were plain (multinomial excepted): equally seeded ranks fill equal shards alike, and values
 * depend on the sharding. For programs that seed every rank differently; regions nest.
 *
 * ranks: any; local, all alike
 * fails: close: WEFT_ERR_STATE when none is open, which changes nothing
 */
WEFT_API void weft_local_random_open(void);
WEFT_API weft_status weft_local_random_close(void);

/** The four words of one Philox4x32-10 block; needs all three. ranks: any; local */
WEFT_API void weft_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);
