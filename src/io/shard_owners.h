/* shard_owners.h: which of several ranks with the same elements writes them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/tensor.h>

/**
 * What each rank has to write so far. Ranks decide one tensor after another, all the same way and
 * without asking each other: of those that hold the same part, the one with the fewest bytes writes
 * it, the lowest of several.
 */
struct wf_owners {
    int ranks, me;
    int64_t *bytes; /* per rank */
};

/** `me` may be any of the ranks: pretend. */
void wf_owners_init(struct wf_owners *owners, int ranks, int me);
void wf_owners_free(struct wf_owners *owners);

/** True when rank `me` writes the part of `t` that it holds. Called alike on every rank, for every
 *  tensor in the same order. A plain tensor is one that all ranks have. */
bool wf_owners_assign_tensor(struct wf_owners *owners, const weft_tensor *t);

/** The same for `bytes` bytes that all ranks have. */
bool wf_owners_assign_bytes(struct wf_owners *owners, int64_t bytes);
