/*
 * test_list_graph.c: lists that are launched as graphs of the GPU compute what the function
 * computes, bit by bit: inputs that change, writes in place, gradients that grow, draws, an
 * optimizer. On the CPU the same lists run as always.
 */
#include <stdlib.h>
#include <string.h>

#include <weft/extend/step_graph.h>

#include "as_immediate.h"
#include "small_gpt.h"
#include "support/near_modules.h"

enum { CALLS = 6 };

static weft_compiled *compile(weft_compiled_function *function, void *state, bool fullgraph)
{
    return wt_own(weft_compile(
        function, state,
        (weft_compile_config){.name = "tested", .fullgraph = fullgraph, .graph = true}));
}

/* Collectives through host memory are in no graph. */
static bool collectives_can_be_in_graphs(void)
{
    const char *backend = getenv("WT_BACKEND");

    return wt_ranks() == 1 || (backend && strcmp(backend, "nccl") == 0);
}

/* Of a function's lists, with and without collectives. The first call is recorded, the second runs
 * the list, the third is captured. */
static void expect_launches(const weft_compiled *compiled, int without, int with)
{
    weft_compiled_counts counts = weft_compiled_get_counts(compiled);
    int launched = without + (collectives_can_be_in_graphs() ? with : 0);

    wt_note("%s", weft_compiled_reason(compiled));
    WT_EQ(counts.captures, 1);
    WT_EQ(counts.replays, CALLS - 1);
    WT_EQ(counts.launches, wt_device() == WEFT_CUDA ? launched * (CALLS - 3) : 0);
}

FUNCTION(chain) { GIVE(weft_mul_scalar(weft_matmul(weft_add_scalar(in[0], 1), in[1]), 5)); }

WT_TEST_IN_WORLD(chain__of_inputs_that_change, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = compile(chain, NULL, fullgraph);
        weft_tensor *kept = NULL, *kept_want = NULL;

        for (int k = 0; k < CALLS; k++) {
            weft_tensor *in[] = {wt_spread(w, wt_whole(WEFT_F32, k, 5, 4), "S(0)"),
                                 wt_spread(w, wt_whole(WEFT_F32, k + 50, 4, 3), "R")},
                        *y = NULL, *want = NULL;

            WT_ALL(weft_compiled_call(compiled, in, 2, &y, 1) == WEFT_OK);
            WT_ALL(chain(in, 2, &want, 1, NULL) == WEFT_OK);
            WT_ALL(wt_near_tensors(y, want, WT_EXACT));
            if (k > 0) WT_ALL(wt_near_tensors(kept, kept_want, WT_EXACT)); /* of the last call */
            kept = y;
            kept_want = want;
        }
        expect_launches(compiled, 1, 0);
    }
}

/* ---- what is written in place ---- */

FUNCTION(write_into_input)
{
    if (!weft_add_(in[0], in[1])) return weft_error_status();
    GIVE(weft_mul_scalar(in[0], 2));
}

WT_TEST_IN_WORLD(input_that_is_written__is_the_callers, w)
{
    weft_compiled *compiled = compile(write_into_input, NULL, true);
    weft_tensor *sum = wt_spread(w, wt_whole(WEFT_F32, 0, 6, 4), "S(0)");
    weft_tensor *plain;

    plain = weft_clone(sum);
    for (int k = 0; k < CALLS; k++) {
        weft_tensor *term = wt_spread(w, wt_whole(WEFT_F32, k, 6, 4), "S(0)"), *y = NULL,
                    *want = NULL;

        WT_ALL(weft_compiled_call(compiled, (weft_tensor *[]){sum, term}, 2, &y, 1) == WEFT_OK);
        WT_ALL(write_into_input((weft_tensor *[]){plain, term}, 2, &want, 1, NULL) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, want, WT_EXACT));
        WT_ALL(wt_near_tensors(sum, plain, WT_EXACT));
    }
    expect_launches(compiled, 1, 0);
}

/* ---- forward and backward as two graphs ---- */

FUNCTION(layer)
{
    weft_tensor *y = weft_matmul(in[0], in[1]);

    out[1] = y;
    GIVE(weft_gelu(weft_redistribute(y, NULL)));
}

/* Two calls come before the backward of the first: what each saves is its own. */
WT_TEST_IN_WORLD(saved_tensors__are_each_calls_own, w)
{
    static const struct wt_compiled_input of[] = {{"S(0)", {6, 4}, true}, {"R", {4, 5}, true}};
    weft_compiled *compiled = compile(layer, NULL, true);

    for (int k = 0; k < CALLS; k += 2) {
        weft_tensor *in[2][2], *plain[2][2], *y[2][2] = {{0}}, *want[2][2] = {{0}};

        for (int c = 0; c < 2; c++) {
            wt_compiled_inputs(w, in[c], of, 2, k + c);
            wt_compiled_inputs(w, plain[c], of, 2, k + c);
            WT_ALL(weft_compiled_call(compiled, in[c], 2, y[c], 2) == WEFT_OK);
            WT_ALL(layer(plain[c], 2, want[c], 2, NULL) == WEFT_OK);
            if (k == 0 && c == 0) wt_backward_of_results(y[0], 2); /* it is recorded */
        }
        for (int c = 0; c < 2; c++) {
            if (k || c) wt_backward_of_results(y[c], 2);
            wt_backward_of_results(want[c], 2);
            for (int i = 0; i < 2; i++) {
                WT_ALL(wt_near_tensors(y[c][i], want[c][i], WT_EXACT));
                WT_ALL(wt_near_tensors(weft_grad(in[c][i]), weft_grad(plain[c][i]), WT_EXACT));
            }
        }
    }
    expect_launches(compiled, 1, 1);
}

/* ---- a training step: draws, gradients that are there before, an optimizer ---- */

struct training {
    weft_module *gpt;
    weft_optim *optim;
    bool steps;
};

FUNCTION(train)
{
    struct training *t = state;

    out[0] = weft_gpt_loss(t->gpt, in[0], in[1]);
    if (!out[0]) return weft_error_status();
    if (weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return t->steps ? weft_step(t->optim) : WEFT_OK;
}

/* With steps, which drop the gradients, and without, where they grow from call to call. */
WT_TEST_TIMES_IN_WORLD(training__is_bit_by_bit_as_immediate, w, i, 2)
{
    struct training t[2];
    weft_compiled *compiled;

    for (int c = 0; c < 2; c++) {
        t[c].steps = i == 0;
        t[c].gpt = given_small_gpt(w, 0.2);
        t[c].optim =
            wt_own(weft_adamw(t[c].gpt, (weft_adamw_config){.lr = 1e-2, .weight_decay = 0.1}));
    }
    compiled = compile(train, &t[0], true);
    for (int k = 0; k < CALLS; k++) {
        weft_tensor *in[] = {given_gpt_tokens(7 + k, 3), given_gpt_tokens(5, k)}, *loss[2] = {0};

        for (int c = 0; c < 2; c++) {
            weft_optim_set_lr(t[c].optim, 0.01 / (k + 1));
            weft_manual_seed(100 + (uint64_t)k);
            WT_ALL((c ? train(in, 2, &loss[c], 1, &t[c])
                      : weft_compiled_call(compiled, in, 2, &loss[c], 1)) == WEFT_OK);
        }
        WT_ALL(wt_near_tensors(loss[0], loss[1], WT_EXACT));
        WT_NEAR_PARAMETERS(t[0].gpt, t[1].gpt, WT_EXACT);
    }
    if (i == 0) expect_launches(compiled, 0, 1);
    if (i == 1) WT_NEAR_GRADIENTS(t[0].gpt, t[1].gpt, WT_EXACT);
}

/* ---- what is given in two roles, or runs otherwise on one rank ---- */

/* Reads the parameter in `state`, writes in place to an input, and reads the parameter again. */
FUNCTION(write_and_read_parameter)
{
    weft_tensor *before = weft_mul_scalar(state, 3);

    if (!before || !weft_add_(in[0], in[1])) return weft_error_status();
    GIVE(weft_add(before, weft_mul_scalar(state, 2)));
}

/* From the fourth call on the input is the parameter itself. */
WT_TEST_IN_WORLD(input_that_becomes_the_parameter__is_seen, w)
{
    weft_tensor *parameter[2], *apart[2];
    weft_compiled *compiled;

    for (int c = 0; c < 2; c++) {
        parameter[c] = wt_spread(w, wt_whole(WEFT_F32, 1, 6, 4), "S(0)");
        apart[c] = wt_spread(w, wt_whole(WEFT_F32, 2, 6, 4), "S(0)");
    }
    compiled = compile(write_and_read_parameter, parameter[0], true);
    for (int k = 0; k < CALLS; k++) {
        weft_tensor *term = wt_spread(w, wt_whole(WEFT_F32, k, 6, 4), "S(0)"), *y[2] = {0};

        for (int c = 0; c < 2; c++) {
            weft_tensor *in[] = {k < 4 ? apart[c] : parameter[c], term};

            WT_ALL((c ? write_and_read_parameter(in, 2, &y[c], 1, parameter[c])
                      : weft_compiled_call(compiled, in, 2, &y[c], 1)) == WEFT_OK);
        }
        WT_ALL(wt_near_tensors(y[0], y[1], WT_EXACT));
        WT_ALL(wt_near_tensors(parameter[0], parameter[1], WT_EXACT));
    }
}

static weft_tensor *triple(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    (void)payload;
    return weft_mul_scalar(in[0], 3);
}

FUNCTION(run_step_graph)
{
    weft_tensor *y = weft_step_graph_run(state, in, 1);

    GIVE(y ? weft_add_scalar(y, 1) : NULL);
}

WT_TEST_IN_WORLD(step_graph_within__runs_as_it_is, w)
{
    weft_step_graph *graph = weft_step_graph_new(w->mesh, triple, NULL);
    weft_compiled *compiled = compile(run_step_graph, graph, true);

    for (int k = 0; k < CALLS; k++) {
        weft_tensor *of = wt_whole(WEFT_F32, k, 6, 4), *x = wt_spread(w, of, "S(0)"), *y = NULL;

        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_add_scalar(weft_mul_scalar(of, 3), 1), WT_EXACT));
    }
    weft_step_graph_release(graph);
}

struct kept_on_one {
    weft_tensor *kept;
    int call;
};

/* Rank 0 alone keeps a tensor of the third call. */
FUNCTION(one_rank_keeps)
{
    struct kept_on_one *k = state;
    weft_tensor *x = weft_redistribute(weft_mul_scalar(in[0], 2), NULL);

    if (k->call == 3 && wt_rank() == 0) k->kept = weft_retain(x);
    weft_graph_break("here");
    GIVE(weft_add(x, x));
}

WT_TEST_IN_WORLD(ranks_that_keep_other_tensors__go_on, w)
{
    struct kept_on_one held = {NULL, 0};
    weft_compiled *compiled = compile(one_rank_keeps, &held, false);

    for (int k = 0; k < CALLS; k++) {
        weft_tensor *of = wt_whole(WEFT_F32, k, 6, 4), *x = wt_spread(w, of, "S(0)"), *y = NULL;

        held.call = k;
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_mul_scalar(of, 4), WT_EXACT));
    }
    weft_release(held.kept);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "list_graph"); }
