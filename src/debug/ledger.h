/*
 * ledger.h: struct weft_ledger: one line per kind of event and module, and the modules that were
 * called.
 */
#pragma once

#include <weft/extend/debug.h>

#include "base/observers.h"

struct wf_ledger_line {
    uint64_t key;
    enum wf_event_kind kind;  /* WF_EVENT_COLL, WF_EVENT_OP or WF_EVENT_SYNCHRONIZATION */
    char *name, *axis, *path; /* path: "" at top level */
    const void *place;        /* identifies the module; NULL at top level */
    enum wf_phase phase;
    bool coalesced;            /* a collective */
    bool distributed, trivial; /* an op */
    struct weft_ledger_sum sum;
};

struct wf_ledger_parameter {
    char *name, *layout;
    uint64_t hash; /* of the layout: the text is made anew when it changes */
    bool distributed;
};

struct wf_ledger_module {
    const void *place;        /* identifies the module: its path's address */
    char *path, *name, *type; /* name: with the root's type */
    int parent, depth;
    int64_t calls;
    struct wf_ledger_parameter *parameters;
    int n_parameters;
};

struct weft_ledger {
    struct weft_ledger *next; /* of those that this thread has open */
    struct wf_ledger_line *lines;
    size_t n_lines;
    uint32_t *slots; /* open addressing over lines, 0: free, else 1 + index; at most half full */
    size_t n_slots;
    struct wf_ledger_module *modules; /* the first is "Global" */
    int n_modules;
    int observer; /* -1: stopped */
};

/** The module that a line belongs to; 0 when it was not called while the ledger was open. */
int wf_ledger_module_of_line(const weft_ledger *ledger, const struct wf_ledger_line *line);

/** The line belongs to the module or to something inside it; everything is inside module 0. */
bool wf_ledger_line_is_within(const weft_ledger *ledger, const struct wf_ledger_line *line,
                              int module);

/** Note that a module is called (ledger_modules.c). */
void wf_ledger_count_module_call(weft_ledger *ledger, const struct wf_event *event);

/** Drop all modules but "Global", or all. */
void wf_ledger_init_modules(weft_ledger *ledger);
void wf_ledger_free_modules(weft_ledger *ledger);

/** True for lines of this collective (WEFT_COLL_COUNT: any) and direction. */
bool wf_ledger_line_matches(const struct wf_ledger_line *line, weft_coll kind,
                            weft_direction direction);

void wf_ledger_sum_add(struct weft_ledger_sum *sum, const struct weft_ledger_sum *more);

/** "forward", "backward", "optim". */
const char *wf_phase_name(enum wf_phase phase);
