/*
 * tensor.h: the handle behind weft_tensor, and the scope stack that owns temporaries.
 *
 * A handle has a layout, a pointer into a block of bytes and a tape node. It is one cache line,
 * taken from a per-thread queue of released ones: making one costs a pop, a scope push and no
 * allocation.
 */
#pragma once

#include <weft/tensor.h>

#include "base/recorder.h"
#include "base/upcalls.h"
#include "device/device.h"
#include "device/pool.h"
#include "placement/layout.h"

struct wf_tape_node;
struct wf_grad_state;

struct weft_tensor {
    struct wf_layout *layout;
    union {
        void *data;             /* first local element */
        weft_tensor *next_free; /* of a released handle */
    };
    struct wf_block *block; /* the bytes, shared with views */
    struct wf_tape_node
        *node;          /* the tape node that made it; NULL for leaves and outside the tape */
    weft_tensor *grad;  /* leaves only; may be a partial sum until weft_grad is asked */
    int32_t refs;       /* 0: released */
    bool requires_grad; /* a leaf that wants a gradient, or the result of a recorded op */
    bool inner_leaf;    /* of a function that is computed again: its gradient goes on from there */
    bool in_flight;     /* its elements may still be in flight: wf_wait_ready before their use */
    uint8_t recording;  /* in which it was made; 0: in none */
    const char *origin; /* the op that made it, for the leak report */
    struct wf_grad_state
        *grad_state; /* leaves only: who reduces its gradient (autograd/tape.h), or NULL */
};

/**
 * A handle in the innermost scope. Takes over the caller's reference to `block`, retains `layout`.
 */
weft_tensor *wf_tensor_new(struct wf_layout *layout, struct wf_block *block, void *data,
                           const char *origin);

/** What follows from this rank's strides need not be the same on the others: shards differ in
 * shape, or a program has wrapped them. */
static inline bool wf_strides_may_differ(const weft_tensor *t)
{
    return t->layout->mesh &&
           (t->block->flags & WF_BLOCK_WRAPPED || !wf_layout_shards_equal(t->layout));
}

/** Several elements lie at one place: a view that was expanded. */
static inline bool wf_elements_overlap(const struct wf_tensor_desc *desc)
{
    bool overlap = false;

    for (int d = 0; d < desc->ndim; d++) overlap |= desc->stride[d] == 0 && desc->shape[d] > 1;
    return overlap;
}

/** True when there are no elements to read or write, whatever the shape. */
static inline bool wf_is_meta(const weft_tensor *t) { return t->layout->desc.device == WEFT_META; }

static inline weft_device wf_device_of(const weft_tensor *t)
{
    return (weft_device)t->layout->desc.device;
}

/** A fresh tensor of this layout, elements undefined; NULL when memory is refused. */
weft_tensor *wf_tensor_new_empty(struct wf_layout *layout, enum wf_category category,
                                 const char *origin);

/** A plain number of t's dtype, on its device; NULL for NULL. */
weft_tensor *wf_number_like(const weft_tensor *t, double value);

static inline void wf_wait_ready(const weft_tensor *t)
{
    if (t->in_flight) wf_tensor_wait(t);
}

/** Writes in place on this thread so far. */
extern _Thread_local uint64_t wf_inplace_write_count;

/** The same for an op, whose kernel waits for the elements itself. */
static inline void wf_tensor_note_write(const weft_tensor *t, const char *op)
{
    struct wf_block *block = t->block;

    if (block->readers > 0) wf_block_wait_readers(block);
    wf_inplace_write_count++;
    if (block->flags || wf_recorder) {
        if (wf_recorder && wf_recorder->handle_written)
            wf_recorder->handle_written(wf_recorder, t, op);
        wf_block_record_write(block, op);
    } else {
        block->version++;
        block->writer = op;
    }
}

/**
 * The elements are about to be written in place by `op` (a text that lasts). Called on every rank
 * that makes the call, also where its shard is empty: backward refuses what it saved before.
 */
static inline void wf_tensor_before_write(const weft_tensor *t, const char *op)
{
    wf_wait_ready(t);
    wf_tensor_note_write(t, op);
}

/**
 * Refuses a tensor that was released, as long as its handle is not used again, that another thread
 * made, or a thread that has ended. Ops need not ask: no plan is made for one, so dispatch checks
 * on a cache miss only.
 */
weft_status wf_tensor_check_alive(const weft_tensor *t, const char *who);
weft_status wf_tensor_fail_dead(const weft_tensor *t, const char *who);

/** The same for functions that look at a tensor, or hand it back, before dispatch sees it. */
static inline weft_status wf_tensor_need_alive(const weft_tensor *t, const char *who)
{
    return !t || t->refs > 0 ? WEFT_OK : wf_tensor_fail_dead(t, who);
}

/** Handles alive on this thread. */
int64_t wf_tensor_live_count(void);

/** Close all scopes, report what is still alive in the log, hand the handles to later threads. */
void wf_tensor_finalize(void);

/** True for a plain tensor. */
static inline bool wf_is_plain(const weft_tensor *t) { return t->layout->mesh == NULL; }

/** dim counted from the front; -1 (with an error naming `who`) when out of range. */
int wf_normalize_dim(int dim, int ndim, const char *who);
