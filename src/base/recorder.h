/*
 * recorder.h: who writes down what this thread's tensors go through below dispatch, so that it can
 * be run again without the program (src/compile).
 *
 * Kernels, copies and moves between layouts are handed to the recorder instead of being run: it
 * runs them, or puts them off. What it has no function for it hears of as the reason why the list
 * ends there. Without a recorder, the normal case, each place costs one load and a branch.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/export.h>

struct weft_tensor;
struct wf_block;
struct wf_changing_call;
struct wf_op_args;
struct wf_op_plan;
struct wf_optimizer_item;
struct wf_redist_plan;
struct wf_strided_copy;

/** One call of an op's kernel: the blocks that it writes, and addresses in them. */
struct wf_kernel_run_request {
    struct wf_op_plan *plan;
    const struct wf_op_args *args;
    struct weft_tensor *const *in; /* as the kernel gets them; some NULL */
    struct wf_block *const *blocks;
    void *const *to; /* NULL: not made */
    bool in_place;   /* the block was there before */
};

struct wf_recorder {
    void (*kernel)(struct wf_recorder *r, const struct wf_kernel_run_request *call);
    /** The first `count` elements of the block are all `element`, of `size` bytes. */
    void (*fill)(struct wf_recorder *r, struct wf_block *to, const void *element, size_t size,
                 size_t count);
    /** Elements go from one block to another. */
    void (*copy)(struct wf_recorder *r, const struct wf_strided_copy *copy, struct wf_block *to,
                 void *dst, struct wf_block *from, const void *src);
    /** gives: the block that wf_redist_run gives. The plan is one of `owner`'s. */
    struct wf_block *(*move)(struct wf_recorder *r, struct wf_op_plan *owner,
                             const struct wf_redist_plan *move, const struct weft_tensor *from);
    /** `view` is another handle to the bytes of `of`, made by this plan; or an input of it that is
     * moved to a layout in which every rank has what it had. */
    void (*view)(struct wf_recorder *r, struct wf_op_plan *plan, const struct weft_tensor *of,
                 const struct weft_tensor *view);
    /** The items of an optimizer's step, for n parameters; the call makes them again. Takes over
     * `call`, which has the items. */
    void (*update)(struct wf_recorder *r, const struct wf_changing_call *call,
                   struct weft_tensor *const *parameters, struct wf_optimizer_item *items, int n);
    /** Blocks of the pool come and go; only marked ones are heard of when they go. Any that is
     * about to be written in place. */
    void (*block_made)(struct wf_recorder *r, struct wf_block *block);
    void (*block_released)(struct wf_recorder *r, struct wf_block *block);
    void (*block_written)(struct wf_recorder *r, struct wf_block *block, const char *op);
    /** By which handle an op is about to write in place; NULL: no matter. */
    void (*handle_written)(struct wf_recorder *r, const struct weft_tensor *t, const char *op);
    /** A leaf's gradient is about to be used, or to become another tensor or none. */
    void (*gradient_changes)(struct wf_recorder *r, struct weft_tensor *leaf);
    /** Whether it delivers the leaf's gradient itself; then it gets its terms, in the leaf's
     * placements. */
    bool (*delivers)(struct wf_recorder *r, const struct weft_tensor *leaf);
    void (*deliver)(struct wf_recorder *r, struct weft_tensor *leaf, struct weft_tensor *grad);
    /** A collective is about to start. */
    void (*collective)(struct wf_recorder *r, const char *name);
    /** Somebody waits for the elements of a tensor that were put off. */
    void (*wait)(struct wf_recorder *r, const struct weft_tensor *t);
    int suspended;   /* depth of regions that are run as they are */
    bool is_whole;   /* the list is run instead of the program: what the library makes from sizes
                        alone   is a constant of it */
    bool hears_meta; /* ops on tensors without elements are handed over too; nothing is to run */
    /** The program does what no list has. */
    void (*leave)(struct wf_recorder *r, const char *reason);
};

/** Of this thread; NULL, the normal case: nobody records. */
extern _Thread_local struct wf_recorder *wf_recorder;

/** Nobody records a compiled function here, but other ranks may: where a recorder makes for other
 * messages, this thread sends those. */
extern _Thread_local bool wf_others_may_record;

/** Of the recording, so that a handle says in which it was made; 0: there is none. wf_next_...
 * takes another, as one begins; after 255 they start again. */
extern _Thread_local uint8_t wf_recording_number;
uint8_t wf_next_recording_number(void);

/** Ops' results may be put off: their handles are marked in flight. */
static inline bool wf_recorder_puts_off(void) { return wf_recorder && wf_recorder->wait; }

/** What the program does now is in no list: the reason. Nothing without a recorder. */
void wf_recorder_leave(const char *format, ...) WEFT_PRINTF(1, 2);
