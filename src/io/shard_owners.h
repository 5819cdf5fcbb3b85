/* shard_owners.h: which of several ranks with the same elements writes them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/tensor.h>

/**
 * The bytes that each rank has to write so far. All ranks compute the same assignment without
 * communication: of the ranks that hold the same shard, the one with the fewest bytes writes it, on
 * a tie the lowest.
 */
struct wf_owners {
    int ranks, me;
    int64_t *bytes; /* per rank */
};

/** `me` is this rank, or another one to simulate. */
void wf_owners_init(struct wf_owners *owners, int ranks, int me);
void wf_owners_free(struct wf_owners *owners);

/** True when rank `me` writes its shard of `t`. Called alike on every rank, for every
 *  tensor in the same order. A plain tensor is one that all ranks have. */
bool wf_owners_assign_tensor(struct wf_owners *owners, const weft_tensor *t);

/** The same for `bytes` bytes that all ranks have. */
bool wf_owners_assign_bytes(struct wf_owners *owners, int64_t bytes);
