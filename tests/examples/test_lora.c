/*
 * test_lora.c: adapters in the place of linear layers of a ready GPT, as examples/lora.c puts them
 * there: PyTorch's numbers under a plan, what is frozen stays, and what a replaced child leaves
 * behind.
 */
/* mpi: 3 */
#include "lora/adapter.h"
#include "support/given.h"
#include "support/golden.h"

enum { LAYERS = 2, WIDTH = 24, HEADS = 6, CONTEXT = 8, BATCH = 2, VOCAB = 19 };

static const weft_plan plan[] = {
    {"wte", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.attn.qkv.base", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.qkv.b", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.proj.base", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.attn.proj.a", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.up.base", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.up.b", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.down.base", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.down.a", {.kind = WEFT_STYLE_ROWWISE}},
    {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}}},
    {"loss", {.kind = WEFT_STYLE_LOSS}},
    {0},
};

static void adapt_block(weft_module *gpt, int layer)
{
    const struct {
        const char *name;
        struct adapter adapter;
    } rows[] = {
        {"attn.qkv", {.in = {WIDTH}, .out = {3, HEADS, WIDTH / HEADS}, .out_split = 1}},
        {"attn.proj", {.in = {HEADS, WIDTH / HEADS}, .out = {WIDTH}}},
        {"mlp.up", {.in = {WIDTH}, .out = {4 * WIDTH}}},
        {"mlp.down", {.in = {4 * WIDTH}, .out = {WIDTH}}},
    };

    for (int i = 0; i < 4; i++) {
        struct adapter adapter = rows[i].adapter;
        char path[64];

        snprintf(path, sizeof path, "blocks.%d.%s", layer, rows[i].name);
        adapter.rank = 3;
        adapter.scale = 2;
        adapter.dtype = WEFT_F64;
        WT_EQ(adapt(gpt, path, adapter), WEFT_OK);
    }
}

static weft_module *plain(void)
{
    weft_manual_seed(1);
    return wt_own(weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                             .context = CONTEXT,
                                             .width = WIDTH,
                                             .heads = HEADS,
                                             .layers = LAYERS,
                                             .act = WEFT_GELU_TANH,
                                             .dtype = WEFT_F64}));
}

static weft_module *with_adapters(void)
{
    weft_module *gpt = plain();

    for (int layer = 0; layer < LAYERS; layer++) adapt_block(gpt, layer);
    return gpt;
}

static weft_tensor *whole_numbers(int64_t step, int64_t start)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i + start) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

static weft_tensor *logits(weft_module *gpt) { return weft_call(gpt, whole_numbers(7, 3)); }

static weft_tensor *loss_of(weft_module *gpt)
{
    return weft_gpt_loss(gpt, whole_numbers(7, 3), whole_numbers(5, 1));
}

/* trial 4.2 */
WT_TEST(lora__in_a_ready_gpt_equals_pytorch)
{
    struct wt_golden *golden = wt_golden_open("lora");
    weft_module *gpt = with_adapters();

    WT_ALL(wt_golden_load(golden, gpt));
    WT_EQ(freeze_base(gpt), LAYERS * 3 * (5 * WIDTH + 3 * WIDTH + 2 * 4 * WIDTH));
    WT_EQ(weft_parallelize_module_strict(gpt, wt_own(given_mesh()), plan), WEFT_OK);
    wt_golden_train(golden, gpt, logits, loss_of, 1e-10);
}

/* trial 4.2: an adapter that has learned nothing changes nothing */
WT_TEST(lora__computes_what_the_model_did_before)
{
    weft_module *one = plain(), *two = with_adapters();

    WT_ALL(wt_near_tensors(logits(two), logits(one), WT_EXACT));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "lora"); }
