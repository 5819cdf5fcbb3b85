/*
 * random.h: random numbers that belong to global elements (docs/concepts/random.md).
 *
 * Philox4x32-10 (Salmon et al. 2011) with key = seed and counter = (element index / 4, draw
 * number): the same bits for every mesh, placement and number of ranks, without communication.
 */
#pragma once

#include <weft/tensor.h>

/** Set the seed of the thread's generator and start its draw numbers at 0. ranks: all alike */
WEFT_API void weft_manual_seed(uint64_t seed);

/** Fill in place with uniform values in [low, high) / normal values. Each call is one draw.
 *  ranks: local, but all ranks alike. fails: WEFT_ERR_DTYPE for integers */
WEFT_API weft_status weft_uniform_(weft_tensor *t, double low, double high);
WEFT_API weft_status weft_normal_(weft_tensor *t, double mean, double std);
/** Set every element. ranks: local, but all ranks alike */
WEFT_API weft_status weft_fill_(weft_tensor *t, double value);

/** The four words of one Philox4x32-10 block. ranks: any; local */
WEFT_API void weft_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);
