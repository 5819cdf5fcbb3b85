/*
 * test_models.c: small Llama, BERT and GPT-2 with a tied head in f64, tensor-parallel over all
 * ranks, against PyTorch's numbers: result, loss, every gradient, weights after 3 AdamW steps.
 * Llama has 3 groups of keys, so from 4 ranks on some have no heads; nothing else divides evenly
 * either.
 */
/* mpi: 3 */
#include <math.h>
#include <stdlib.h>

#include "support/given.h"
#include "support/golden.h"

enum { LAYERS = 2, WIDTH = 24, HEADS = 6, GROUPS = 3, CONTEXT = 8, BATCH = 2, VOCAB = 19 };
enum { HIDDEN = 20, TOKENS = BATCH * CONTEXT };

/* ---- what goes in ---- */

static weft_tensor *whole_numbers(int64_t step, int64_t start, int64_t slower, int64_t below)
{
    int64_t values[TOKENS], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < TOKENS; i++) values[i] = (step * (i / slower) + start) % below;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

static weft_tensor *input(void) { return whole_numbers(7, 3, 1, VOCAB); }

static weft_tensor *padding(void)
{
    int64_t shape[] = {BATCH, CONTEXT};
    bool seen[TOKENS];

    for (int i = 0; i < TOKENS; i++) seen[i] = i < TOKENS - 3;
    return weft_from_data(WEFT_BOOL, shape, 2, seen);
}

static weft_tensor *by_formula(int index, const weft_tensor *like)
{
    double values[BATCH * CONTEXT * WIDTH];
    int64_t shape[WEFT_MAX_DIMS];

    for (int d = 0; d < weft_ndim(like); d++) shape[d] = weft_size(like, d);
    for (int64_t i = 0; i < weft_numel(like); i++) values[i] = wt_golden_formula(i, index, 1, 0);
    return weft_from_data(WEFT_F64, shape, weft_ndim(like), values);
}

/* ---- the models ---- */

struct model {
    const char *golden;
    weft_module *(*make)(weft_recompute recompute, weft_dtype dtype);
    weft_tensor *(*result)(weft_module *m);
    weft_tensor *(*loss)(weft_module *m);
    const weft_plan *(*plan)(void);
};

static weft_module *new_llama(weft_recompute recompute, weft_dtype dtype)
{
    return weft_llama(
        (weft_llama_config){.vocab = VOCAB,
                            .width = WIDTH,
                            .heads = HEADS,
                            .kv_heads = GROUPS,
                            .layers = LAYERS,
                            .hidden = HIDDEN,
                            .rotary = {.base = 100, .factor = 4, .low = 1, .high = 4, .length = 16},
                            .dtype = dtype,
                            .recompute = recompute});
}

static weft_module *new_tied_gpt(weft_recompute recompute, weft_dtype dtype)
{
    return weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                      .context = CONTEXT,
                                      .width = WIDTH,
                                      .heads = HEADS,
                                      .layers = LAYERS,
                                      .act = WEFT_GELU_TANH,
                                      .tied = true,
                                      .dtype = dtype,
                                      .recompute = recompute});
}

static weft_module *new_bert(weft_recompute recompute, weft_dtype dtype)
{
    return weft_bert((weft_bert_config){.vocab = VOCAB,
                                        .context = CONTEXT,
                                        .width = WIDTH,
                                        .heads = HEADS,
                                        .layers = LAYERS,
                                        .pooler = true,
                                        .dtype = dtype,
                                        .recompute = recompute});
}

static weft_tensor *logits(weft_module *m) { return weft_call(m, input()); }

static weft_tensor *decoder_loss(weft_module *m)
{
    return weft_gpt_loss(m, input(), whole_numbers(5, 1, 1, VOCAB));
}

static weft_tensor *hidden(weft_module *m)
{
    weft_tensor *in[] = {input(), padding(), whole_numbers(1, 0, 3, 2)};

    return weft_call_n(m, in, 3);
}

static weft_tensor *bert_loss(weft_module *m)
{
    weft_tensor *h = hidden(m), *pooled = weft_bert_pooled(m, h);

    if (!pooled) return NULL;
    return weft_add(weft_mse(h, by_formula(20, h)), weft_mse(pooled, by_formula(21, pooled)));
}

static const struct model llama = {"llama", new_llama, logits, decoder_loss, weft_gpt_plan};
static const struct model tied_gpt = {"gpt_tied", new_tied_gpt, logits, decoder_loss,
                                      weft_gpt_plan};
static const struct model bert = {"bert", new_bert, hidden, bert_loss, weft_bert_plan};

/* ---- against PyTorch ---- */

static weft_module *made(const struct model *model, const struct wt_golden *golden,
                         weft_recompute recompute)
{
    weft_module *m = wt_own(model->make(recompute, WEFT_F64));

    WT_ALL(m && wt_golden_load(golden, m));
    return m;
}

static void run(const struct model *model, weft_recompute recompute)
{
    struct wt_golden *golden = wt_golden_open(model->golden);
    weft_module *m = made(model, golden, recompute);

    WT_EQ(weft_parallelize_module(m, wt_own(given_mesh()), model->plan()), WEFT_OK);
    wt_golden_train(golden, m, model->result, model->loss, 1e-10);
}

WT_TEST(models__llama_equals_pytorch) { run(&llama, WEFT_RECOMPUTE_NONE); }
WT_TEST(models__bert_equals_pytorch) { run(&bert, WEFT_RECOMPUTE_NONE); }
WT_TEST(models__gpt_with_tied_head_equals_pytorch) { run(&tied_gpt, WEFT_RECOMPUTE_NONE); }

WT_TEST(models__recomputing_changes_no_number)
{
    run(&llama, WEFT_RECOMPUTE_MLP);
    run(&llama, WEFT_RECOMPUTE_BLOCK);
    run(&bert, WEFT_RECOMPUTE_BLOCK);
}

/* ---- 16 bits ---- */

static weft_status has_gradient(weft_module *m, const char *name, weft_tensor *parameter,
                                void *payload)
{
    double *grad = wt_values(weft_grad(parameter)), sum = 0;
    const weft_dtype *dtype = payload;

    (void)m;
    (void)name;
    WT_ALL(weft_tensor_dtype(parameter) == *dtype && grad != NULL);
    for (int64_t i = 0; i < weft_numel(parameter); i++) sum += fabs(grad[i]);
    free(grad);
    WT_ALL(isfinite(sum) && sum > 0);
    return WEFT_OK;
}

/* The golden weights rounded to 16 bits give nearly the golden loss, and gradients everywhere. */
static void run_in(weft_dtype dtype, const struct model *model, double want)
{
    weft_module *m = made(model, wt_golden_open(model->golden), WEFT_RECOMPUTE_MLP);
    weft_tensor *loss;

    WT_EQ(weft_module_cast(m, dtype), WEFT_OK);
    WT_EQ(weft_parallelize_module(m, wt_own(given_mesh()), model->plan()), WEFT_OK);
    loss = model->loss(m);
    WT_ALL(fabs(weft_item(loss) - want) < 0.03 * want);
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_EQ(weft_module_each_parameter(m, has_gradient, &dtype), WEFT_OK);
}

WT_TEST(models__run_in_bf16)
{
    run_in(WEFT_BF16, &llama, 4.094);
    run_in(WEFT_BF16, &tied_gpt, 4.879);
}

WT_TEST(models__run_in_f16)
{
    run_in(WEFT_F16, &llama, 4.094);
    run_in(WEFT_F16, &tied_gpt, 4.879);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "models"); }
