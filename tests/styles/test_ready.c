/*
 * test_ready.c: GPT, Llama and BERT under the ready plans, with and without sequence parallelism:
 * loss and every gradient equal one device's, and the collectives are those that weft_plan_print
 * promises.
 */
/* mpi: 2 */
#include <string.h>

#include "support/given.h"
#include "support/near_modules.h"

/* A model of 2 layers. */
struct model {
    const char *name;
    enum { GPT, LLAMA, BERT } family;
    int64_t length, vocab, heads, kv_heads;
    bool tied;
    double dropout;
};

static weft_module *decoder(const struct model *model)
{
    if (model->family == LLAMA)
        return weft_llama((weft_llama_config){.vocab = model->vocab,
                                              .width = 4 * model->heads,
                                              .heads = model->heads,
                                              .kv_heads = model->kv_heads,
                                              .layers = 2,
                                              .hidden = 10,
                                              .tied = model->tied,
                                              .dtype = WEFT_F64});
    return weft_gpt((weft_gpt_config){.vocab = model->vocab,
                                      .context = 12,
                                      .width = 4 * model->heads,
                                      .heads = model->heads,
                                      .layers = 2,
                                      .hidden = 10,
                                      .act = WEFT_GELU_TANH,
                                      .dropout = model->dropout,
                                      .dtype = WEFT_F64,
                                      .tied = model->tied});
}

static weft_module *make(const struct model *model)
{
    weft_manual_seed(7);
    if (model->family != BERT) return wt_own(decoder(model));
    return wt_own(weft_bert((weft_bert_config){.vocab = model->vocab,
                                               .context = 12,
                                               .width = 4 * model->heads,
                                               .heads = model->heads,
                                               .layers = 2,
                                               .hidden = 10,
                                               .dropout = model->dropout,
                                               .pooler = true,
                                               .dtype = WEFT_F64}));
}

static weft_tensor *tokens(const struct model *model, int64_t shift)
{
    return given_tokens(2, model->length, model->vocab, shift);
}

/* Of the hidden states and what is pooled from them, with the last two tokens hidden. */
static weft_tensor *bert_loss(weft_module *bert, const struct model *model)
{
    weft_tensor *inputs[] = {tokens(model, 3), NULL}, *hidden, *pooled;
    bool seen[2 * 12];

    for (int64_t i = 0; i < 2 * model->length; i++) seen[i] = i < 2 * model->length - 2;
    inputs[1] = weft_from_data(WEFT_BOOL, (int64_t[]){2, model->length}, 2, seen);
    hidden = weft_call_n(bert, inputs, 2);
    WT_ALL(hidden != NULL);
    pooled = weft_bert_pooled(bert, hidden);
    return weft_add(weft_sum_all(weft_mul(hidden, given_like(hidden))),
                    weft_sum_all(weft_mul(pooled, given_like(pooled))));
}

static weft_tensor *loss_of(weft_module *m, const struct model *model)
{
    weft_manual_seed(2);
    return model->family == BERT ? bert_loss(m, model)
                                 : weft_gpt_loss(m, tokens(model, 3), tokens(model, 8));
}

struct leaves {
    weft_tensor *of[64];
    int n;
};

static weft_status collect(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    struct leaves *leaves = payload;

    (void)m;
    (void)name;
    leaves->of[leaves->n++] = parameter;
    return WEFT_OK;
}

struct step {
    int64_t forward[4], backward[4];
};

static void count(struct step *step, const weft_ledger *ledger)
{
    for (int kind = 0; kind < 4; kind++) {
        step->forward[kind] =
            weft_ledger_count(ledger, (weft_coll)kind, WEFT_DIRECTION_FORWARD, NULL);
        step->backward[kind] =
            weft_ledger_count(ledger, (weft_coll)kind, WEFT_DIRECTION_BACKWARD, NULL);
    }
}

/* Under sequence parallelism the gradients of norms wait for one all-reduce. */
static void check(const weft_plan *plan, const struct model *model, bool sequence,
                  struct step *step)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = make(model), *many = make(model);
    weft_tensor *loss, *loss_one;
    struct leaves leaves = {.n = 0};
    weft_ledger *ledger;

    WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
    loss_one = loss_of(one, model);
    WT_EQ(weft_backward(loss_one), WEFT_OK);
    ledger = wt_own(weft_ledger_open());
    loss = loss_of(many, model);
    WT_ALL(loss && !weft_tensor_mesh(loss));
    WT_EQ(weft_backward(loss), WEFT_OK);
    count(step, ledger);
    WT_ALL(wt_near_tensors(loss, loss_one, WT_WITHIN(model->family == BERT ? 1e-11 : 1e-12)));
    WT_EQ(weft_module_each_parameter(many, collect, &leaves), WEFT_OK);
    weft_ledger_reset(ledger);
    WT_EQ(weft_reduce_gradients(leaves.of, leaves.n), WEFT_OK);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_REDUCE, sequence);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-11));
}

/* Dropout under sequence parallelism draws what one device draws. */
static const struct model models[] = {
    {"GPT", GPT, 12, 24, 8, 0, false, 0},
    {"GPT uneven", GPT, 7, 13, 3, 0, false, 0},
    {"GPT of few", GPT, 3, 5, 2, 0, false, 0},
    {"GPT tied", GPT, 7, 13, 3, 0, true, 0},
    {"Llama", LLAMA, 12, 24, 8, 8, false, 0},
    {"Llama uneven", LLAMA, 7, 13, 6, 3, false, 0},
    {"Llama tied", LLAMA, 5, 13, 4, 1, true, 0},
    {"BERT", BERT, 12, 24, 8, 0, false, 0},
    {"BERT uneven", BERT, 7, 13, 3, 0, false, 0},
    {"BERT of few", BERT, 3, 5, 2, 0, false, 0},
    {"GPT with dropout", GPT, 12, 24, 8, 0, false, 0.25},
    {"GPT uneven with dropout", GPT, 7, 13, 3, 0, false, 0.25},
    {"BERT of few with dropout", BERT, 3, 5, 2, 0, false, 0.25},
};

static void check_all(const weft_plan *gpt, const weft_plan *bert, bool sequence)
{
    struct step step;

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (models[i].dropout > 0 && !sequence) continue;
        wt_row("%s", models[i].name);
        check(models[i].family == BERT ? bert : gpt, &models[i], sequence, &step);
    }
}

WT_TEST(ready__models_equal_one_device) { check_all(weft_gpt_plan(), weft_bert_plan(), false); }

WT_TEST(ready__models_with_sequence_parallelism_equal_one_device)
{
    check_all(weft_gpt_plan_sequence(), weft_bert_plan_sequence(), true);
}

/* ---- promises ---- */

/* "a forward issues 2 all-reduce, ...": the figures, which is all-reduce, all-gather,
 * reduce-scatter, all-to-all. */
static void check_promise(const char *text, const char *head, const int64_t counts[4])
{
    static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"};
    const char *at = strstr(text, head), *end = at ? strchr(at, '\n') : NULL;

    WT_ALL(at && end);
    for (int kind = 0; kind < 4; kind++) {
        const char *name = strstr(at, names[kind]), *digit;
        int64_t said = 0, place = 1;

        if (name && name < end)
            for (digit = name - 2; *digit >= '0' && *digit <= '9'; digit--, place *= 10)
                said += (*digit - '0') * place;
        wt_note("%.*s: %lld %s", (int)(end - at), at, (long long)counts[kind], names[kind]);
        WT_EQ(said, counts[kind]);
    }
}

WT_TEST(ready__a_step_issues_what_the_plan_prints)
{
    const weft_plan *plans[] = {weft_gpt_plan(), weft_gpt_plan_sequence()};

    for (int i = 0; i < 2; i++) {
        weft_mesh *mesh = wt_own(given_mesh());
        weft_module *m = make(&models[0]);
        char text[16384], after[16384];
        struct step step;

        given_plan_text(text, sizeof text, m, mesh, plans[i]);
        WT_EQ(weft_parallelize_module(m, mesh, plans[i]), WEFT_OK);
        given_plan_text(after, sizeof after, m, mesh, plans[i]);
        WT_ALL(strcmp(text, after) == 0);
        check(plans[i], &models[0], i, &step);
        check_promise(text, "a forward issues", step.forward);
        check_promise(text, "a backward issues", step.backward);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "ready"); }
