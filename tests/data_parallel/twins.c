/* twins.c: models, batches and comparisons for the tests of data parallelism. */
#include "data_parallel/twins.h"

#include <stdio.h>

bool tw_next_mesh(int *dp, int *tp)
{
    do ++*dp;
    while (*dp <= wt_ranks() && wt_ranks() % *dp);
    *tp = wt_ranks() / (*dp > wt_ranks() ? 1 : *dp);
    wt_row("dp=%d,tp=%d", *dp, *tp);
    return *dp <= wt_ranks();
}

bool tw_next_hybrid(int *dp, int *fsdp, int *tp)
{
    int all = wt_ranks();

    if (!*dp) *dp = 1;
    do ++*fsdp;
    while (*fsdp <= all && all % (*dp * *fsdp));
    if (*fsdp > all) {
        do ++*dp;
        while (*dp <= all && all % *dp);
        *fsdp = 1;
    }
    *tp = *dp <= all ? all / *dp / *fsdp : 0;
    wt_row("dp=%d,fsdp=%d,tp=%d", *dp, *fsdp, *tp);
    return *dp <= all;
}

static weft_module *new_model(const struct tw_options *o)
{
    weft_module *model;

    weft_manual_seed(7);
    model = weft_gpt((weft_gpt_config){.vocab = TW_VOCAB,
                                       .context = TW_CONTEXT,
                                       .width = 12,
                                       .heads = 3,
                                       .layers = 2,
                                       .hidden = 10,
                                       .act = WEFT_GELU_TANH,
                                       .dtype = WEFT_F64,
                                       .tied = o->tied,
                                       .recompute = o->recompute});
    WT_ALL(model != NULL);
    if (o->frozen)
        WT_ALL(weft_set_requires_grad(weft_module_parameter(model, o->frozen), false) != NULL);
    return model;
}

struct twins tw_begin(const char *axes, const char *mesh)
{
    struct twins t = {.world = wt_world_open_mesh("%s", mesh)};

    t.dp = wt_part(&t.world, axes);
    t.tp = wt_part(&t.world, "tp");
    t.replicas = weft_mesh_size(t.dp);
    for (int a = 0; a < weft_mesh_ndim(t.dp); a++)
        t.me = t.me * weft_mesh_axis_size(t.dp, a) + weft_mesh_coordinate(t.dp, a);
    return t;
}

void tw_optimize(struct twins *t)
{
    weft_adamw_config config = {.lr = 0.01, .weight_decay = 0.1};

    t->whole_optim = wt_own(weft_adamw(t->whole, config));
    t->replica_optim = wt_own(weft_adamw(t->replica, config));
    WT_ALL(t->whole_optim && t->replica_optim);
    weft_ledger_reset(t->world.ledger);
}

struct twins tw_open(int dp, int tp, struct tw_options o)
{
    char mesh[64], fsdp[32];
    struct twins t;

    snprintf(fsdp, sizeof fsdp, "fsdp=%d,", o.fsdp);
    snprintf(mesh, sizeof mesh, "dp=%d,%stp=%d", dp, o.fsdp ? fsdp : "", tp);
    t = tw_begin(o.fsdp ? "dp,fsdp" : "dp", mesh);
    t.whole = wt_own(new_model(&o));
    t.replica = wt_own(new_model(&o));
    if (!o.unplanned)
        WT_EQ(weft_parallelize_module(t.replica, t.tp,
                                      o.sequence ? weft_gpt_plan_sequence() : weft_gpt_plan()),
              WEFT_OK);
    WT_EQ(weft_data_parallel(t.replica, t.dp, o.config), WEFT_OK);
    weft_mesh_release(weft_mesh_flatten(t.world.mesh, NULL));
    tw_optimize(&t);
    return t;
}

/* ---- batches ---- */

bool tw_all(int row, int position)
{
    (void)row;
    (void)position;
    return true;
}

bool tw_some(int row, int position) { return row != 2 && position >= row; }

weft_tensor *tw_loss(weft_module *model, int batch, int first, int step, tw_counts *counts)
{
    int32_t in[TW_ROWS * TW_CONTEXT], out[TW_ROWS * TW_CONTEXT];
    int64_t shape[] = {0, TW_CONTEXT}, n = 0;

    for (int row = first; row < TW_ROWS; row += step, shape[0]++)
        for (int i = 0; i < TW_CONTEXT; i++, n++) {
            in[n] = (batch * 5 + row * 3 + i * 7) % TW_VOCAB;
            out[n] = counts(row, i) ? (in[n] * 2 + batch) % TW_VOCAB : TW_IGNORED;
        }
    return weft_gpt_loss(model, weft_from_data(WEFT_I32, shape, 2, in),
                         weft_from_data(WEFT_I32, shape, 2, out));
}

static int64_t count(int first, int step, tw_counts *counts)
{
    int64_t tokens = 0;

    for (int row = first; row < TW_ROWS; row += step)
        for (int i = 0; i < TW_CONTEXT; i++) tokens += counts(row, i);
    return tokens;
}

double tw_backward(struct twins *t, int batch, int batches, tw_counts *counts)
{
    int64_t of_all = batches * count(0, 1, counts), mine = count(t->me, t->replicas, counts);
    double mean = 0;

    for (int i = 0; i < batches; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *loss = tw_loss(t->whole, batch + i, 0, 1, counts);

        loss = weft_mul_scalar(loss, 1.0 / batches);
        mean += weft_item(loss);
        WT_EQ(weft_backward(loss), WEFT_OK);
        loss = tw_loss(t->replica, batch + i, t->me, t->replicas, counts);
        WT_EQ(weft_data_parallel_backward(t->replica, loss, mine), WEFT_OK);
        weft_scope_close(scope);
    }
    t->tokens = of_all;
    return mean;
}

/* ---- comparing ---- */

static bool near(double got, double want) { return wt_near(&got, &want, 1, WT_WITHIN(1e-10)); }

void tw_step(struct twins *t, double mean)
{
    double norm[2], loss;
    int64_t tokens;

    WT_EQ(weft_clip_grad_norm(t->whole, 0.5, &norm[0]), WEFT_OK);
    WT_EQ(weft_clip_grad_norm(t->replica, 0.5, &norm[1]), WEFT_OK);
    WT_ALL(near(norm[1], norm[0]));
    TW_SAME_GRADIENTS(t);
    WT_EQ(weft_step(t->whole_optim), WEFT_OK);
    WT_EQ(weft_step(t->replica_optim), WEFT_OK);
    TW_SAME_PARAMETERS(t);
    WT_EQ(weft_data_parallel_loss(t->replica, &loss, &tokens), WEFT_OK);
    WT_ALL(near(loss, mean));
    WT_EQ(tokens, t->tokens);
}

void tw_train(struct twins *t, tw_counts *counts)
{
    for (int step = 0; step < 2; step++) tw_step(t, tw_backward(t, 2 * step, 2, counts));
}
