/*
 * test_gpt.c: a small GPT in f64, on one device and tensor-parallel over all ranks, against
 * PyTorch's numbers: logits, loss, every gradient, weights after 3 AdamW steps. With 6 heads, 19
 * words and 96 hidden units nothing divides evenly at 4 ranks; at 8, two have no heads.
 */
/* mpi: 1 2 3 4 */
#include "support/given.h"
#include "support/golden.h"

enum { LAYERS = 2, WIDTH = 24, HEADS = 6, CONTEXT = 8, BATCH = 2, VOCAB = 19 };

static weft_module *new_gpt(const struct wt_golden *golden)
{
    weft_module *gpt = wt_own(weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                                         .context = CONTEXT,
                                                         .width = WIDTH,
                                                         .heads = HEADS,
                                                         .layers = LAYERS,
                                                         .act = WEFT_GELU_TANH,
                                                         .dtype = WEFT_F64}));

    WT_ALL(wt_golden_load(golden, gpt));
    return gpt;
}

static weft_tensor *tokens(int64_t step, int64_t start)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i + start) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

static weft_tensor *result(weft_module *gpt) { return weft_call(gpt, tokens(7, 3)); }

static weft_tensor *loss_of(weft_module *gpt)
{
    return weft_gpt_loss(gpt, tokens(7, 3), tokens(5, 1));
}

/* Without a plan: on one device. */
static void run(const weft_plan *plan)
{
    struct wt_golden *golden = wt_golden_open("gpt");
    weft_module *gpt = new_gpt(golden);

    if (plan) WT_EQ(weft_parallelize_module(gpt, wt_own(given_mesh()), plan), WEFT_OK);
    wt_golden_train(golden, gpt, result, loss_of, 1e-11);
}

WT_TEST(gpt__on_one_device_equals_pytorch) { run(NULL); }

WT_TEST(gpt__tensor_parallel_equals_pytorch) { run(weft_gpt_plan()); }

WT_TEST(gpt__replicated_embedding_and_gathered_logits_equal_too)
{
    static const weft_plan plan[] = {
        {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE}},
        {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},
        {"wte", {.kind = WEFT_STYLE_COLWISE, .options = {.output_layouts = "R"}}},
        {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.output_layouts = "R"}}},
        {0},
    };

    run(plan);
}

/* 2 all-reduces per block each way (attention and MLP), 1 for the embedding, 1 for the input of the
 * head; the loss adds the maximum and the sums. */
WT_TEST(gpt__a_step_has_the_collectives_of_the_closed_form)
{
    weft_module *gpt = new_gpt(wt_golden_open("gpt"));
    weft_ledger *ledger;
    int64_t activation = BATCH * CONTEXT * WIDTH * 8, token = BATCH * CONTEXT * 8;
    bool alone = wt_ranks() == 1;

    WT_EQ(weft_parallelize_module(gpt, wt_own(given_mesh()), weft_gpt_plan()), WEFT_OK);
    ledger = wt_own(weft_ledger_open());
    WT_EQ(weft_backward(loss_of(gpt)), WEFT_OK);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_FORWARD, NULL),
          alone ? 0 : 2 * LAYERS + 3);
    WT_EQ(weft_ledger_bytes(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_FORWARD, NULL),
          alone ? 0 : (2 * LAYERS + 1) * activation + 3 * token);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_BACKWARD, NULL),
          alone ? 0 : 2 * LAYERS + 1);
    WT_EQ(weft_ledger_bytes(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_BACKWARD, NULL),
          alone ? 0 : (2 * LAYERS + 1) * activation);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "gpt"); }
