/*
 * test_which_list.c: what a list depends on beside its inputs' layouts changes, on all ranks or on
 * one: no list runs that would give other numbers, and all ranks do the same.
 */
/* ranks: 1 2 3 4 */
#include "as_immediate.h"
#include "support/near_modules.h"

static weft_tensor *rows(struct wt_world *w, int which)
{
    return wt_spread(w, wt_whole(WEFT_F32, which, 5, 4), "S(0)");
}

/* ---- inputs ---- */

FUNCTION(double_it) { GIVE(weft_mul_scalar(in[0], 2)); }

/* A shard of one row lies alike in a matrix and in a transposed one. */
static weft_tensor *either_way(struct wt_world *w, int k)
{
    weft_tensor *across = wt_spread(w, wt_whole(WEFT_F32, k, 4, 5), "S(1)");

    return k % 2 ? weft_transpose(across, 0, 1) : rows(w, k);
}

/* There the first list fits. */
WT_TEST_IN_WORLD(inputs_that_lie_otherwise_on_some_ranks__are_noticed_by_all, w)
{
    weft_compiled *compiled = wt_compile(double_it, NULL, true);

    for (int k = 0; k < 6; k++) {
        weft_tensor *x = either_way(w, k), *y;

        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_mul_scalar(x, 2), WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 4);
}

/* Each rank wraps a shard that lies as it likes; made contiguous, it is a copy on some ranks alone.
 */
static weft_tensor *wrapped(struct wt_world *w, int k, bool transposed)
{
    weft_tensor *local = wt_whole(WEFT_F32, k + wt_rank(), 4, 4);

    return weft_from_local(transposed ? weft_transpose(local, 0, 1) : local, w->mesh,
                           (weft_placement[]){weft_shard(0)}, NULL);
}

WT_TEST_TIMES_IN_WORLD(shards_that_ranks_have_wrapped__are_noticed_by_all, w, made_contiguous, 2)
{
    weft_compiled *compiled = wt_compile(double_it, NULL, true);

    for (int k = 0; k < 6; k++) {
        weft_tensor *x = wrapped(w, k, k % 2 && wt_rank() % 2), *y;

        if (made_contiguous) x = weft_contiguous(x);
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_mul_scalar(x, 2), WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, made_contiguous || wt_ranks() == 1 ? 1 : 2);
}

FUNCTION(make_contiguous) { GIVE(weft_contiguous(in[0])); }

/* What one function gives, another takes. */
WT_TEST_IN_WORLD(results_of_wrapped_shards__are_wrapped, w)
{
    weft_compiled *first = wt_compile(make_contiguous, NULL, true);
    weft_compiled *second = wt_compile(double_it, NULL, true);

    for (int k = 0; k < 4; k++) {
        weft_tensor *x = wrapped(w, k, wt_rank() % 2), *h, *y;

        WT_ALL(weft_compiled_call(first, &x, 1, &h, 1) == WEFT_OK);
        WT_ALL(weft_compiled_call(second, &h, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_mul_scalar(x, 2), WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(second).replays, 3);
}

struct weights {
    weft_tensor *t[2];
    weft_compiled *within; /* NULL: none */
};

FUNCTION(reduce_within)
{
    struct weights *weights = state;
    weft_tensor *h = weft_matmul(in[0], weights->t[0]), *given = h;

    if (weights->within && weft_compiled_call(weights->within, &given, 1, &h, 1) != WEFT_OK)
        return weft_error_status();
    out[0] = weft_full_tensor(weft_sum_all(weft_matmul(h, weights->t[1])));
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return weft_reduce_gradients(weights->t, 2);
}

/* Where no more lists are made, a rank that none fits runs beside others that follow one: the sums
 * of gradients are the same messages. */
WT_TEST_TIMES_IN_WORLD(segments_that_fit_on_some_ranks__send_the_same_messages, w, nested, 2)
{
    struct weights by[2] = {{.within = nested ? wt_compile(double_it, NULL, true) : NULL}};
    weft_compiled *compiled =
        wt_own(weft_compile(reduce_within, &by[0], (weft_compile_config){.most_variants = 1}));

    for (int i = 0; i < 2; i++)
        for (int n = 0; n < 2; n++)
            by[i].t[n] = weft_set_requires_grad(
                weft_detach(wt_spread(w, wt_whole(WEFT_F32, 7 + n, 4, 4), "R")), true);
    for (int k = 0; k < 6; k++) {
        weft_tensor *x = either_way(w, k), *y;

        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(reduce_within(&x, 1, &y, 1, &by[1]) == WEFT_OK);
        for (int n = 0; n < 2; n++) {
            weft_tensor *want = weft_mul_scalar(weft_grad(by[1].t[n]), nested ? 2 : 1);

            WT_ALL(wt_near_tensors(weft_grad(by[0].t[n]), want, WT_WITHIN(1e-5)));
            for (int i = 0; i < 2; i++) weft_zero_grad(by[i].t[n]);
        }
    }
}

/* ---- one rank alone ---- */

FUNCTION(keep_on_rank_0)
{
    weft_tensor **kept = state, *h = weft_mul(in[0], in[0]);

    if (wt_rank() == 0) {
        weft_release(kept[0]);
        kept[0] = weft_retain(h);
    }
    GIVE(weft_relu(h));
}

WT_TEST_TIMES_IN_WORLD(tensor_kept_on_one_rank__makes_no_replays_on_any, w, gradients, 2)
{
    weft_tensor *kept[1] = {NULL};
    weft_compiled *compiled = wt_compile(keep_on_rank_0, kept, true);

    for (int k = 0; k < 4; k++) {
        weft_tensor *x = weft_set_requires_grad(rows(w, k), gradients), *y;
        weft_status status = weft_compiled_call(compiled, &x, 1, &y, 1);

        wt_note("%d %s", (int)status, weft_compiled_reason(compiled));
        if (gradients || k != 1) { /* the first may be the last that is kept; then it is given up */
            WT_ALL(status == WEFT_OK);
            WT_ALL(wt_near_tensors(y, weft_mul(x, x), WT_EXACT));
            if (gradients) wt_backward_of_results(&y, 1);
        } else {
            WT_FAILED(WEFT_ERR_STATE, "keeps a tensor");
        }
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, 0);
    weft_release(kept[0]);
}

/* ---- modules and optimizers ---- */

FUNCTION(call_module) { GIVE(weft_call(state, in[0])); }

static weft_module *new_linear(uint64_t seed)
{
    weft_manual_seed(seed);
    return weft_linear_new((weft_linear_config){.in = {4}, .out = {8}});
}

/* Whether the old one is still there or not. */
WT_TEST_TIMES_IN_WORLD(child_that_is_replaced__is_not_called_any_more, w, i, 4)
{
    bool fullgraph = i % 2, goes = i / 2;
    weft_module *mlp = wt_own(weft_mlp((weft_mlp_config){.in = 4, .hidden = 8, .out = 3})), *old;
    weft_compiled *compiled = wt_compile(call_module, mlp, fullgraph);

    for (int k = 0; k < 6; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, 5, 4), *y;

        if (k == 3) {
            old = weft_module_replace_child(mlp, "up", new_linear(77));
            WT_ALL(old != NULL);
            if (goes)
                weft_module_release(old);
            else
                wt_own(old);
        }
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_call(mlp, x), WT_EXACT));
        wt_backward_of_results(&y, 1);
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 4);
}

/* The model's children are called, the model and the modules between are not. */
FUNCTION(call_below) { GIVE(weft_call(weft_module_child(state, "inner.up"), in[0])); }

WT_TEST_IN_WORLD(parent_that_is_replaced__takes_its_children_along, w)
{
    weft_module *outer = wt_own(weft_sequential_new()), *old;
    weft_compiled *compiled = wt_compile(call_below, outer, true);

    (void)w;
    WT_EQ(weft_module_add_child(outer, "inner",
                                weft_mlp((weft_mlp_config){.in = 4, .hidden = 8, .out = 3})),
          WEFT_OK);
    for (int k = 0; k < 6; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, 5, 4), *y, *want;

        if (k == 3) {
            weft_manual_seed(5);
            old = weft_module_replace_child(
                outer, "inner", weft_mlp((weft_mlp_config){.in = 4, .hidden = 8, .out = 3}));
            WT_ALL(old != NULL);
            wt_own(old);
        }
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(call_below(&x, 1, &want, 1, outer) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, want, WT_EXACT));
        wt_backward_of_results(&y, 1);
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 4);
}

/* One rank makes a function of a module of its own, and releases both: lists of others stay. */
WT_TEST_IN_WORLD(module_released_on_one_rank__is_no_change_of_others, w)
{
    weft_module *mlp = wt_own(weft_mlp((weft_mlp_config){.in = 4, .hidden = 8, .out = 3}));
    weft_compiled *compiled;
    weft_status alone = WEFT_OK;

    WT_ALL(weft_parallelize_module(
               mlp, w->mesh, wt_own(weft_plan_parse("up colwise\ndown rowwise\n"))) == WEFT_OK);
    compiled = wt_compile(call_module, mlp, true);
    weft_no_grad_open();
    for (int k = 0; k < 5; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, 5, 4), *y;

        if (k == 2 && wt_rank() == 0) {
            weft_module *own = new_linear(9);
            weft_compiled *other =
                weft_compile(call_module, own, (weft_compile_config){.fullgraph = true});

            alone = weft_compiled_call(other, &x, 1, &y, 1);
            weft_compiled_release(other);
            weft_module_release(own);
        }
        WT_ALL(alone == WEFT_OK);
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_call(mlp, x), WT_EXACT));
    }
    WT_ALL(weft_no_grad_close() == WEFT_OK);
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 4);
}

/* ---- replicas ---- */

/* The last batch of an epoch is shorter on one replica: it records, and the others with it. */
WT_TEST_TIMES_IN_WORLD(batch_of_another_size_on_one_replica__is_recorded_by_all, w, sharded, 2)
{
    weft_module *both[2];
    weft_compiled *compiled;

    for (int i = 0; i < 2; i++) {
        weft_manual_seed(4);
        both[i] = wt_own(weft_mlp((weft_mlp_config){.in = 4, .hidden = 8, .out = 3}));
        WT_ALL(weft_data_parallel(both[i], w->mesh,
                                  (weft_data_parallel_config){.shard = sharded}) == WEFT_OK);
    }
    compiled = wt_compile(call_module, both[0], true);
    weft_no_grad_open();
    for (int k = 0; k < 8; k++) {
        int rows = k == 3 || k == 6 ? 5 - (wt_rank() == 0) : 5;
        weft_tensor *x = wt_whole(WEFT_F32, k + wt_rank(), rows, 4), *y;

        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_call(both[1], x), WT_EXACT));
    }
    WT_ALL(weft_no_grad_close() == WEFT_OK);
    wt_note("%s", weft_compiled_reason(compiled));
    WT_ALL(weft_compiled_get_counts(compiled).replays >= 4);
}

struct training {
    weft_module *model;
    weft_optim *optim;
    bool steps;
};

FUNCTION(train)
{
    const struct training *t = state;

    out[0] = weft_sum_all(weft_square(weft_call(t->model, in[0])));
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return t->steps ? weft_step(t->optim) : WEFT_OK;
}

static struct training new_training(bool steps)
{
    struct training t = {.model = wt_own(new_linear(5)), .steps = steps};

    t.optim = wt_own(weft_sgd(t.model, (weft_sgd_config){.lr = 0.01}));
    return t;
}

/* The list has the addresses of the states. */
WT_TEST_IN_WORLD(states_of_an_optimizer__stay_as_a_list_has_them, w)
{
    struct training t = new_training(true);
    weft_compiled *compiled = wt_compile(train, &t, true);
    weft_tensor *x = wt_whole(WEFT_F32, 0, 5, 4), *y;

    WT_ALL(weft_optim_set(t.optim, "**", "momentum", 0.5) == WEFT_OK);
    WT_ALL(weft_compiled_warm_up(compiled, &x, 1, 1) == WEFT_OK);
    WT_FAILS(weft_optim_set(t.optim, "**", "momentum", 0), WEFT_ERR_STATE, "captured step");
    WT_ALL(weft_optim_set(t.optim, "**", "weight_decay", 0.1) == WEFT_OK);
    WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 1);
}

static weft_status call_training(weft_compiled *compiled, struct training *t, weft_tensor *x)
{
    weft_tensor *loss;

    return compiled ? weft_compiled_call(compiled, &x, 1, &loss, 1) : train(&x, 1, &loss, 1, t);
}

/* Backward within the list updates, the step that counts it comes behind: a second backward before
 * that is refused, and an optimizer that updates no more in backward is obeyed. */
WT_TEST_IN_WORLD(hooks_of_gradients__are_asked_where_backward_is_in_the_list, w)
{
    struct training both[2] = {new_training(false), new_training(false)};
    weft_compiled *compiled = wt_compile(train, &both[0], true);

    for (int k = 0; k < 2; k++) WT_EQ(weft_optim_update_in_backward(both[k].optim, true), WEFT_OK);
    for (int step = 0; step < 5; step++)
        for (int k = 0; k < 2; k++) {
            struct training *t = &both[k];
            weft_compiled *by = k ? NULL : compiled;

            wt_note("step %d of model %d: %s", step, k, weft_compiled_reason(compiled));
            if (step == 3) WT_EQ(weft_optim_update_in_backward(t->optim, false), WEFT_OK);
            WT_ALL(call_training(by, t, wt_whole(WEFT_F32, step, 5, 4)) == WEFT_OK);
            if (step == 2)
                WT_FAILS(call_training(by, t, wt_whole(WEFT_F32, step, 5, 4)), WEFT_ERR_STATE,
                         "was updated");
            if (step == 3) WT_ALL(weft_grad(weft_module_parameter(t->model, "weight")) != NULL);
            WT_EQ(weft_step(t->optim), WEFT_OK);
            weft_optim_zero_grad(t->optim);
            if (k) WT_NEAR_PARAMETERS(both[0].model, both[1].model, WT_EXACT);
        }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "which_list"); }
