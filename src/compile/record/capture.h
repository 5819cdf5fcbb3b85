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
    weft_compile_backend *backend; /* NULL: the library's own */
};

/** Call the function, whose results are those of any call, and make a variant of it. All ranks of
 * the inputs' mesh agree on success. */
weft_status wf_capture_function(const struct wf_captured_function *f, weft_tensor *const *in,
                                int n_in, weft_tensor **out, int n_out,
                                struct wf_capture_result *result);
