/*
 * test_warm_up.c: a list is made before it is needed, and nothing else has changed: not parameters
 * nor what optimizers and modules keep, not gradients, not the numbers that are drawn next.
 */
/* mpi: 2 */
#include <stdlib.h>
#include <string.h>

#include "as_immediate.h"
#include "small_gpt.h"
#include "support/near_modules.h"

enum { STEPS = 4 };

/* ---- a training step with dropout ---- */

struct training {
    weft_module *gpt;
    weft_optim *optim;
};

FUNCTION(train_step)
{
    struct training *t = state;

    out[0] = weft_gpt_loss(t->gpt, in[0], in[1]);
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return weft_step(t->optim);
}

FUNCTION(forward_only) { GIVE(weft_gpt_loss(((struct training *)state)->gpt, in[0], in[1])); }

static struct training new_training(struct wt_world *w, int optimizer)
{
    struct training t;

    t.gpt = given_small_gpt(w, 0.2);
    t.optim = wt_own(optimizer ? weft_muon(t.gpt, (weft_muon_config){.lr = 1e-2})
                               : weft_adamw(t.gpt, (weft_adamw_config){.lr = 1e-2}));
    return t;
}

static double take_step(weft_compiled *compiled, struct training *t, bool whole, int step)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[] = {given_gpt_tokens(7 + step, 3), given_gpt_tokens(5, step)}, *loss = NULL;
    double value;

    if (compiled)
        WT_ALL(weft_compiled_call(compiled, in, 2, &loss, 1) == WEFT_OK);
    else
        WT_ALL((whole ? train_step : forward_only)(in, 2, &loss, 1, t) == WEFT_OK);
    if (!whole) {
        WT_ALL(weft_backward(loss) == WEFT_OK);
        WT_ALL(weft_step(t->optim) == WEFT_OK);
    }
    value = weft_item(loss);
    weft_scope_close(scope);
    return value;
}

static weft_status warm_up(weft_compiled *compiled, int step)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[] = {given_gpt_tokens(2 + step, 1), given_gpt_tokens(3, step)};
    weft_status status = weft_compiled_warm_up(compiled, in, 2, 1);

    weft_scope_close(scope);
    return status;
}

static weft_status note_gradient(weft_module *m CK_ATTRIBUTE_UNUSED,
                                 const char *name CK_ATTRIBUTE_UNUSED, weft_tensor *parameter,
                                 void *found)
{
    if (weft_grad(parameter)) *(bool *)found = true;
    return WEFT_OK;
}

static bool has_gradients(weft_module *m)
{
    bool found = false;

    return weft_module_each_parameter(m, note_gradient, &found) != WEFT_OK || found;
}

/* B45: whole and as a forward, in segments and not, with two optimizers. The first training is
 * warmed up after a step, with other tokens; it goes on with the bits of the second. Every call
 * after the warm-up is a replay. */
WT_TEST_TIMES_IN_WORLD(warm_up__leaves_a_training_as_it_was, w, i, 8)
{
    bool whole = i % 2, fullgraph = i / 2 % 2, muon = i / 4, refused = whole && fullgraph && muon;
    struct training plain = new_training(w, muon), t = new_training(w, muon);
    weft_compiled *compiled = wt_compile(whole ? train_step : forward_only, &t, fullgraph);

    for (int step = 0; step < STEPS; step++) {
        double want, got;

        weft_manual_seed(100 + (uint64_t)step);
        want = take_step(NULL, &plain, whole, step);
        weft_manual_seed(100 + (uint64_t)step);
        if (step == 1) {
            weft_status status = warm_up(compiled, step);

            if (refused)
                WT_FAILED(WEFT_ERR_STATE, "constants on the host");
            else
                WT_ALL(status == WEFT_OK);
            WT_ALL(!has_gradients(t.gpt));
        }
        wt_note("step %d", step);
        got = take_step(step && !refused ? compiled : NULL, &t, whole, step);
        WT_EQ(memcmp(&got, &want, sizeof got), 0);
        WT_NEAR_PARAMETERS(t.gpt, plain.gpt, WT_EXACT);
    }
    if (refused) return;
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_EQ(weft_compiled_get_counts(compiled).calls, STEPS - 1);
    WT_EQ(weft_compiled_get_counts(compiled).replays, STEPS - 1);
    if (fullgraph && !whole) WT_EQ(weft_compiled_get_counts(compiled).backward_replays, STEPS - 1);
}

/* ---- buffers, inputs, gradients that are there ---- */

struct kept {
    weft_module *norm;
    weft_tensor *leaf, *count;
};

/* Running statistics, a count, and the input itself change; the gradient of `leaf` is added to. */
FUNCTION(change_much)
{
    struct kept *k = state;
    weft_tensor *x = weft_call(k->norm, in[0]);

    if (!weft_add_scalar_(k->count, 1) || !weft_mul_scalar_(in[0], 3)) return weft_error_status();
    x = weft_sum(weft_mul(x, k->leaf), NULL, 0, false);
    x = weft_tensor_mesh(x) ? weft_full_tensor(x) : x;
    if (!x || weft_backward(x) != WEFT_OK) return weft_error_status();
    GIVE(weft_detach(x));
}

/* How often the gradient was there before, and who else holds it: nobody, nobody, the program. */
WT_TEST_TIMES_IN_WORLD(warm_up__leaves_no_trace, w, i, 6)
{
    bool fullgraph = i % 2;
    struct kept k = {wt_own(weft_batch_norm_new((weft_batch_norm_config){.channels = 4})),
                     weft_retain(weft_set_requires_grad(wt_whole(WEFT_F32, 2, 6, 4), true)),
                     weft_retain(weft_full(WEFT_F32, (int64_t[]){1}, 1, 0))};
    weft_compiled *compiled = wt_compile(change_much, &k, fullgraph);
    weft_tensor *x = wt_whole(WEFT_F32, 1, 6, 4), *y, *held = NULL, *gradient = NULL;
    weft_tensor *mean = weft_module_buffer(k.norm, "running_mean"), *mean_before;
    int64_t version;

    for (int before = 0; before < i / 2; before++) WT_ALL(change_much(&x, 1, &y, 1, &k) == WEFT_OK);
    if (i / 2) gradient = weft_clone(weft_grad(k.leaf));
    if (i / 2 == 2) held = weft_retain(weft_grad(k.leaf));
    mean_before = weft_clone(mean);
    version = weft_tensor_version(mean);
    WT_ALL(weft_compiled_warm_up(compiled, &x, 1, 1) == WEFT_OK);
    WT_ALL(wt_near_tensors(mean, mean_before, WT_EXACT));
    WT_EQ(weft_tensor_version(mean), version);
    WT_ALL(weft_item(k.count) == i / 2);
    WT_ALL(!weft_grad(k.leaf) == !gradient);
    if (gradient) WT_ALL(wt_near_tensors(weft_grad(k.leaf), gradient, WT_EXACT));
    if (held) WT_ALL(wt_near_tensors(held, gradient, WT_EXACT));
    for (int before = 0; before < i / 2; before++)
        x = before ? x : weft_mul_scalar(x, 1.0 / (i / 2 == 2 ? 9 : 3));
    WT_ALL(wt_near_tensors(x, wt_whole(WEFT_F32, 1, 6, 4), WT_WITHIN(1e-5)));
    weft_release(held);
    weft_release(k.leaf);
    weft_release(k.count);
}

/* ---- replicas, and compiled modules ---- */

FUNCTION(loss_of) { GIVE(weft_gpt_loss(state, in[0], in[1])); }

static weft_module *new_replicas(struct wt_world *w)
{
    weft_module *gpt;

    weft_manual_seed(5);
    gpt = wt_own(weft_gpt((weft_gpt_config){.vocab = SMALL_GPT_VOCAB,
                                            .context = SMALL_GPT_CONTEXT,
                                            .width = 16,
                                            .heads = 4,
                                            .layers = 1}));
    WT_ALL(weft_data_parallel(gpt, w->mesh, (weft_data_parallel_config){0}) == WEFT_OK);
    return gpt;
}

/* Buckets of gradients do not hear of the warm-up, neither before the first step nor between two.
 */
WT_TEST_TIMES_IN_WORLD(warm_up__is_not_heard_by_gradient_hooks, w, i, 4)
{
    weft_module *gpt[2] = {new_replicas(w), new_replicas(w)};
    weft_compiled *compiled = wt_compile(loss_of, gpt[0], i % 2);
    weft_optim *optim[2];
    int first = i / 2;

    for (int k = 0; k < 2; k++)
        optim[k] = wt_own(weft_adamw(gpt[k], (weft_adamw_config){.lr = 1e-2}));
    for (int step = 0; step < STEPS; step++) {
        if (step == first) {
            weft_ledger_reset(w->ledger);
            WT_ALL(warm_up(compiled, step) == WEFT_OK);
            WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 0);
        }
        for (int k = 0; k < 2; k++) {
            weft_scope *scope = weft_scope_open();
            weft_tensor *in[] = {given_gpt_tokens(7 + step, 3 + wt_rank()),
                                 given_gpt_tokens(5, step)},
                        *loss;
            bool plain = k || step < first;

            WT_ALL((plain ? loss_of(in, 2, &loss, 1, gpt[k])
                          : weft_compiled_call(compiled, in, 2, &loss, 1)) == WEFT_OK);
            WT_ALL(weft_data_parallel_backward(gpt[k], loss, SMALL_GPT_BATCH * SMALL_GPT_CONTEXT) ==
                   WEFT_OK);
            WT_ALL(weft_step(optim[k]) == WEFT_OK);
            weft_scope_close(scope);
        }
        WT_NEAR_PARAMETERS(gpt[0], gpt[1], WT_EXACT);
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, STEPS - first);
}

WT_TEST_IN_WORLD(warm_up__is_for_compiled_modules_too, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_module *mlp = wt_own(weft_mlp((weft_mlp_config){.in = 6, .hidden = 8, .out = 6}));
        weft_tensor *x = wt_whole(WEFT_F32, 1, 5, 6), *want = weft_call(mlp, x);

        WT_ALL(weft_compile_module(mlp, NULL, (weft_compile_config){.fullgraph = fullgraph}) ==
               WEFT_OK);
        WT_ALL(weft_compiled_warm_up(weft_module_compiled(mlp), &x, 1, 1) == WEFT_OK);
        WT_ALL(!has_gradients(mlp));
        WT_ALL(wt_near_tensors(weft_call(mlp, x), want, WT_EXACT));
        WT_EQ(weft_compiled_get_counts(weft_module_compiled(mlp)).captures, 1);
        WT_EQ(weft_compiled_get_counts(weft_module_compiled(mlp)).replays, 1);
    }
}

/* ---- what is asked for without need, and what is refused ---- */

FUNCTION(add_one) { GIVE(weft_add_scalar(in[0], 1)); }

FUNCTION(break_in_two)
{
    weft_tensor *x = weft_add_scalar(in[0], 1);

    weft_graph_break("of my own");
    GIVE(weft_mul_scalar(x, 2));
}

static weft_status warm_up_within(weft_tensor *const *in, int n_in, weft_tensor **out,
                                  int n_out CK_ATTRIBUTE_UNUSED, void *inner)
{
    weft_status status = weft_compiled_warm_up(inner, in, n_in, 1);

    out[0] = weft_add_scalar(in[0], 1);
    return status;
}

WT_TEST_IN_WORLD(warm_up__makes_one_list_for_each_input, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(add_one, NULL, fullgraph);

        for (int k = 0; k < 6; k++) {
            weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, k, 6, 2), k % 2 ? "R" : "S(0)"), *y;

            WT_ALL(weft_compiled_warm_up(compiled, &x, 1, 1) == WEFT_OK);
            WT_EQ(weft_compiled_get_counts(compiled).captures, k ? 2 : 1);
            WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
            WT_ALL(wt_near_tensors(y, weft_add_scalar(x, 1), WT_EXACT));
        }
        WT_EQ(weft_compiled_get_counts(compiled).replays, 6);
    }
}

WT_TEST_IN_WORLD(warm_up__says_why_there_is_no_list, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 4), "S(0)"), *y;
    weft_compiled *broken = wt_compile(break_in_two, NULL, true);
    weft_compiled *in_two = wt_compile(break_in_two, NULL, false);
    weft_compiled *outer = wt_compile(warm_up_within, in_two, false);

    WT_FAILS(weft_compiled_warm_up(broken, &x, 1, 1), WEFT_ERR_STATE, "of my own");
    WT_ALL(weft_compiled_warm_up(in_two, &x, 1, 1) == WEFT_OK);
    WT_FAILS(weft_compiled_warm_up(NULL, &x, 1, 1), WEFT_ERR_ARG, "no compiled function");
    WT_FAILS(weft_compiled_warm_up(in_two, NULL, 1, 1), WEFT_ERR_ARG, "no list of them");
    WT_FAILS(weft_compiled_call(outer, &x, 1, &y, 1), WEFT_ERR_STATE, "within a compiled");
}

FUNCTION(weight_and_product)
{
    out[0] = state;
    out[1] = weft_matmul(in[0], state);
    return out[1] ? WEFT_OK : weft_error_status();
}

/* The first result is no result of the list; backward of the second is recorded. */
WT_TEST_IN_WORLD(results_from_outside__need_no_backward, w)
{
    weft_tensor *weight =
        weft_set_requires_grad(weft_detach(wt_spread(w, wt_whole(WEFT_F32, 4, 4, 4), "R")), true);
    weft_compiled *compiled = wt_compile(weight_and_product, weight, true);

    for (int k = 0; k < 3; k++) {
        weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, k, 4, 4), "S(0)"), *y[2];

        if (k == 0) WT_ALL(weft_compiled_warm_up(compiled, &x, 1, 2) == WEFT_OK);
        WT_ALL(weft_compiled_call(compiled, &x, 1, y, 2) == WEFT_OK);
        WT_ALL(wt_near_tensors(y[1], weft_matmul(x, weight), WT_EXACT));
        wt_backward_of_results(&y[1], 1);
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, 3);
}

/* An input that is given back has the tape of another compiled function. */
FUNCTION(input_and_product)
{
    out[0] = in[0];
    out[1] = weft_matmul(in[0], state);
    return out[1] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(inputs_of_another_function__are_left_alone, w)
{
    weft_tensor *weights[2], *y[2];
    weft_compiled *first, *second;

    for (int i = 0; i < 2; i++)
        weights[i] = weft_set_requires_grad(
            weft_detach(wt_spread(w, wt_whole(WEFT_F32, 4 + i, 4, 4), "R")), true);
    first = wt_compile(weight_and_product, weights[0], true);
    second = wt_compile(input_and_product, weights[1], true);
    for (int k = 0; k < 3; k++) {
        weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, k, 4, 4), "S(0)"), *h[2];

        WT_ALL(weft_compiled_call(first, &x, 1, h, 2) == WEFT_OK);
        WT_ALL(weft_compiled_warm_up(second, &h[1], 1, 2) == WEFT_OK);
        WT_ALL(weft_grad(weights[0]) == NULL);
        WT_ALL(weft_compiled_call(second, &h[1], 1, y, 2) == WEFT_OK);
        wt_backward_of_results(&y[1], 1);
        WT_ALL(weft_grad(weights[0]) != NULL && weft_grad(weights[1]) != NULL);
        for (int i = 0; i < 2; i++) weft_zero_grad(weights[i]);
    }
    WT_EQ(weft_compiled_get_counts(second).replays, 3);
}

/* What calls may not record, a warm-up does. */
WT_TEST_TIMES_IN_WORLD(frozen_function__runs_the_lists_of_its_warm_up, w, i, 4)
{
    bool fullgraph = i % 2, fails = i / 2;
    weft_compiled *compiled = wt_own(weft_compile(
        add_one, NULL,
        (weft_compile_config){.fullgraph = fullgraph, .frozen = !fails, .frozen_error = fails}));
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 4), "S(0)"), *y;
    weft_tensor *other = wt_spread(w, wt_whole(WEFT_F32, 0, 5, 4), "S(0)");

    WT_ALL(weft_compiled_warm_up(compiled, &x, 1, 1) == WEFT_OK);
    for (int k = 0; k < 2; k++) {
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_add_scalar(x, 1), WT_EXACT));
    }
    if (fails)
        WT_FAILS(weft_compiled_call(compiled, &other, 1, &y, 1), WEFT_ERR_STATE, "no list fits");
    else
        WT_ALL(weft_compiled_call(compiled, &other, 1, &y, 1) == WEFT_OK);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "warm_up"); }
