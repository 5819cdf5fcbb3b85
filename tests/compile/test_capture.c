/*
 * test_capture.c: a compiled function computes what the function computes, bit by bit: forward
 * alone, with backward through its results, and as a whole training step.
 */
/* mpi: 2 */
#include <string.h>

#include "small_gpt.h"
#include "support/given.h"
#include "support/near_modules.h"

static weft_compiled *compile(weft_compiled_function *function, void *state)
{
    return wt_own(
        weft_compile(function, state, (weft_compile_config){.name = "tested", .fullgraph = true}));
}

static weft_compiled *compile_segments(weft_compiled_function *function, void *state)
{
    return wt_own(weft_compile(function, state, (weft_compile_config){.name = "tested"}));
}

static weft_tensor *call1(weft_compiled *compiled, weft_tensor *x)
{
    weft_tensor *out = NULL;

    WT_ALL(weft_compiled_call(compiled, &x, 1, &out, 1) == WEFT_OK);
    return out;
}

/* ---- forward and backward of small functions ---- */

static weft_status square_plus_two(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                   void *state)
{
    (void)n;
    (void)n_out;
    (void)state;
    out[0] = weft_add_scalar(weft_mul(in[0], in[0]), 2);
    return out[0] ? WEFT_OK : weft_error_status();
}

/* CAP-01 */
WT_TEST_IN_WORLD(square_plus_two__is_as_immediate, w)
{
    weft_compiled *compiled = compile(square_plus_two, NULL);

    for (int k = 0; k < 4; k++) {
        weft_tensor *whole = wt_whole(WEFT_F32, k, 4 + k / 3, 4);
        weft_tensor *x = weft_set_requires_grad(wt_spread(w, whole, "S(0)"), true);
        weft_tensor *plain = weft_set_requires_grad(wt_spread(w, whole, "S(0)"), true), *want;

        weft_tensor *y = call1(compiled, x);

        WT_ALL(square_plus_two(&plain, 1, &want, 1, NULL) == WEFT_OK);
        WT_ALL(wt_is_placed(y, "S(0)"));
        WT_ALL(wt_near_tensors(y, want, WT_EXACT));
        WT_ALL(weft_backward(weft_sum(weft_to_local(y, NULL), NULL, 0, false)) == WEFT_OK);
        WT_ALL(weft_backward(weft_sum(weft_to_local(want, NULL), NULL, 0, false)) == WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(plain), WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 2); /* the last has five rows */
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
    WT_EQ(weft_compiled_get_counts(compiled).backward_replays, 2);
}

static weft_status give_back(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                             void *state)
{
    (void)n;
    (void)n_out;
    (void)state;
    out[0] = in[0];
    return WEFT_OK;
}

/* CAP-03, A40 */
WT_TEST_IN_WORLD(input_given_back__is_the_same_tensor, w)
{
    weft_compiled *compiled = compile(give_back, NULL);

    for (int k = 0; k < 3; k++) {
        weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, k, 5, 3), "S(0)");

        WT_ALL(call1(compiled, x) == x);
        WT_ALL(wt_is_placed(x, "S(0)"));
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
    WT_EQ(weft_compiled_get_counts(compiled).nodes, 0);
}

/* ---- a training step ---- */

enum { STEPS = 6 };

struct training {
    weft_module *gpt;
    weft_optim *optim;
};

static weft_status train_step(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                              void *state)
{
    struct training *t = state;

    (void)n;
    (void)n_out;
    out[0] = weft_gpt_loss(t->gpt, in[0], in[1]);
    if (!out[0]) return weft_error_status();
    if (weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return weft_step(t->optim);
}

static weft_status forward_only(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                void *state)
{
    struct training *t = state;

    (void)n;
    (void)n_out;
    out[0] = weft_gpt_loss(t->gpt, in[0], in[1]);
    return out[0] ? WEFT_OK : weft_error_status();
}

static struct training new_training(struct wt_world *w, double dropout)
{
    struct training t;

    t.gpt = given_small_gpt(w, dropout);
    t.optim = wt_own(weft_adamw(t.gpt, (weft_adamw_config){.lr = 1e-2, .weight_decay = 0.1}));
    return t;
}

static double take_step(weft_compiled *compiled, struct training *t, bool whole, int step)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[] = {given_gpt_tokens(7 + step, 3), given_gpt_tokens(5, step)}, *loss = NULL;
    double value;

    weft_optim_set_lr(t->optim, 0.01 / (step + 1));
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

/* CAP-28, B5, B8, B47: with and without dropout, as a whole step and as a forward. */
WT_TEST_TIMES_IN_WORLD(training__is_bit_by_bit_as_immediate, w, i, 8)
{
    bool whole = i % 2, segments = i / 4;
    struct training plain = new_training(w, i / 2 % 2 ? 0.2 : 0),
                    t = new_training(w, i / 2 % 2 ? 0.2 : 0);
    weft_compiled *compiled =
        (segments ? compile_segments : compile)(whole ? train_step : forward_only, &t);
    int64_t collectives[STEPS], live[STEPS];

    for (int step = 0; step < STEPS; step++) {
        double want, got;
        uint64_t seed = 100 + (uint64_t)step;

        weft_manual_seed(seed);
        want = take_step(NULL, &plain, whole, step);
        weft_ledger_reset(w->ledger);
        weft_manual_seed(seed);
        got = take_step(compiled, &t, whole, step);
        wt_note("step %d: %s", step, weft_compiled_reason(compiled));
        WT_EQ(memcmp(&got, &want, sizeof got), 0);
        collectives[step] = weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);
        live[step] = weft_memory_of(WEFT_MEMORY_CATEGORIES).live;
    }
    WT_NEAR_PARAMETERS(t.gpt, plain.gpt, WT_EXACT);
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_EQ(weft_compiled_get_counts(compiled).replays, STEPS - 1);
    if (segments) WT_EQ(weft_compiled_get_counts(compiled).plain, 0);
    if (segments) WT_ALL(weft_compiled_get_counts(compiled).segments >= STEPS - 1);
    for (int step = 2; step < STEPS; step++) {
        WT_EQ(collectives[step], collectives[1]);
        WT_EQ(live[step], live[1]);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "capture"); }
