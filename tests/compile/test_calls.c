/*
 * test_calls.c: which list a call runs, what it changes beside its results, and what is refused.
 */
/* mpi: 2 */
#include <stdio.h>
#include <string.h>

#include "as_immediate.h"
#include "support/near_modules.h"

static weft_tensor *call1(weft_compiled *compiled, weft_tensor *x)
{
    weft_tensor *out = NULL;

    WT_ALL(weft_compiled_call(compiled, &x, 1, &out, 1) == WEFT_OK);
    return out;
}

/* ---- guards ---- */

FUNCTION(add_one) { GIVE(weft_add_scalar(in[0], 1)); }

static bool has_reason(const weft_compiled *compiled, const char *part)
{
    const char *reason = weft_compiled_reason(compiled);

    return part ? reason && strstr(reason, part) : !reason;
}

/* B29, B44, A25: a miss names the input; equal layouts made anew do not miss. */
WT_TEST_IN_WORLD(other_inputs__are_other_lists, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(add_one, NULL, fullgraph);

        for (int k = 0; k < 12; k++) {
            static const char *const layouts[] = {"S(0)", "R", "S(1)"};
            weft_tensor *whole = wt_whole(k % 4 == 3 ? WEFT_F64 : WEFT_F32, k, 4, 6);
            weft_tensor *x = wt_spread(w, whole, layouts[k % 3]);

            WT_ALL(wt_near_tensors(call1(compiled, x), weft_add_scalar(whole, 1), WT_EXACT));
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 6);
        WT_EQ(weft_compiled_get_counts(compiled).replays, 6);
    }
}

/* B29: beyond the limit calls run the function */
WT_TEST_IN_WORLD(too_many_lists__run_the_function, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_own(weft_compile(
            add_one, NULL, (weft_compile_config){.fullgraph = fullgraph, .most_variants = 2}));

        for (int k = 0; k < 10; k++) {
            weft_tensor *whole = wt_whole(WEFT_F32, k, 2 + k % 5, 3);

            WT_ALL(wt_near_tensors(call1(compiled, wt_spread(w, whole, "S(0)")),
                                   weft_add_scalar(whole, 1), WT_EXACT));
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
        WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
        WT_EQ(weft_compiled_get_counts(compiled).immediate, 6);
        WT_ALL(has_reason(compiled, "input 0 is"));
    }
}

/* B33 */
WT_TEST_IN_WORLD(frozen__makes_no_list, w)
{
    weft_compiled *frozen =
        wt_own(weft_compile(add_one, NULL, (weft_compile_config){.frozen = true}));
    weft_compiled *refuses =
        wt_own(weft_compile(add_one, NULL, (weft_compile_config){.frozen_error = true}));
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 4), "S(0)"), *y;

    WT_ALL(wt_near_tensors(call1(frozen, x), weft_add_scalar(x, 1), WT_EXACT));
    WT_EQ(weft_compiled_get_counts(frozen).captures, 0);
    WT_ALL(has_reason(frozen, "no list has been made"));
    WT_FAILS(weft_compiled_call(refuses, &x, 1, &y, 1), WEFT_ERR_STATE, "no list fits");
}

/* Modes of the thread. */
WT_TEST_IN_WORLD(modes__are_guarded, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(add_one, NULL, fullgraph);

        for (int k = 0; k < 4; k++) {
            weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, k, 4, 4), "R"),
                                                    true),
                        *y;

            if (k % 2) weft_no_grad_open();
            y = call1(compiled, x);
            if (k % 2) WT_ALL(weft_no_grad_close() == WEFT_OK);
            WT_ALL(weft_requires_grad(y) == !(k % 2));
            if (!(k % 2))
                WT_ALL(weft_backward(weft_full_tensor(weft_sum(y, NULL, 0, false))) == WEFT_OK);
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
        WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
    }
}

/* CAP-09: sizes that change are planned anew without a capture; another way through the program,
 * taken for its size, is one. */
FUNCTION(more_of_the_large)
{
    weft_tensor *x = weft_mul(in[0], in[0]);

    GIVE(weft_size(x, 0) <= 16 ? weft_add_scalar(x, 1) : weft_sub(weft_add_scalar(x, 2), in[0]));
}

WT_TEST_IN_WORLD(dynamic_sizes__are_planned, w)
{
    static const int64_t sizes[][2] = {{4, 4}, {6, 8}, {10, 10}, {1, 3}, {64, 8}, {4, 4}};

    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled =
            wt_own(weft_compile(more_of_the_large, NULL,
                                (weft_compile_config){.fullgraph = fullgraph, .dynamic = true}));

        for (int k = 0; k < 6; k++) {
            weft_tensor *whole = wt_whole(WEFT_F32, k, sizes[k][0], sizes[k][1]), *want;

            WT_ALL(more_of_the_large(&whole, 1, &want, 1, NULL) == WEFT_OK);
            WT_ALL(wt_near_tensors(call1(compiled, wt_spread(w, whole, "S(0)")), want, WT_EXACT));
            WT_EQ(weft_compiled_get_counts(compiled).captures, k < 4 ? 1 : 2);
        }
        WT_EQ(weft_compiled_get_counts(compiled).plans, 3);
        WT_EQ(weft_compiled_get_counts(compiled).replays, 1);
    }
}

/* ---- modules ---- */

WT_TEST_IN_WORLD(compiled_module__is_as_the_module, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_module *mlp[2];

        for (int i = 0; i < 2; i++) {
            weft_manual_seed(3);
            mlp[i] = wt_own(weft_sequential_new());
            WT_ALL(weft_module_add_child(
                       mlp[i], "mlp",
                       weft_mlp((weft_mlp_config){.in = 6, .hidden = 8, .out = 6})) == WEFT_OK);
            WT_ALL(weft_module_add_child(mlp[i], "drop", weft_dropout_new(0.5)) == WEFT_OK);
        }
        WT_ALL(weft_compile_module(mlp[0], NULL, (weft_compile_config){.fullgraph = fullgraph}) ==
               WEFT_OK);
        WT_FAILS(weft_compile_module(mlp[0], "nothing.*", (weft_compile_config){0}),
                 WEFT_ERR_NOT_FOUND, "nothing");
        WT_FAILS(weft_compile_module(mlp[0], NULL, (weft_compile_config){0}), WEFT_ERR_STATE,
                 "compiled already");
        for (int k = 0; k < 9; k++) {
            weft_tensor *x = wt_whole(WEFT_F32, k, 5, 6), *y[2];

            for (int i = 0; i < 2; i++) {
                weft_module_train(mlp[i], k % 3 != 1);
                weft_manual_seed((uint64_t)k);
                y[i] = weft_call(mlp[i], x);
                WT_ALL(weft_backward(weft_sum(weft_mul(y[i], y[i]), NULL, 0, false)) == WEFT_OK);
            }
            WT_ALL(wt_near_tensors(y[0], y[1], WT_EXACT));
            WT_NEAR_PARAMETERS(mlp[0], mlp[1], WT_EXACT);
            WT_ALL(wt_near_tensors(weft_grad(weft_module_parameter(mlp[0], "mlp.up.weight")),
                                   weft_grad(weft_module_parameter(mlp[1], "mlp.up.weight")),
                                   WT_EXACT));
        }
        WT_EQ(weft_compiled_get_counts(weft_module_compiled(mlp[0])).captures, 2);
        WT_EQ(weft_compiled_get_counts(weft_module_compiled(mlp[0])).replays, 7);
        WT_ALL(!weft_module_compiled(mlp[1]));
    }
}

/* ---- what a call changes ---- */

struct counter {
    weft_tensor *total;
};

FUNCTION(add_to_total)
{
    struct counter *c = state;

    if (!weft_add_(c->total, in[0]) || !weft_mul_scalar_(in[0], 2)) return weft_error_status();
    GIVE(weft_mul_scalar(c->total, 3));
}

/* A15: writes in place to inputs and to what was there before */
WT_TEST_IN_WORLD(writes_in_place__are_seen, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        struct counter c = {
            weft_retain(wt_spread(w, weft_full(WEFT_F32, (int64_t[]){5, 4}, 2, 0), "S(0)"))};
        weft_compiled *compiled = wt_compile(add_to_total, &c, fullgraph);
        weft_tensor *sum = weft_full(WEFT_F32, (int64_t[]){5, 4}, 2, 0);

        for (int k = 0; k < 4; k++) {
            weft_tensor *whole = wt_whole(WEFT_F32, k, 5, 4), *y;
            weft_tensor *x = weft_clone(wt_spread(w, whole, "S(0)"));
            int64_t before = weft_tensor_version(x);

            sum = weft_add(sum, whole);
            y = call1(compiled, x);
            WT_ALL(wt_near_tensors(x, weft_mul_scalar(whole, 2), WT_EXACT));
            WT_ALL(wt_near_tensors(c.total, sum, WT_EXACT));
            WT_ALL(wt_near_tensors(y, weft_mul_scalar(sum, 3), WT_EXACT));
            WT_ALL(weft_tensor_version(x) > before);
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
        WT_EQ(weft_compiled_get_counts(compiled).replays, 3);
        weft_release(c.total);
    }
}

FUNCTION(add_inputs) { GIVE(weft_mul_(weft_add_(in[0], in[1]), in[1])); }

/* Inputs that are one tensor are another list than two. */
WT_TEST_IN_WORLD(aliases_among_inputs__are_guarded, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(add_inputs, NULL, fullgraph);

        for (int k = 0; k < 6; k++) {
            weft_tensor *a = wt_whole(WEFT_F32, k, 4, 4),
                        *b = k % 2 ? a : wt_whole(WEFT_F32, k + 1, 4, 4);
            weft_tensor *in[2], *y, *want;

            in[0] = weft_clone(wt_spread(w, a, "S(0)"));
            in[1] = k % 2 ? in[0] : wt_spread(w, b, "S(0)");
            want = k % 2 ? weft_mul(weft_add(a, a), weft_add(a, a)) : weft_mul(weft_add(a, b), b);
            WT_ALL(weft_compiled_call(compiled, in, 2, &y, 1) == WEFT_OK);
            WT_ALL(wt_near_tensors(y, want, WT_EXACT));
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
        WT_EQ(weft_compiled_get_counts(compiled).replays, 4);
    }
}

/* ---- the program goes another way ---- */

FUNCTION(branch_on_value)
{
    weft_tensor *x = weft_mul_scalar(in[0], 3),
                *sum = weft_full_tensor(weft_sum(x, NULL, 0, false));

    if (weft_item(sum) > 0) GIVE(weft_add_scalar(x, 1));
    GIVE(weft_mul(weft_sub_scalar(x, 1), x));
}

/* B42, B44: each branch has its list; only what differs is made anew. */
WT_TEST_IN_WORLD(branch_on_a_value__is_followed, w)
{
    weft_compiled *compiled = wt_compile(branch_on_value, NULL, false);

    for (int k = 0; k < 12; k++) {
        double value = (k / 3) % 2 ? -1 - k : 1 + k;
        weft_tensor *x = wt_spread(w, weft_full(WEFT_F32, (int64_t[]){4, 4}, 2, value), "S(0)"),
                    *want;

        WT_ALL(branch_on_value(&x, 1, &want, 1, NULL) == WEFT_OK);
        WT_ALL(wt_near_tensors(call1(compiled, x), want, WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
    WT_ALL(weft_compiled_get_counts(compiled).replays >= 9);
    WT_ALL(has_reason(compiled, NULL));
}

struct step_number {
    int64_t step;
};

FUNCTION(scale_by_step)
{
    struct step_number *s = state;

    GIVE(weft_add(weft_mul_scalar(in[0], (double)s->step++), in[0]));
}

/* A number that the program changes is noticed: in segments the result is right. */
WT_TEST_IN_WORLD(number_that_changes__is_noticed, w)
{
    struct step_number s = {1};
    weft_compiled *compiled = wt_compile(scale_by_step, &s, false);

    for (int k = 1; k < 8; k++) {
        weft_tensor *whole = wt_whole(WEFT_F32, k, 4, 4);

        WT_ALL(wt_near_tensors(call1(compiled, wt_spread(w, whole, "S(0)")),
                               weft_add(weft_mul_scalar(whole, k), whole), WT_EXACT));
    }
}

FUNCTION(keep_a_part)
{
    weft_tensor **kept = state, *x = weft_add_scalar(in[0], 1);

    if (kept[0]) weft_release(kept[0]);
    kept[0] = weft_retain(weft_mul_scalar(x, 2));
    GIVE(weft_mul_scalar(x, 5));
}

/* What the function keeps would not be made again: in one list that is refused, in segments it is.
 */
WT_TEST_IN_WORLD(tensor_that_is_kept, w)
{
    weft_tensor *kept[1] = {NULL}, *x, *y;
    weft_compiled *segments = wt_compile(keep_a_part, kept, false);
    weft_compiled *whole = wt_compile(keep_a_part, kept, true);

    for (int k = 0; k < 4; k++) {
        weft_tensor *of = wt_whole(WEFT_F32, k, 4, 4);

        y = call1(segments, wt_spread(w, of, "S(0)"));
        WT_ALL(wt_near_tensors(y, weft_mul_scalar(weft_add_scalar(of, 1), 5), WT_EXACT));
        WT_ALL(wt_near_tensors(kept[0], weft_mul_scalar(weft_add_scalar(of, 1), 2), WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(segments).replays, 3);
    x = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 4), "S(0)");
    WT_ALL(weft_compiled_call(whole, &x, 1, &y, 1) == WEFT_OK);
    WT_FAILS(weft_compiled_call(whole, &x, 1, &y, 1), WEFT_ERR_STATE, "it keeps a tensor that mul");
    weft_release(kept[0]);
}

/* ---- regions that are not compiled ---- */

FUNCTION(partly_compiled)
{
    weft_tensor *x = weft_mul_scalar(in[0], 2);
    struct step_number *s = state;

    weft_compile_disable_open();
    x = weft_add_scalar(x, (double)s->step++);
    if (weft_compile_disable_close() != WEFT_OK) return weft_error_status();
    GIVE(weft_mul(x, x));
}

WT_TEST_IN_WORLD(disabled_region__runs_in_every_call, w)
{
    struct step_number s = {0};
    weft_compiled *compiled = wt_compile(partly_compiled, &s, false);
    weft_compiled *whole = wt_compile(partly_compiled, &s, true);
    weft_tensor *in, *out;

    for (int k = 0; k < 5; k++) {
        weft_tensor *of = wt_whole(WEFT_F32, k, 5, 3);
        weft_tensor *x = weft_add_scalar(weft_mul_scalar(of, 2), k);

        WT_ALL(
            wt_near_tensors(call1(compiled, wt_spread(w, of, "S(0)")), weft_mul(x, x), WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 4);
    in = wt_spread(w, wt_whole(WEFT_F32, 0, 5, 3), "S(0)");
    WT_FAILS(weft_compiled_call(whole, &in, 1, &out, 1), WEFT_ERR_STATE, "not compiled");
}

FUNCTION(fail_in_a_region)
{
    (void)in, (void)out;
    weft_compile_disable_open();
    return WEFT_ERR_ARG;
}

WT_TEST_IN_WORLD(region_left_open_by_a_failure__is_closed, w)
{
    weft_compiled *fails = wt_compile(fail_in_a_region, NULL, false);
    weft_compiled *compiled = wt_compile(add_one, NULL, true);
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 4), "S(0)"), *y;

    WT_ALL(weft_compiled_call(fails, &x, 1, &y, 1) == WEFT_ERR_ARG);
    for (int k = 0; k < 2; k++) call1(compiled, x);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 1);
    WT_FAILS(weft_compile_disable_close(), WEFT_ERR_STATE, "no region is open");
}

/* ---- backward of parts ---- */

FUNCTION(two_results)
{
    out[0] = weft_mul(in[0], in[1]);
    out[1] = weft_add(in[0], in[1]);
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

/* B8: backward from one of two results, between immediate ops; a second one of the same call. The
 * terms of an input's gradient are added up before they reach it, so the order of sums is another.
 */
WT_TEST_IN_WORLD(backward_from_some_results, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(two_results, NULL, fullgraph);

        for (int k = 0; k < 6; k++) {
            static const struct wt_compiled_input of[] = {{"S(0)", {6, 4}, true},
                                                          {"S(0)", {6, 4}, true}};
            weft_tensor *in[2], *plain[2], *y[2], *want[2], *loss[2];

            wt_compiled_inputs(w, in, of, 2, k);
            wt_compiled_inputs(w, plain, of, 2, k);
            WT_ALL(weft_compiled_call(compiled, (weft_tensor *[]){weft_mul_scalar(in[0], 2), in[1]},
                                      2, y, 2) == WEFT_OK);
            WT_ALL(two_results((weft_tensor *[]){weft_mul_scalar(plain[0], 2), plain[1]}, 2, want,
                               2, NULL) == WEFT_OK);
            for (int side = 0; side < 2; side++) {
                weft_tensor **r = side ? want : y;

                loss[side] = k % 3 == 2 ? weft_add(r[0], weft_mul(r[1], r[1])) : r[k % 3];
                loss[side] =
                    weft_full_tensor(weft_sum(weft_mul(loss[side], loss[side]), NULL, 0, false));
                WT_ALL(weft_backward_retain(loss[side]) == WEFT_OK);
                WT_ALL(weft_backward(loss[side]) == WEFT_OK);
            }
            for (int i = 0; i < 2; i++)
                WT_ALL(wt_near_tensors(weft_grad(in[i]), weft_grad(plain[i]), WT_WITHIN(1e-6)));
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    }
}

/* What backward would read was written since: refused, as in immediate execution. */
WT_TEST_IN_WORLD(written_before_backward__is_refused, w)
{
    static const struct wt_compiled_input of[] = {{"R", {4, 4}, true}, {"R", {4, 4}, false}};
    weft_compiled *compiled = wt_compile(two_results, NULL, true);

    for (int k = 0; k < 2; k++) {
        weft_tensor *in[2], *y[2], *loss;

        wt_compiled_inputs(w, in, of, 2, k);
        in[1] = weft_clone(in[1]);
        WT_ALL(weft_compiled_call(compiled, in, 2, y, 2) == WEFT_OK);
        loss = weft_full_tensor(weft_sum(y[0], NULL, 0, false));
        if (k) WT_ALL(weft_mul_scalar_(in[1], 2) != NULL);
        if (k)
            WT_FAILS(weft_backward(loss), WEFT_ERR_STATE, "written in place");
        else
            WT_ALL(weft_backward(loss) == WEFT_OK);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "calls"); }
