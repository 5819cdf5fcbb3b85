/*
 * call_list.h: a list as calls of ops on tensors, with the elements that go in. Calls are
 * dispatched as any, so a list of them is a function, which can run as it is or be compiled;
 * written to a file (call_file.c) it can do so elsewhere.
 */
#pragma once

#include <weft/compile.h>

#include "compile/list/op_list.h"

enum wf_call_kind {
    WF_CALL_OP,
    WF_CALL_MOVE, /* redistribute in[0] to the layout of out[0] */
    WF_CALL_COPY, /* elements of in[0] go into out[0], which is there */
    WF_CALL_FILL  /* out[0] is a plain tensor of one element everywhere */
};

struct wf_call {
    uint8_t kind, n_in, n_out;
    bool in_place; /* out[0] is there, and written over */
    uint16_t op;
    int in[WF_MAX_IN], out[WF_MAX_OUT]; /* slots; -1: there is none */
    int attr_words;
    union wf_op_attrs attrs;
    struct wf_scalars scalars;
    struct wf_layout *want; /* one reference; NULL: none */
    unsigned char element[8];
    char *module; /* NULL: of none */
};

/** A tensor of the list. */
struct wf_slot {
    struct wf_layout *layout; /* one reference */
    weft_tensor *input;       /* that goes in: a tensor of the list's own; NULL: a call makes it */
    char *bytes;              /* and its elements, row-major, as each run begins */
};

struct wf_call_list {
    struct wf_call *calls;
    int n_calls;
    struct wf_slot *slots;
    int n_slots;
    int *results; /* slots */
    int n_results;
    weft_mesh **meshes; /* of a list that was read: one reference each */
    int n_meshes;
    bool exact; /* layouts are those of when it was recorded, which is checked */
};

/**
 * Run the function once and make a list of its calls, with the elements as they are afterwards.
 *
 * ranks: as the function
 * fails: as the function; WEFT_ERR_STATE for what no list has, naming it
 */
weft_status wf_call_list_record(weft_compiled_function *function, void *state,
                                weft_tensor *const *in, int n_in, int n_out,
                                struct wf_call_list **list);
void wf_call_list_free(struct wf_call_list *list); /* NULL is allowed */

int wf_call_list_add_slot(struct wf_call_list *list, struct wf_layout *layout);
struct wf_call *wf_call_list_add_call(struct wf_call_list *list, enum wf_call_kind kind);
/** The slot becomes an input with these elements of this rank, row-major. fails: without memory */
weft_status wf_call_list_set_input(struct wf_call_list *list, int slot, const void *packed);

/** Bytes of this rank's elements. */
size_t wf_slot_bytes(const struct wf_slot *slot);

/** Its inputs are again as they were. */
weft_status wf_call_list_restore(const struct wf_call_list *list);

/** Run one call; `of` has the tensors by slot. */
weft_status wf_call_run(const struct wf_call_list *list, int i, weft_tensor **of);

/** "node 3 (tanh in blocks.0)" */
const char *wf_call_name(const struct wf_call_list *list, int i, char *text, size_t room);

/** Write the list of this rank, or read it; `path` gets the rank's number behind it. */
weft_status wf_call_list_write(struct wf_call_list *list, const char *path);
weft_status wf_call_list_read(const char *path, struct wf_call_list **list);

/** What became of a list when it was compiled. */
enum wf_verdict { WF_VERDICT_SAME, WF_VERDICT_DIFFERS, WF_VERDICT_FAILS };

/**
 * Run the list as it is and compiled, and compare. With `out` the first node that differs is looked
 * for and named. All ranks of the list's meshes agree. `first`: the node; -1: none, or not found.
 */
weft_status wf_call_list_compare(struct wf_call_list *list, const weft_compile_check *check,
                                 FILE *out, enum wf_verdict *verdict, int *first);
