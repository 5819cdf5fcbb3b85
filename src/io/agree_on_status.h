/* agree_on_status.h: makes a failure that one rank found in a file known to all, so that all return
 * the same status. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <weft/error.h>

/**
 * Every rank's status; the first failure in rank order is then everybody's, with its message.
 *
 * ranks: all of the world
 */
weft_status wf_agree_status(weft_status mine);

/** Fails on all ranks, naming `what`, unless all have the same number. ranks: all of the world */
weft_status wf_agree_same_number(const char *what, uint64_t mine);

/** Rank 0's number, on every rank. ranks: all of the world */
uint64_t wf_agree_rank0_number(uint64_t mine);
