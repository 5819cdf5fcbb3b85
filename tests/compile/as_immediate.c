/* as_immediate.c: calls of a compiled function and of the function itself, by turns. */
#include <string.h>

#include "as_immediate.h"

#include <stdlib.h>

enum { MOST = 64 };

weft_compiled *wt_compile(weft_compiled_function *function, void *state, bool fullgraph)
{
    return wt_own(weft_compile(function, state,
                               (weft_compile_config){.name = "tested", .fullgraph = fullgraph}));
}

void wt_compiled_inputs(struct wt_world *w, weft_tensor **in, const struct wt_compiled_input *of,
                        int n, int k)
{
    for (int i = 0; i < n; i++) {
        int64_t numel = 1;
        int ndim = 0;
        float *values;

        while (ndim < 4 && of[i].size[ndim]) numel *= of[i].size[ndim++];
        values = calloc((size_t)numel, sizeof *values);
        for (int64_t e = 0; e < numel; e++) values[e] = (float)wt_element(i + 5 * k, e);
        in[i] = weft_from_data(WEFT_F32, of[i].size, ndim, values);
        free(values);
        if (of[i].layout) in[i] = wt_spread(w, in[i], of[i].layout);
        if (of[i].grad) in[i] = weft_set_requires_grad(in[i], true);
    }
}

void wt_backward_of_results(weft_tensor *const *out, int n)
{
    weft_tensor *total = NULL;

    for (int i = 0; i < n; i++) {
        weft_tensor *sum;

        if (!out[i] || !weft_requires_grad(out[i])) continue;
        sum = weft_sum(weft_mul(out[i], out[i]), NULL, 0, false);
        sum = weft_tensor_mesh(sum) ? weft_full_tensor(sum) : sum;
        total = total ? weft_add(total, sum) : sum;
    }
    if (total) WT_ALL(weft_backward(total) == WEFT_OK);
}

bool wt_same_gradient(weft_tensor *compiled, weft_tensor *plain)
{
    weft_tensor *x = weft_grad(compiled), *y = weft_grad(plain);

    if (!y) return !x || weft_item(weft_full_tensor(weft_sum_all(weft_abs(x)))) == 0;
    return x && wt_near_tensors(x, y, WT_EXACT);
}

bool wt_same_placements(const weft_tensor *a, const weft_tensor *b)
{
    weft_mesh *mesh = weft_tensor_mesh(a);

    if (mesh != weft_tensor_mesh(b)) return false;
    for (int x = 0; mesh && x < weft_mesh_ndim(mesh); x++)
        if (!weft_placement_equal(weft_tensor_placement(a, x), weft_tensor_placement(b, x)))
            return false;
    return true;
}

void wt_is_as_immediate(struct wt_world *w, weft_compiled_function *function, void *state,
                        bool fullgraph, const struct wt_compiled_input *of, int n_in, int n_out)
{
    weft_compiled *compiled = wt_compile(function, state, fullgraph);
    weft_compiled_counts counts;

    for (int k = 0; k < WT_COMPILED_CALLS; k++) {
        weft_tensor *in[MOST], *plain[MOST], *out[MOST] = {0}, *want[MOST] = {0};
        weft_scope *scope = weft_scope_open();

        wt_note("%s, call %d", fullgraph ? "whole" : "segments", k);
        wt_compiled_inputs(w, in, of, n_in, k);
        wt_compiled_inputs(w, plain, of, n_in, k);
        WT_ALL(weft_compiled_call(compiled, in, n_in, out, n_out) == WEFT_OK);
        WT_ALL(function(plain, n_in, want, n_out, state) == WEFT_OK);
        for (int i = 0; i < n_out; i++) {
            WT_ALL(wt_same_placements(out[i], want[i]));
            WT_ALL(weft_requires_grad(out[i]) == weft_requires_grad(want[i]));
            WT_ALL(wt_near_tensors(out[i], want[i], WT_EXACT));
        }
        wt_backward_of_results(out, n_out);
        wt_backward_of_results(want, n_out);
        for (int i = 0; i < n_in; i++)
            if (of[i].grad)
                WT_ALL(wt_near_tensors(weft_grad(in[i]), weft_grad(plain[i]), WT_EXACT));
        weft_scope_close(scope);
    }
    counts = weft_compiled_get_counts(compiled);
    wt_note("%s: %s", fullgraph ? "whole" : "segments", weft_compiled_reason(compiled));
    WT_EQ(counts.captures, 1);
    WT_EQ(counts.replays, WT_COMPILED_CALLS - 1);
    WT_EQ(counts.plain, 0);
}
