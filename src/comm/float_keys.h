/*
 * float_keys.h: maxima and minima of floats in a library on the device that loses a NaN where Weft
 * keeps it, as NCCL does: they are those of integers in the same order (base/elements/float_key.h).
 */
#pragma once

#include "comm/comm.h"
#include "device/pool.h"

/** What one of them needs until the end. */
struct wf_float_keys {
    struct wf_block *block; /* NULL: it is none of them */
    weft_dtype dtype;       /* of the floats */
    const char *mine;       /* of the keys, those that this rank receives */
    size_t count;
};

/** Give the compute stream what turns the elements to be sent into keys, and make *coll the
 * collective of these. Any other one stays as it is. */
struct wf_float_keys wf_float_keys_make(struct wf_coll *coll);
/** The collective has ended for the compute stream: its result as floats. */
void wf_float_keys_read(struct wf_float_keys *keys, void *recv);
