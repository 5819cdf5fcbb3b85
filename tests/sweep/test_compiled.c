/*
 * test_compiled.c: every public function compiled gives the bits that it gives as it is, in one
 * list and in segments: results, gradients, and which inputs have one.
 */
#include <string.h>

#include <weft/weft.h>

#include "support/worlds.h"
#include "sweep/calls.h"

enum { CALLS = 3 };

static weft_status function(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                            void *state)
{
    (void)n, (void)n_out;
    out[0] = wt_call_run(state, in);
    return out[0] ? WEFT_OK : weft_error_status();
}

/* Operand 0 in shards, where it has dims, or replicated like the others. */
static void make_inputs(const struct wt_sampled *sampled, weft_mesh *mesh, bool sharded,
                        weft_tensor **in)
{
    for (int i = 0; i < sampled->n_in; i++) {
        const struct wt_operand *o = &sampled->operand[i];
        weft_placement at = weft_replicate();

        in[i] = NULL;
        if (!o->present) continue;
        if (sharded && i == 0 && o->ndim && o->dtype != WEFT_BOOL) at = weft_shard(0);
        in[i] = weft_distribute_tensor(wt_sampled_plain(sampled, i), mesh, &at, -1);
        if (wt_wants_gradient(o)) weft_set_requires_grad(in[i], true);
    }
}

static bool same(weft_tensor *const *in, weft_tensor *y, weft_tensor *const *plain_in,
                 weft_tensor *plain, int n)
{
    if (!y || weft_requires_grad(y) != weft_requires_grad(plain) ||
        !wt_near_tensors(y, plain, WT_EXACT))
        return false;
    for (int i = 0; i < n; i++) {
        weft_tensor *grad = in[i] ? weft_grad(in[i]) : NULL;
        weft_tensor *plain_grad = plain_in[i] ? weft_grad(plain_in[i]) : NULL;

        if (!grad != !plain_grad || (grad && !wt_near_tensors(grad, plain_grad, WT_EXACT)))
            return false;
    }
    return true;
}

/* gives: false: immediate execution refuses it */
static bool check_call(struct wt_world *w, const struct wt_sampled *sampled,
                       const struct wt_call *call, weft_compiled *compiled, bool sharded, int k)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[WF_MAX_IN], *plain_in[WF_MAX_IN], *y = NULL, *plain;
    weft_status status;

    make_inputs(sampled, w->mesh, sharded, plain_in);
    make_inputs(sampled, w->mesh, sharded, in);
    weft_manual_seed(40 + (uint64_t)k);
    plain = wt_call_run(call, plain_in);
    weft_manual_seed(40 + (uint64_t)k);
    status = weft_compiled_call(compiled, in, sampled->n_in, &y, 1);
    WT_EQ(status == WEFT_OK, plain != NULL);
    if (plain && weft_requires_grad(plain)) {
        WT_ALL(wt_differentiate(y, w->mesh));
        WT_ALL(wt_differentiate(plain, w->mesh));
    }
    if (plain) WT_ALL(same(in, y, plain_in, plain, sampled->n_in));
    if (!plain) weft_error_clear();
    weft_scope_close(scope);
    return plain != NULL;
}

static void check(struct wt_world *w, const struct wt_call *call, bool fullgraph, bool sharded)
{
    weft_scope *scope = weft_scope_open();
    struct wt_sampled sampled;
    weft_compiled *compiled;
    bool given = true;

    wt_note("%s (%s), %s, %s", call->name, call->sample.operands,
            fullgraph ? "one list" : "segments", sharded ? "in shards" : "replicated");
    wt_sampled_open(&sampled, &call->sample);
    compiled = weft_compile(function, (void *)call,
                            (weft_compile_config){.name = call->name, .fullgraph = fullgraph});
    for (int k = 0; k < CALLS && given; k++)
        given = check_call(w, &sampled, call, compiled, sharded, k);
    if (given) {
        wt_note("%s: %s", call->name, weft_compiled_reason(compiled));
        WT_EQ(weft_compiled_get_counts(compiled).replays, CALLS - 1);
    }
    weft_compiled_release(compiled);
    wt_sampled_close(&sampled);
    weft_scope_close(scope);
}

WT_TEST_TIMES_IN_WORLD(functions__compiled_are_as_they_are, w, i, 4)
{
    for (int k = 0; k < wt_call_count; k++) check(w, &wt_calls[k], i & 1, i & 2);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "sweep_compiled"); }
