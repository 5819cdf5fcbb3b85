/*
 * recorder.h: makes a list of what a function does while it runs (base/recorder.h).
 */
#pragma once

#include "base/recorder.h"
#include "compile/list/op_list.h"
#include "compile/record/block_map.h"
#include "compile/record/undo.h"

enum { WF_REASON_BYTES = 320 };

/** A break: where one list ends and, in segments, the next begins. */
struct wf_list_break {
    char reason[WF_REASON_BYTES]; /* empty: a cut that the program does not see */
    const char *module;
    int node; /* how many nodes came before it */
    bool *
        alive; /* when `segments`: made storages that something still holds then; n_alive of them */
    int n_alive;
};

/** Gradients of leaves that the list itself makes, to be delivered after it. */
struct wf_delivery {
    weft_tensor *leaf, *grad; /* one reference each */
};

/** A tensor from outside that an op reads. One reference. */
struct wf_external_tensor {
    weft_tensor *tensor;
    bool requires_grad;
    int32_t places; /* it is a parameter in so many; of the end of the recording */
};

struct wf_list_recorder {
    struct wf_recorder base;
    struct wf_op_list *list;
    struct wf_block_map blocks;
    int executing;  /* depth: what runs now is written down as a whole */
    bool segments;  /* what cannot be in a list ends a segment, and another begins */
    uint8_t number; /* wf_recording_number of what is made in it */
    weft_tensor *const *inputs, *const *aliases; /* as they were given, and as the function gets
                                                    them; NULL: the same */
    int n_inputs;
    uint64_t tape_start; /* nodes that were on the tape before */
    int pending_writes;  /* writes in place of which no node has come yet */
    const char *pending_op;
    bool is_backward; /* gradients of leaves are results: */
    struct wf_delivery *deliveries;
    int n_deliveries;
    struct wf_list_break *breaks;
    int n_breaks;
    struct wf_external_tensor *externals;
    int n_externals;
    struct wf_undo *undo; /* of a warm-up: what is changed is saved first; NULL: it stays */
};

/** Begin: until wf_recording_end this thread's work is recorded. */
void wf_recording_begin(struct wf_list_recorder *r);
/** No longer record; what follows is not in the list. gives: why the list can never run again;
 * NULL: it can, up to the breaks */
const char *wf_recording_end(struct wf_list_recorder *r);
/** Free what is left of the recorder; the list too, unless it was taken (list = NULL). */
void wf_recording_free(struct wf_list_recorder *r);

/** This tensor is an input of the list: `kind` WF_STORAGE_INPUT or _FORWARD. */
void wf_recording_add_input(struct wf_list_recorder *r, const weft_tensor *t, int index);
/** These bytes are storage `index` of the forward list. */
void wf_recording_add_forward(struct wf_list_recorder *r, struct wf_block *block,
                              const struct wf_storage *of, int index);

/** Where a tensor lies, with a reference to its layout. An unknown block becomes an external one.
 */
struct wf_operand wf_recording_operand(struct wf_list_recorder *r, const weft_tensor *t);

/** Run the kernel on its operands, which are there / the items of an optimizer's step. */
void wf_recording_run_kernel(const struct wf_kernel_run_request *call);
void wf_recording_run_update(weft_tensor *const *parameters, const struct wf_optimizer_item *items,
                             int n);

/** A handle to an input that was made before the recording, and is not the function's own. */
bool wf_recording_is_external_input_handle(const struct wf_list_recorder *r, const weft_tensor *t);

/** The storage of a block; -1: it is not known. */
int wf_recording_find(const struct wf_list_recorder *r, const struct wf_block *block);

/** The list cannot be run again, or a segment ends: the reason and where. Empty: a cut that is no
 * break. */
void wf_recording_break(struct wf_list_recorder *r, const char *reason);
