/* state.h: what stands behind weft_state: a list of named things that can be saved and put back. */
#pragma once

#include <stdbool.h>

#include <weft/checkpoint.h>

enum wf_thing {
    WF_THING_TENSOR,
    WF_THING_INT,
    WF_THING_REAL,
    WF_THING_BYTES,
    WF_THING_GENERATOR,
    WF_THING_STEPS,  /* of an optimizer */
    WF_THING_RATE,   /* its learning rate */
    WF_THING_UPDATES /* of the parameter `tensor` */
};

struct wf_item {
    char *name;
    enum wf_thing thing;
    weft_tensor *tensor; /* one reference, or NULL */
    void *where;
    size_t bytes;
};

struct weft_state {
    struct wf_item *items;
    int64_t count;
};

/** A thing that is no tensor as text, "int 12"; wf_malloc'ed. */
char *wf_value_text(const struct wf_item *item);

/** Read that text back; with `put` it is written to where it belongs. gives: false when it is not
 *  such a thing's */
bool wf_value_read(const struct wf_item *item, const char *text, bool put);

/** The item of this name, -1: none. */
int64_t wf_state_find(const weft_state *state, const char *name);
