/* as_immediate.h: a compiled function beside the function itself, on the same inputs. */
#pragma once

#include "support/given.h"

struct wt_compiled_input {
    const char *layout; /* "S(0)"; NULL: plain */
    int64_t size[4];    /* ends with 0 */
    bool grad;
};

enum { WT_COMPILED_CALLS = 4 };

/** Both ways of compiling; `fullgraph` is 1 in the second. */
#define WT_BOTH_WAYS(fullgraph) for (int fullgraph = 0; fullgraph < 2; fullgraph++)

weft_compiled *wt_compile(weft_compiled_function *function, void *state, bool fullgraph);

/** Inputs of the k-th call: the same elements for equal k. */
void wt_compiled_inputs(struct wt_world *w, weft_tensor **in, const struct wt_compiled_input *of,
                        int n, int k);

/** Backward from the sum of the squares of each result that requires a gradient. */
void wt_backward_of_results(weft_tensor *const *out, int n);
/** Gradients of two leaves are the same bits. The second may have none where the first has zeros:
 * of a result that no loss has read, or an input of a function that might run again. */
bool wt_same_gradient(weft_tensor *compiled, weft_tensor *plain);
bool wt_same_placements(const weft_tensor *a, const weft_tensor *b);

/**
 * Call both WT_COMPILED_CALLS times on equal inputs, backward from the sum of each result where it
 * requires a gradient: results, their placements and the inputs' gradients are the same bits, and
 * all calls but the first replay one list.
 */
void wt_is_as_immediate(struct wt_world *w, weft_compiled_function *function, void *state,
                        bool fullgraph, const struct wt_compiled_input *of, int n_in, int n_out);

/** A compiled function of tests, and its one result. */
#define FUNCTION(name)                                                                             \
    static weft_status name(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,                  \
                            weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED,                      \
                            void *state CK_ATTRIBUTE_UNUSED)
#define GIVE(tensor) return (out[0] = (tensor)) ? WEFT_OK : weft_error_status()
