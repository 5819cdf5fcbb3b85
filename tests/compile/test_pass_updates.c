/*
 * test_pass_updates.c: the pass updates: each parameter is updated as soon as its gradient is
 * there. A step needs less memory, and the bits are those of a step behind the whole backward, also
 * where parameters are read again, gradients are clipped, and an input is a parameter.
 */
/* ranks: 1 2 3 4 */
#include <string.h>

#include "passes.h"
#include "small_gpt.h"
#include "support/near_modules.h"

enum { STEPS = 5, WIDTH = 96, HIDDEN = 192, ROWS = 6 };

enum way { AS_IT_IS, WITH_PASS, WITHOUT_PASS, WAYS };

struct training {
    weft_module *model;
    weft_optim *optim;
    bool clips;
};

static weft_status finish(const struct training *t, weft_tensor *loss)
{
    if (!loss || weft_backward(loss) != WEFT_OK) return weft_error_status();
    if (t->clips && weft_clip_grad_value(t->model, 1e-3) != WEFT_OK) return weft_error_status();
    return weft_step(t->optim);
}

static weft_status train_mlp(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                             void *state)
{
    struct training *t = state;

    (void)n, (void)n_out;
    out[0] = weft_mse(weft_call(t->model, in[0]), in[1]);
    return finish(t, out[0]);
}

static weft_status train_gpt(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                             void *state)
{
    struct training *t = state;

    (void)n, (void)n_out;
    out[0] = weft_gpt_loss(t->model, in[0], in[1]);
    return finish(t, out[0]);
}

static weft_module *new_mlp(struct wt_world *w)
{
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};
    weft_module *mlp;

    weft_manual_seed(5);
    mlp = wt_own(weft_mlp(
        (weft_mlp_config){.in = WIDTH, .hidden = HIDDEN, .out = WIDTH, .act = WEFT_GELU_TANH}));
    WT_ALL(weft_parallelize_module(mlp, w->mesh, plan) == WEFT_OK);
    return mlp;
}

static weft_tensor *rows(int which) { return wt_whole(WEFT_F32, which, ROWS, WIDTH); }

static weft_compiled *compile(weft_compiled_function *function, struct training *t, enum way way)
{
    if (way == AS_IT_IS) return NULL;
    return wt_own(weft_compile(
        function, t,
        (weft_compile_config){
            .name = "step", .fullgraph = true, .passes_off = way == WITH_PASS ? NULL : "updates"}));
}

/* Trainings of one model, each step in all ways. gives: memory of the last step in each way */
static void train_in_all_ways(weft_compiled_function *function, struct training *t, bool of_gpt,
                              weft_compiled *compiled[WAYS])
{
    for (int way = 0; way < WAYS; way++) compiled[way] = compile(function, &t[way], (enum way)way);
    for (int step = 0; step < STEPS; step++) {
        for (int way = 0; way < WAYS; way++) {
            weft_scope *scope = weft_scope_open();
            weft_tensor *in[] = {of_gpt ? given_gpt_tokens(7 + step, 3) : rows(step),
                                 of_gpt ? given_gpt_tokens(5, step) : rows(9 + step)},
                        *loss;

            weft_manual_seed(40 + (uint64_t)step);
            WT_ALL((compiled[way] ? weft_compiled_call(compiled[way], in, 2, &loss, 1)
                                  : function(in, 2, &loss, 1, &t[way])) == WEFT_OK);
            weft_scope_close(scope);
        }
        for (int way = WITH_PASS; way < WAYS; way++)
            WT_NEAR_PARAMETERS(t[way].model, t[AS_IT_IS].model, WT_EXACT);
    }
    for (int way = WITH_PASS; way < WAYS; way++)
        WT_EQ(weft_compiled_get_counts(compiled[way]).replays, STEPS - 1);
}

WT_TEST_TIMES_IN_WORLD(step__needs_less_memory, w, clips, 2)
{
    struct training t[WAYS];
    weft_compiled *compiled[WAYS];
    int64_t with, without;

    for (int way = 0; way < WAYS; way++) {
        t[way] = (struct training){.model = new_mlp(w), .clips = clips};
        t[way].optim =
            wt_own(weft_adamw(t[way].model, (weft_adamw_config){.lr = 1e-2, .weight_decay = 0.1}));
    }
    train_in_all_ways(train_mlp, t, false, compiled);
    if (clips) return; /* all gradients are there before one is clipped */
    with = weft_compiled_get_counts(compiled[WITH_PASS]).memory;
    without = weft_compiled_get_counts(compiled[WITHOUT_PASS]).memory;
    wt_note("%lld bytes, without the pass %lld", (long long)with, (long long)without);
    WT_ALL((double)with < 0.75 * (double)without);
    WT_EQ(given_lines(compiled[WITH_PASS], false, true, "update"), 4);
    WT_EQ(given_lines(compiled[WITHOUT_PASS], false, true, "update"), 1);
}

/* The table of a tied model has terms from both ends of backward; dropout draws. */
WT_TEST_IN_WORLD(tied_model__trains_bit_by_bit, w)
{
    struct training t[WAYS];
    weft_compiled *compiled[WAYS];

    for (int way = 0; way < WAYS; way++) {
        t[way] = (struct training){.model = given_tied_small_gpt(w, 0.1)};
        t[way].optim = wt_own(weft_sgd(t[way].model, (weft_sgd_config){.lr = 0.1}));
    }
    train_in_all_ways(train_gpt, t, true, compiled);
}

/* ---- what else reads a parameter or a gradient ---- */

enum given { OTHERS, PARAMETER, STATE, GIVEN };

struct small_step {
    weft_module *model;
    weft_optim *optim;
    bool reads_weight;
};

/* Reads an input, and the weight, behind what makes the weight's gradient. */
static weft_status step_and_read(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                 void *state)
{
    struct small_step *s = state;
    weft_tensor *weight = weft_module_parameter(s->model, "weight"),
                *loss = weft_mse(weft_call(s->model, in[1]), in[1]);

    (void)n, (void)n_out;
    if (!loss || weft_backward(loss) != WEFT_OK) return weft_error_status();
    weft_no_grad_open();
    out[0] = weft_mul_scalar(in[0], 2);
    out[1] = weft_mul_scalar(s->reads_weight ? weight : in[1], 3);
    if (weft_no_grad_close() != WEFT_OK) return weft_error_status();
    return out[0] && out[1] ? weft_step(s->optim) : weft_error_status();
}

static struct small_step new_small_step(struct wt_world *w, bool reads_weight)
{
    struct small_step s = {.reads_weight = reads_weight};

    weft_manual_seed(3);
    s.model = wt_own(weft_linear_new((weft_linear_config){.in = {WIDTH}, .out = {WIDTH}}));
    WT_ALL(weft_distribute_module(s.model, w->mesh, NULL, NULL, NULL, NULL) == WEFT_OK);
    s.optim = wt_own(weft_sgd(s.model, (weft_sgd_config){.lr = 0.1, .momentum = 0.9}));
    return s;
}

/* What the first input is: from the fourth call on something that the step changes. */
static weft_tensor *first_input(struct wt_world *w, const struct small_step *s, enum given given,
                                int call)
{
    weft_tensor *weight = weft_module_parameter(s->model, "weight");

    if (given == OTHERS || call < 3)
        return weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, 4, WIDTH, WIDTH), "R"),
                                      given != STATE);
    return given == PARAMETER ? weight : weft_optim_state(s->optim, weight, 0);
}

WT_TEST_TIMES_IN_WORLD(what_is_read_behind_a_gradient__has_its_old_values, w, given, GIVEN)
{
    struct small_step s[2] = {new_small_step(w, given == OTHERS),
                              new_small_step(w, given == OTHERS)};
    weft_compiled *compiled = wt_own(weft_compile(
        step_and_read, &s[0], (weft_compile_config){.name = "step", .fullgraph = true}));

    for (int k = 0; k < STEPS; k++) {
        weft_tensor *of_step = wt_spread(w, rows(k), "R"), *got[2], *want[2],
                    *in[] = {first_input(w, &s[0], (enum given)given, k), of_step},
                    *plain[] = {first_input(w, &s[1], (enum given)given, k), of_step};

        WT_ALL(weft_compiled_call(compiled, in, 2, got, 2) == WEFT_OK);
        WT_ALL(step_and_read(plain, 2, want, 2, &s[1]) == WEFT_OK);
        wt_note("call %d: %s", k, weft_compiled_reason(compiled));
        for (int i = 0; i < 2; i++) WT_ALL(wt_near_tensors(got[i], want[i], WT_EXACT));
        WT_NEAR_PARAMETERS(s[0].model, s[1].model, WT_EXACT);
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, STEPS - 1);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_updates"); }
