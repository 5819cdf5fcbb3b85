/*
 * test_moe.c: the mixture of experts of examples/moe in f64 against PyTorch's numbers
 * (make_moe.py): result, loss, every gradient, weights after 3 AdamW steps, and what is sent. 9
 * experts, of which one gets no token: with 4 and 8 ranks some ranks have no experts; 14 tokens
 * divide by 2 only.
 */
/* mpi: 3 4 */
#include "moe/layer.h"
#include "support/golden.h"
#include "support/worlds.h"

enum { TOKENS = 14, WIDTH = 6, HIDDEN = 10, EXPERTS = 9, CHOSEN = 2, STEPS = 3 };

static const double BALANCE = 0.1;

struct golden_case {
    const char *golden;
    double capacity;
};

static const struct golden_case dropless = {"moe", 0}, dropping = {"moe_capacity", 1.25};

/* ---- tokens that are learned, and the layer ---- */

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)n;
    return weft_add(weft_call(weft_module_child(m, "moe"), weft_module_parameter(m, "tokens")),
                    inputs[0]);
}

static const weft_module_class learned_tokens = {.type = "learned tokens", .forward = forward};

static weft_module *model(const struct golden_case *c)
{
    weft_module *m = weft_module_new(&learned_tokens, NULL);
    weft_tensor *tokens = weft_full(WEFT_F64, (int64_t[]){TOKENS, WIDTH}, 2, 0);

    WT_ALL(weft_module_add_parameter(m, "tokens", tokens) == WEFT_OK);
    WT_ALL(weft_module_add_child(m, "moe",
                                 moe_new((struct moe_config){.experts = EXPERTS,
                                                             .chosen = CHOSEN,
                                                             .width = WIDTH,
                                                             .hidden = HIDDEN,
                                                             .capacity = c->capacity,
                                                             .dtype = WEFT_F64})) == WEFT_OK);
    return wt_own(m);
}

static void spread(struct wt_world *w, weft_module *m)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *tokens = weft_module_parameter(m, "tokens");

    tokens = weft_distribute_tensor(tokens, w->mesh, &rows, -1);
    WT_ALL(weft_module_set_parameter(m, "tokens", tokens) == WEFT_OK);
    WT_ALL(moe_spread(weft_module_child(m, "moe"), w->mesh) == WEFT_OK);
}

static weft_tensor *target(struct wt_world *w, bool distributed)
{
    double values[TOKENS * WIDTH];
    weft_tensor *t;

    for (int64_t i = 0; i < TOKENS * WIDTH; i++) values[i] = wt_golden_formula(i, 20, 1, 0);
    t = weft_from_data(WEFT_F64, (int64_t[]){TOKENS, WIDTH}, 2, values);
    return distributed ? wt_spread(w, t, "S(0)") : t;
}

static weft_tensor *loss_of(struct wt_world *w, weft_module *m, weft_tensor **result,
                            struct moe_report *report)
{
    weft_tensor *tokens = weft_module_parameter(m, "tokens");

    *result = moe_forward(weft_module_child(m, "moe"), tokens, report);
    return weft_add(weft_mse(*result, target(w, weft_tensor_mesh(tokens) != NULL)),
                    weft_mul_scalar(report->balance, BALANCE));
}

/* ---- against PyTorch ---- */

static void equals_pytorch(const struct golden_case *c, bool distributed)
{
    struct wt_world w = wt_world_open();
    struct wt_golden *golden = wt_golden_open(c->golden);
    weft_module *m = model(c);
    weft_optim *optim;
    double losses[STEPS];
    weft_tensor *all;

    WT_ALL(wt_golden_load(golden, m));
    if (distributed) spread(&w, m);
    optim = wt_own(weft_adamw(m, (weft_adamw_config){.lr = 1e-3, .weight_decay = 0.01}));
    for (int step = 0; step < STEPS; step++) {
        struct moe_report report;
        weft_tensor *result, *loss = loss_of(&w, m, &result, &report);

        WT_ALL(loss && (report.dropped > 0) == (c->capacity > 0));
        losses[step] = weft_item(weft_full_tensor(weft_detach(loss)));
        WT_ALL(weft_backward(loss) == WEFT_OK);
        if (step == 0) {
            WT_ALL(wt_golden_matches(golden, "result", result, WT_WITHIN(1e-12)));
            wt_golden_parameters(golden, m, "grad", 1e-11);
        }
        WT_ALL(weft_step(optim) == WEFT_OK);
    }
    all = weft_from_data(WEFT_F64, (int64_t[]){STEPS}, 1, losses);
    WT_ALL(wt_golden_matches(golden, "losses", all, WT_WITHIN(1e-12)));
    wt_golden_parameters(golden, m, "after", 1e-11);
}

/* trial 4.3 */
WT_TEST(moe__without_a_bound_equals_pytorch)
{
    equals_pytorch(&dropless, false);
    equals_pytorch(&dropless, true);
}

/* trial 4.3 */
WT_TEST(moe__with_a_capacity_equals_pytorch)
{
    equals_pytorch(&dropping, false);
    equals_pytorch(&dropping, true);
}

/* ---- what is sent ---- */

static int64_t sent(const struct wt_world *w, weft_coll kind, weft_direction direction)
{
    return weft_ledger_count(w->ledger, kind, direction, NULL);
}

/* trial 4.3: forward a number per expert is gathered and rows go and come; backward rows go and
 * come. The rest is the loss's. */
WT_TEST(moe__sends_rows_there_and_back_each_way)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 2; i++) {
        const struct golden_case *c = i ? &dropping : &dropless;
        weft_module *m = model(c);
        weft_tensor *result;
        int64_t kept = TOKENS * CHOSEN, bytes = 0;
        struct moe_report report;

        WT_ALL(wt_golden_load(wt_golden_open(c->golden), m));
        spread(&w, m);
        weft_ledger_reset(w.ledger);
        result =
            moe_forward(weft_module_child(m, "moe"), weft_module_parameter(m, "tokens"), &report);
        WT_EQ(sent(&w, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_FORWARD), 1);
        WT_EQ(sent(&w, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_FORWARD), 2);
        WT_EQ(sent(&w, WEFT_COLL_COUNT, WEFT_DIRECTION_FORWARD), 3);
        WT_ALL(weft_backward(weft_sum_all(result)) == WEFT_OK);
        WT_EQ(sent(&w, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_BACKWARD), 2);
        WT_EQ(sent(&w, WEFT_COLL_COUNT, WEFT_DIRECTION_BACKWARD), 2);
        bytes = weft_ledger_bytes(w.ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_ANY, NULL);
        kept -= report.dropped;
        bytes = (int64_t)weft_item(
            weft_mesh_all_reduce(weft_full(WEFT_F64, NULL, 0, (double)bytes), WEFT_SUM, w.mesh, 0));
        WT_EQ(bytes, 4 * kept * WIDTH * (int64_t)sizeof(double));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "moe"); }
