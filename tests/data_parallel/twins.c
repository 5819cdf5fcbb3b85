/* twins.c: models, batches and comparisons for the tests of data parallelism. */
#include "data_parallel/twins.h"

#include <stdio.h>
#include <stdlib.h>

bool tw_next_mesh(int *dp, int *tp)
{
    do ++*dp;
    while (*dp <= wt_ranks() && wt_ranks() % *dp);
    *tp = wt_ranks() / (*dp > wt_ranks() ? 1 : *dp);
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

struct twins tw_open(int dp, int tp, struct tw_options o)
{
    struct twins t = {.world = o.fsdp ? wt_world_open_mesh("dp=%d,fsdp=%d,tp=%d", dp, o.fsdp, tp)
                                      : wt_world_open_mesh("dp=%d,tp=%d", dp, tp)};

    t.dp = weft_mesh_sub(t.world.mesh, o.fsdp ? "dp,fsdp" : "dp");
    t.tp = weft_mesh_sub(t.world.mesh, "tp");
    t.replicas = weft_mesh_size(t.dp);
    for (int a = 0; a < weft_mesh_ndim(t.dp); a++)
        t.me = t.me * weft_mesh_axis_size(t.dp, a) + weft_mesh_coordinate(t.dp, a);
    t.whole = new_model(&o);
    t.replica = new_model(&o);
    if (!o.unplanned)
        WT_EQ(weft_parallelize_module(t.replica, t.tp,
                                      o.sequence ? weft_gpt_plan_sequence() : weft_gpt_plan()),
              WEFT_OK);
    WT_EQ(weft_data_parallel(t.replica, t.dp, o.config), WEFT_OK);
    t.whole_optim = weft_adamw(t.whole, (weft_adamw_config){.lr = 0.01, .weight_decay = 0.1});
    t.replica_optim = weft_adamw(t.replica, (weft_adamw_config){.lr = 0.01, .weight_decay = 0.1});
    WT_ALL(t.whole_optim && t.replica_optim);
    weft_mesh_release(weft_mesh_flatten(t.world.mesh, NULL));
    weft_ledger_reset(t.world.ledger);
    return t;
}

void tw_close(struct twins *t)
{
    weft_optim_release(t->whole_optim);
    weft_optim_release(t->replica_optim);
    weft_module_release(t->whole);
    weft_module_release(t->replica);
    weft_mesh_release(t->dp);
    weft_mesh_release(t->tp);
    wt_world_close(&t->world);
}

/* ---- batches ---- */

bool tw_all(int row, int position)
{
    (void)row;
    (void)position;
    return true;
}

weft_tensor *tw_loss(weft_module *model, int batch, int first, int step, tw_counts *counts)
{
    int32_t in[TW_ROWS * TW_CONTEXT], out[TW_ROWS * TW_CONTEXT];
    int64_t shape[] = {0, TW_CONTEXT}, n = 0;

    for (int row = first; row < TW_ROWS; row += step, shape[0]++)
        for (int i = 0; i < TW_CONTEXT; i++, n++) {
            in[n] = (batch * 5 + row * 3 + i * 7) % TW_VOCAB;
            out[n] = counts(row, i) ? (in[n] * 2 + batch) % TW_VOCAB : TW_IGNORED;
        }
    return weft_gpt_loss(model, weft_from_data(WEFT_I32, 2, shape, in),
                         weft_from_data(WEFT_I32, 2, shape, out));
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

struct comparison {
    weft_module *whole;
    bool gradients, same;
};

static weft_status compare(weft_module *m, const char *name, weft_tensor *mine, void *payload)
{
    struct comparison *c = payload;
    char path[128];
    weft_tensor *whole;
    bool same;

    snprintf(path, sizeof path, "%s%s%s", weft_module_path(m), *weft_module_path(m) ? "." : "",
             name);
    whole = weft_module_parameter(c->whole, path);
    if (c->gradients) {
        mine = weft_grad(mine);
        whole = weft_grad(whole);
    }
    same = !mine || !whole ? !mine && !whole : wt_near_tensors(mine, whole, WT_WITHIN(1e-10));
    if (!same) wt_note("%s, %s", path, c->gradients ? "gradient" : "value");
    c->same &= same;
    return WEFT_OK;
}

static bool same(struct twins *t, bool gradients)
{
    struct comparison c = {t->whole, gradients, true};

    return weft_module_each_parameter(t->replica, compare, &c) == WEFT_OK && c.same;
}

bool tw_same_gradients(struct twins *t) { return same(t, true); }

bool tw_same_parameters(struct twins *t) { return same(t, false); }
