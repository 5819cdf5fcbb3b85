/* guards.h: what has to be as it was when a list was made. */
#pragma once

#include <weft/extend/guard.h>

#include "compile/record/recorder.h"
#include "nn/module.h"

enum { WF_COMPILED_INPUTS = 64 };

struct wf_guarded_input {
    struct wf_layout *layout; /* one reference; NULL: no tensor was given */
    bool requires_grad, leaf, in_flight;
    int alias; /* of the first input with the same bytes: itself where there is none before */
    int64_t alias_offset;
};

/** What a call of a module depends on beside its inputs. */
struct wf_guarded_module {
    const weft_module *module;     /* while `watch` says that it is as it was */
    struct wf_module_watch *watch; /* one reference */
    uint64_t changes;
    weft_tensor **tensors; /* its own parameters and buffers; compared, not read */
    int n_tensors, n_hooks;
    bool training;
};

struct wf_guards {
    struct wf_guarded_input *in;
    int n_in, n_out;
    bool no_grad, local_random;
    weft_guard guard;
    weft_implicit_replication replication;
    unsigned scope_modes;
    weft_mesh *saved_shard_mesh;
    struct wf_external_tensor *externals;
    int n_externals;
    struct wf_guarded_module *modules; /* that the function has called */
    int n_modules;
    bool of_replicas; /* some module is one: a plain input may have another shape on each */
};

struct wf_guards *wf_guards_new(weft_tensor *const *in, int n_in, int n_out);
void wf_guards_free(struct wf_guards *guards); /* NULL is allowed */

/** Tensors from outside whose gradient flags belong to the guards; takes them over. */
void wf_guards_take_externals(struct wf_guards *guards, struct wf_list_recorder *r);

/** The function has called this module: once for each. */
void wf_guards_add_module(struct wf_guards *guards, const weft_module *m);

/** True when a list with these guards may run; else what differs, in `why`, unless that is NULL. */
bool wf_guards_hold(const struct wf_guards *guards, const struct wf_op_list *list,
                    weft_tensor *const *in, int n_in, int n_out, char *why, size_t room);
