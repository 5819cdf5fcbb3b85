/*
 * test_once.c: what parallel layers easily count more than once or move without need: the bias of a
 * row-wise layer, tied weights, frozen parameters, a vocabulary that does not divide. One device is
 * the yardstick.
 */
/* mpi: 3 */
#include <string.h>

#include "support/given.h"
#include "support/near_modules.h"
#include "support/scratch.h"

enum { VOCAB = 13, WIDTH = 6, BATCH = 3, TOKENS = 5 };

static bool same(weft_tensor *got, weft_tensor *want)
{
    return wt_near_tensors(got, want, WT_WITHIN(1e-12));
}

static weft_tensor *tokens(void) { return given_tokens(BATCH, TOKENS, VOCAB, 3); }

/* ---- bias ---- */

static weft_module *linear(void)
{
    weft_manual_seed(3);
    return wt_own(
        weft_linear_new((weft_linear_config){.in = {VOCAB}, .out = {WIDTH}, .dtype = WEFT_F64}));
}

static void check_bias(const char *output, const char *given_as)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = linear(), *many = linear();
    weft_tensor *x = given(0, BATCH, TOKENS, VOCAB), *y;
    char text[96];
    weft_plan *plan;

    snprintf(text, sizeof text, ". rowwise input=%s output=%s keep", given_as, output);
    plan = wt_own(weft_plan_parse(text));
    WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
    y = WT_NEAR_STEPS(many, given_spread(x, mesh, given_as), one, x, WT_WITHIN(1e-12));
    WT_ALL(given_is(y, output));
    WT_ALL(given_is(weft_grad(weft_module_parameter(many, "bias")), "R"));
}

WT_TEST(bias__is_added_once_whichever_output_is_asked_for)
{
    static const char *const outputs[] = {"R", "S(0)", "S(1)", "S(2)", "P"};

    for (int i = 0; i < 2 * 5; i++) {
        const char *given_as = i % 2 ? "R" : "S(2)";

        wt_row("output %s, input %s", outputs[i / 2], given_as);
        check_bias(outputs[i / 2], given_as);
    }
}

/* ---- tied weights ---- */

static weft_module *gpt(bool tied)
{
    weft_manual_seed(7);
    return wt_own(weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                             .context = TOKENS,
                                             .width = WIDTH,
                                             .heads = 3,
                                             .layers = 1,
                                             .hidden = 10,
                                             .tied = tied,
                                             .dtype = WEFT_F64}));
}

WT_TEST(tied__weights_are_one_parameter_with_one_gradient)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = gpt(true), *many = gpt(true);
    int before = weft_module_parameter_count(many);
    weft_tensor *table;

    WT_EQ(weft_parallelize_module_strict(many, mesh, weft_gpt_plan()), WEFT_OK);
    table = weft_module_parameter(many, "wte.weight");
    WT_ALL(table == weft_module_parameter(many, "head.weight"));
    WT_ALL(given_is(table, "S(0)"));
    WT_EQ(weft_module_parameter_count(many), before);
    WT_EQ(weft_backward(weft_gpt_loss(one, tokens(), tokens())), WEFT_OK);
    WT_EQ(weft_backward(weft_gpt_loss(many, tokens(), tokens())), WEFT_OK);
    WT_ALL(given_is(weft_grad(table), "S(0)"));
    WT_ALL(same(weft_grad(table), weft_grad(weft_module_parameter(one, "wte.weight"))));
}

/* ---- frozen parameters ---- */

static weft_status freeze(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    (void)m;
    (void)name;
    (void)payload;
    weft_set_requires_grad(parameter, false);
    return WEFT_OK;
}

static weft_status has_none(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    (void)payload;
    wt_note("%s.%s", weft_module_path(m), name);
    WT_ALL(!weft_requires_grad(parameter) && !weft_grad(parameter));
    return WEFT_OK;
}

/* Under every plan: all but the last norm frozen. Backward stops there, so that nothing of the
 * blocks is computed or sent. */
WT_TEST(frozen__parameters_cost_nothing_under_any_plan)
{
    const weft_plan *plans[] = {weft_gpt_plan(), weft_gpt_plan_sequence()};
    static const char *const stays[] = {"wte", "wpe", "blocks", "head"};

    weft_mesh *mesh = wt_own(given_mesh());

    for (int i = 0; i < 2; i++) {
        weft_module *m = gpt(false);
        weft_ledger *ledger;
        weft_tensor *loss;

        for (int k = 0; k < 4; k++)
            weft_module_each_parameter(weft_module_child(m, stays[k]), freeze, NULL);
        WT_EQ(weft_parallelize_module_strict(m, mesh, plans[i]), WEFT_OK);
        loss = weft_gpt_loss(m, tokens(), tokens());
        ledger = wt_own(weft_ledger_open());
        WT_EQ(weft_backward(loss), WEFT_OK);
        for (int k = 0; k < 4; k++)
            weft_module_each_parameter(weft_module_child(m, stays[k]), has_none, NULL);
        WT_ALL(weft_requires_grad(weft_module_parameter(m, "norm_f.weight")));
        /* the head's input, summed; as shards of the sequence it stays a part */
        GIVEN_MOVED(ledger, i ? WEFT_COLL_REDUCE_SCATTER : WEFT_COLL_ALL_REDUCE, 1);
    }
}

/* ---- a vocabulary that does not divide ---- */

static void check_state(weft_module *m)
{
    const char *path = wt_scratch("vocab.safetensors");
    weft_weights *file;

    WT_EQ(weft_weights_save(m, path, NULL), WEFT_OK);
    file = wt_own(weft_weights_open(path));
    WT_EQ(weft_weights_find(file, "wte.weight")->shape[0], VOCAB);
    WT_EQ(weft_weights_find(file, "head.weight")->shape[0], VOCAB);
}

/* Nobody sees padding: not in parameters, files, logits, or what is drawn from them. */
WT_TEST(vocabulary__has_no_padding)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = gpt(false), *m = gpt(false);
    weft_tensor *logits, *p, *drawn[2];
    int64_t flat[] = {BATCH * TOKENS, VOCAB};

    WT_EQ(weft_parallelize_module_strict(m, mesh, weft_gpt_plan()), WEFT_OK);
    WT_EQ(weft_size(weft_module_parameter(m, "head.weight"), 0), VOCAB);
    check_state(m);
    weft_no_grad_open();
    logits = weft_call(m, tokens());
    WT_ALL(given_is(logits, "S(2)"));
    WT_EQ(weft_size(logits, -1), VOCAB);
    WT_ALL(same(logits, weft_call(one, tokens())));
    for (int i = 0; i < 2; i++) {
        p = weft_softmax(i ? weft_full_tensor(logits) : weft_call(one, tokens()), -1);
        weft_manual_seed(5);
        drawn[i] = weft_multinomial(weft_reshape(p, flat, 2), 4, true, NULL);
        WT_ALL(drawn[i] != NULL);
    }
    WT_ALL(wt_near_tensors(drawn[1], drawn[0], WT_EXACT));
    weft_no_grad_close();
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "once")); }
