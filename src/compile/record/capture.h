/* capture.h: running a function while its list is made. */
#pragma once

#include "compile/replay/variant.h"

/** What a capture gives beside the function's results. */
struct wf_capture_result {
    struct wf_variant *variant; /* NULL: there is no list: */
    char reason[WF_REASON_BYTES];
    bool may_succeed_later; /* a tensor was made that the function keeps: perhaps only once */
};

struct wf_captured_function {
    weft_compiled_function *function;
    void *state;
    const char *name, *passes_off;
    const weft_module *module;     /* whose calls it runs; NULL: a function's */
    weft_compile_backend *backend; /* NULL: the library's own */
    bool graph;                    /* lists on a GPU are launched as graphs */
    struct wf_undo *undo;          /* of a warm-up: what calls change is saved; NULL: none */
};

/** The function's call as immediate execution has it. */
weft_status wf_call_in_scope(const struct wf_captured_function *f, weft_tensor *const *in, int n_in,
                             weft_tensor **out, int n_out);

/** The same in segments: what cannot be in a list ends one. gives: NULL in `made` where there is no
 * list; result->reason says why */
struct wf_segmented;
weft_status wf_capture_segments(const struct wf_captured_function *f, weft_tensor *const *in,
                                int n_in, weft_tensor **out, int n_out, struct wf_segmented **made,
                                char *reason, size_t room);

/** Call the function, whose results are those of any call, and make a variant of it. All ranks of
 * the inputs' mesh agree on success. */
weft_status wf_capture_function(const struct wf_captured_function *f, weft_tensor *const *in,
                                int n_in, weft_tensor **out, int n_out,
                                struct wf_capture_result *result);
