/* state.h: struct weft_state: a list of named tensors and values that can be saved and loaded. */
#pragma once

#include <stdbool.h>

#include <weft/checkpoint.h>

enum wf_state_item_kind {
    WF_STATE_TENSOR,
    WF_STATE_INT,
    WF_STATE_REAL,
    WF_STATE_BYTES,
    WF_STATE_GENERATOR,
    WF_STATE_OPTIM_STEPS,  /* of an optimizer */
    WF_STATE_OPTIM_LR,     /* its learning rate */
    WF_STATE_OPTIM_UPDATES /* of the parameter `tensor` */
};

struct wf_state_item {
    char *name;
    enum wf_state_item_kind kind;
    weft_tensor *tensor; /* one reference, or NULL */
    void *where;
    size_t bytes;
};

struct weft_state {
    struct wf_state_item *items;
    int64_t count;
};

/** A value that is no tensor as text, "int 12"; wf_malloc'ed. */
char *wf_state_value_text(const struct wf_state_item *item);

/** Read that text back; with `put` it is written to where it belongs. gives: false when it is not
 *  such a thing's */
bool wf_state_value_parse(const struct wf_state_item *item, const char *text, bool put);

/** The item of this name, -1: none. */
int64_t wf_state_find_item(const weft_state *state, const char *name);
