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
    bool llama, tied;
    double dropout;
    int64_t vocab, heads, kv_heads;
};

static weft_module *make(const struct model *model)
{
    weft_manual_seed(7);
    if (model->llama)
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

static weft_tensor *tokens(int64_t length, int64_t vocab, int64_t shift)
{
    int64_t shape[] = {2, length}, index[2 * 12];

    for (int64_t i = 0; i < 2 * length; i++) index[i] = (i * 5 + shift) % vocab;
    return weft_from_data(WEFT_I64, 2, shape, index);
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

static void check(const weft_plan *plan, const struct model *model, int64_t length,
                  struct step *step)
{
    weft_mesh *mesh = given_mesh();
    weft_module *one = make(model), *many = make(model);
    weft_tensor *x = tokens(length, model->vocab, 3), *t = tokens(length, model->vocab, 8), *loss,
                *loss_one;
    struct leaves leaves = {.n = 0};
    weft_ledger *ledger;

    WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
    weft_manual_seed(2);
    loss_one = weft_gpt_loss(one, x, t);
    WT_EQ(weft_backward(loss_one), WEFT_OK);
    weft_manual_seed(2);
    ledger = weft_ledger_open();
    loss = weft_gpt_loss(many, x, t);
    WT_ALL(loss != NULL);
    WT_EQ(weft_backward(loss), WEFT_OK);
    count(step, ledger);
    WT_ALL(wt_near_tensors(loss, loss_one, WT_WITHIN(1e-12)));
    WT_EQ(weft_module_each_parameter(many, collect, &leaves), WEFT_OK);
    weft_ledger_reset(ledger);
    WT_EQ(weft_reduce_gradients(leaves.of, leaves.n), WEFT_OK);
    if (plan == weft_gpt_plan_sequence())
        GIVEN_MOVED(ledger, WEFT_COLL_ALL_REDUCE, 1);
    else
        GIVEN_STILL(ledger);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-11));
    weft_ledger_close(ledger);
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

static const struct model even = {.vocab = 24, .heads = 8};

static void check_plan(const weft_plan *plan)
{
    static const struct {
        struct model model;
        int64_t length;
    } cases[] = {
        {{.vocab = 24, .heads = 8}, 12},
        {{.vocab = 13, .heads = 3}, 7},
        {{.vocab = 5, .heads = 2}, 3},
        {{.tied = true, .vocab = 13, .heads = 3}, 7},
        {{.llama = true, .vocab = 24, .heads = 8, .kv_heads = 8}, 12},
        {{.llama = true, .vocab = 13, .heads = 6, .kv_heads = 3}, 7},
        {{.llama = true, .tied = true, .vocab = 13, .heads = 4, .kv_heads = 1}, 5},
    };
    struct step step;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_scope *scope = weft_scope_open();

        wt_note("case %d", (int)i);
        check(plan, &cases[i].model, cases[i].length, &step);
        weft_scope_close(scope);
    }
}

WT_TEST(ready__models_equal_one_device) { check_plan(weft_gpt_plan()); }

WT_TEST(ready__models_with_sequence_parallelism_equal_one_device)
{
    check_plan(weft_gpt_plan_sequence());
}

WT_TEST(ready__dropout_under_sequence_parallelism_draws_what_one_device_draws)
{
    struct step step;

    check(weft_gpt_plan_sequence(), &(struct model){.dropout = 0.25, .vocab = 24, .heads = 8}, 12,
          &step);
    check(weft_gpt_plan_sequence(), &(struct model){.dropout = 0.25, .vocab = 13, .heads = 3}, 7,
          &step);
}

/* ---- BERT ---- */

static weft_tensor *run_bert(weft_module *bert, weft_tensor *x, weft_tensor *mask)
{
    weft_tensor *inputs[] = {x, mask}, *hidden, *pooled;

    weft_manual_seed(2);
    hidden = weft_call_n(bert, inputs, 2);
    WT_ALL(hidden != NULL);
    pooled = weft_bert_pooled(bert, hidden);
    return weft_add(weft_sum_all(weft_mul(hidden, given_like(hidden))),
                    weft_sum_all(weft_mul(pooled, given_like(pooled))));
}

static void check_bert(const weft_plan *plan, int64_t length, int64_t vocab, int64_t heads,
                       double dropout)
{
    weft_bert_config config = {.vocab = vocab,
                               .context = 12,
                               .width = 4 * heads,
                               .heads = heads,
                               .layers = 2,
                               .hidden = 10,
                               .dropout = dropout,
                               .pooler = true,
                               .dtype = WEFT_F64};
    weft_mesh *mesh = given_mesh();
    weft_tensor *x = tokens(length, vocab, 3), *y, *y_one;
    weft_module *one, *many;
    bool seen[2 * 12];

    for (int64_t i = 0; i < 2 * length; i++) seen[i] = i < 2 * length - 2;
    weft_manual_seed(7);
    one = weft_bert(config);
    weft_manual_seed(7);
    many = weft_bert(config);
    WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
    y_one = run_bert(one, x, weft_from_data(WEFT_BOOL, 2, (int64_t[]){2, length}, seen));
    y = run_bert(many, x, weft_from_data(WEFT_BOOL, 2, (int64_t[]){2, length}, seen));
    WT_ALL(y && !weft_tensor_mesh(y));
    WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-11)));
    WT_EQ(weft_backward(y_one), WEFT_OK);
    WT_EQ(weft_backward(y), WEFT_OK);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-11));
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

WT_TEST(ready__bert_equals_one_device)
{
    const weft_plan *plans[] = {weft_bert_plan(), weft_bert_plan_sequence()};

    for (int i = 0; i < 2; i++) {
        wt_note("plan %d", i);
        check_bert(plans[i], 12, 24, 8, 0);
        check_bert(plans[i], 7, 13, 3, 0);
        check_bert(plans[i], 3, 5, 2, i ? 0.25 : 0);
    }
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
        weft_mesh *mesh = given_mesh();
        weft_module *m = make(&even);
        char text[16384], after[16384];
        struct step step;

        given_plan_text(text, sizeof text, m, mesh, plans[i]);
        WT_EQ(weft_parallelize_module(m, mesh, plans[i]), WEFT_OK);
        given_plan_text(after, sizeof after, m, mesh, plans[i]);
        WT_ALL(strcmp(text, after) == 0);
        check(plans[i], &even, 12, &step);
        check_promise(text, "a forward issues", step.forward);
        check_promise(text, "a backward issues", step.backward);
        weft_module_release(m);
        weft_mesh_release(mesh);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "ready"); }
