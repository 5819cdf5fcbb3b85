/* test_pass_recompute.c: the pass recompute: a training step needs less memory, with the same bits.
 */
#include <string.h>

#include "passes.h"
#include "support/near_modules.h"

enum { STEPS = 4, BATCH = 8, CONTEXT = 64, VOCAB = 32 };

struct training {
    weft_module *gpt;
    weft_optim *optim;
};

static weft_tensor *tokens(int64_t step)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i + i * i) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

static weft_status train(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    struct training *t = state;

    (void)n, (void)n_out;
    out[0] = weft_gpt_loss(t->gpt, in[0], in[1]);
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return weft_step(t->optim);
}

static struct training open_training(struct wt_world *w)
{
    struct training t;

    weft_manual_seed(5);
    t.gpt = wt_own(weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                              .context = CONTEXT,
                                              .width = 96,
                                              .heads = 12,
                                              .layers = 3,
                                              .act = WEFT_GELU_TANH,
                                              .dtype = WEFT_F32}));
    WT_ALL(weft_parallelize_module(t.gpt, w->mesh, weft_gpt_plan()) == WEFT_OK);
    t.optim = wt_own(weft_adamw(t.gpt, (weft_adamw_config){.lr = 1e-2}));
    return t;
}

/* Three trainings step by step: as it is, and compiled with and without the pass. */
WT_TEST_IN_WORLD(step__needs_less_memory, w)
{
    struct training t[3] = {open_training(w), open_training(w), open_training(w)};
    weft_compiled *compiled[3] = {NULL};
    int64_t with, without;

    for (int k = 1; k < 3; k++)
        compiled[k] = wt_own(weft_compile(
            train, &t[k],
            (weft_compile_config){
                .name = "step", .fullgraph = true, .passes_off = k == 1 ? NULL : "recompute"}));
    for (int step = 0; step < STEPS; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *in[] = {tokens(step), tokens(step + 1)}, *loss[3];
        double value[3];

        WT_ALL(train(in, 2, &loss[0], 1, &t[0]) == WEFT_OK);
        for (int k = 1; k < 3; k++)
            WT_ALL(weft_compiled_call(compiled[k], in, 2, &loss[k], 1) == WEFT_OK);
        for (int k = 0; k < 3; k++) value[k] = weft_item(loss[k]);
        WT_EQ(memcmp(&value[1], &value[0], sizeof(double)), 0);
        WT_EQ(memcmp(&value[2], &value[0], sizeof(double)), 0);
        weft_scope_close(scope);
    }
    WT_NEAR_PARAMETERS(t[1].gpt, t[0].gpt, WT_EXACT);
    with = weft_compiled_get_counts(compiled[1]).memory;
    without = weft_compiled_get_counts(compiled[2]).memory;
    wt_note("%lld bytes, without the pass %lld", (long long)with, (long long)without);
    WT_ALL((double)with < (weft_world_size() < 3 ? 0.9 : 1) * (double)without);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_recompute"); }
