/*
 * test_gpt.c: a small GPT in f64, tensor-parallel over all ranks, against PyTorch's numbers and
 * against the same model on one device: logits, loss, every gradient, weights after 3 AdamW steps.
 * With 6 heads, 19 words and 96 hidden units nothing divides evenly at 4 ranks; at 8, two have no
 * heads.
 */
/* mpi: 1 2 3 4 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "support/golden.h"
#include "support/mpi_check.h"
#include "support/near.h"

enum { LAYERS = 2, WIDTH = 24, HEADS = 6, CONTEXT = 8, BATCH = 2, VOCAB = 19, STEPS = 3 };

static weft_module *new_gpt(const struct wt_golden *golden)
{
    weft_module *gpt = weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                                  .context = CONTEXT,
                                                  .width = WIDTH,
                                                  .heads = HEADS,
                                                  .layers = LAYERS,
                                                  .act = WEFT_GELU_TANH,
                                                  .dtype = WEFT_F64});

    WT_ALL(gpt != NULL);
    WT_ALL(wt_golden_load(golden, gpt));
    return gpt;
}

static weft_tensor *tokens(int64_t step, int64_t start)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i + start) % VOCAB;
    return weft_from_data(WEFT_I64, 2, shape, values);
}

static weft_tensor *input(void) { return tokens(7, 3); }
static weft_tensor *target(void) { return tokens(5, 1); }

/* The same parameter of a parallel and of a plain model, walked side by side. */
struct comparison {
    const struct wt_golden *golden;
    weft_module *plain;
    const char *prefix; /* "grad" or "after" */
    struct wt_tolerance tolerance;
};

static weft_status compare_one(weft_module *m, const char *name, weft_tensor *parameter,
                               void *payload)
{
    const struct comparison *c = payload;
    bool gradient = strcmp(c->prefix, "grad") == 0;
    char path[96], key[128];
    weft_tensor *plain;

    snprintf(path, sizeof path, "%s.%s", weft_module_path(m), name);
    snprintf(key, sizeof key, "%s.%s", c->prefix, path);
    plain = weft_module_parameter(c->plain, path);
    WT_ALL(plain != NULL);
    if (gradient) {
        parameter = weft_grad(parameter);
        plain = weft_grad(plain);
    }
    WT_ALL(wt_golden_matches(c->golden, key, parameter, c->tolerance));
    WT_ALL(wt_near_tensors(parameter, plain, c->tolerance));
    return WEFT_OK;
}

static void compare(const struct wt_golden *golden, weft_module *parallel, weft_module *plain,
                    const char *prefix)
{
    struct comparison c = {golden, plain, prefix, WT_WITHIN(1e-10)};

    WT_ALL(weft_module_each_parameter(parallel, compare_one, &c) == WEFT_OK);
}

static void train(weft_module *gpt, weft_optim *optim, double *loss)
{
    weft_scope *s = weft_scope_open();
    weft_tensor *l = weft_gpt_loss(gpt, input(), target());

    WT_ALL(l != NULL);
    *loss = weft_item(l);
    WT_ALL(weft_backward(l) == WEFT_OK);
    if (optim) WT_ALL(weft_step(optim) == WEFT_OK);
    weft_scope_close(s);
}

static bool losses_match(const struct wt_golden *golden, const double *losses)
{
    int64_t shape[] = {STEPS};

    return wt_golden_matches(golden, "losses", weft_from_data(WEFT_F64, 1, shape, losses),
                             WT_WITHIN(1e-11));
}

static void run(const weft_plan *plan)
{
    struct wt_golden *golden = wt_golden_open("gpt");
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());
    weft_module *gpt, *plain;
    weft_optim *optim, *plain_optim;
    double losses[STEPS], reference[STEPS];
    weft_adamw_config adamw = {.lr = 1e-3, .weight_decay = 0.01};

    WT_ALL(golden != NULL);
    gpt = new_gpt(golden);
    plain = new_gpt(golden);
    WT_ALL(weft_parallelize_module(gpt, mesh, plan) == WEFT_OK);
    WT_ALL(wt_golden_matches(golden, "result", weft_call(gpt, input()), WT_WITHIN(1e-11)));
    train(gpt, NULL, &losses[0]);
    train(plain, NULL, &reference[0]);
    compare(golden, gpt, plain, "grad");
    optim = weft_adamw(gpt, adamw);
    plain_optim = weft_adamw(plain, adamw);
    weft_optim_zero_grad(optim);
    weft_optim_zero_grad(plain_optim);
    for (int step = 0; step < STEPS; step++) {
        train(gpt, optim, &losses[step]);
        train(plain, plain_optim, &reference[step]);
    }
    WT_ALL(wt_near(losses, reference, STEPS, WT_WITHIN(1e-11)));
    WT_ALL(losses_match(golden, losses));
    compare(golden, gpt, plain, "after");
    weft_optim_release(optim);
    weft_optim_release(plain_optim);
    weft_module_release(gpt);
    weft_module_release(plain);
    weft_mesh_release(mesh);
    wt_golden_close(golden);
}

WT_TEST(gpt__tensor_parallel_equals_one_device_and_pytorch) { run(weft_gpt_plan()); }

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
    struct wt_golden *golden = wt_golden_open("gpt");
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());
    weft_module *gpt = new_gpt(golden);
    weft_ledger *ledger;
    int64_t activation = BATCH * CONTEXT * WIDTH * 8, token = BATCH * CONTEXT * 8;
    bool alone = wt_ranks() == 1;
    double loss;

    WT_ALL(weft_parallelize_module(gpt, mesh, weft_gpt_plan()) == WEFT_OK);
    ledger = weft_ledger_open();
    train(gpt, NULL, &loss);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_FORWARD, NULL),
          alone ? 0 : 2 * LAYERS + 3);
    WT_EQ(weft_ledger_bytes(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_FORWARD, NULL),
          alone ? 0 : (2 * LAYERS + 1) * activation + 3 * token);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_BACKWARD, NULL),
          alone ? 0 : 2 * LAYERS + 1);
    WT_EQ(weft_ledger_bytes(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_BACKWARD, NULL),
          alone ? 0 : (2 * LAYERS + 1) * activation);
    weft_ledger_close(ledger);
    weft_module_release(gpt);
    weft_mesh_release(mesh);
    wt_golden_close(golden);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "gpt"); }
