/*
 * test_meta.c: tensors without elements: made, spread, run and differentiated in no time, with the
 * layouts, the booked collectives and the planned memory that real tensors would have.
 */
/* mpi: 4 */
#include <math.h>
#include <string.h>

#include "mesh/mesh.h"
#include "support/worlds.h"
#include "tensor/tensor.h"

static weft_tensor *meta(int64_t a, int64_t b)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_tensor *t = weft_empty(WEFT_F32, (int64_t[]){a, b}, 2);

    weft_set_default_device(before);
    return t;
}

static bool holds(weft_tensor *t, float value)
{
    const float *data = weft_data(t);

    for (int64_t i = 0; i < weft_local_numel(t); i++)
        if (data[i] != value) return false;
    return true;
}

/* DT-02: also for sizes that do not divide */
WT_TEST_TIMES_IN_WORLD(meta__gets_elements_after_it_was_spread, w, i, 8)
{
    static const int64_t sizes[][2] = {{1024, 2048}, {13, 5}, {3, 7}, {0, 4}};
    static const char *const layouts[] = {"S(0)", "R"};
    const int64_t *size = sizes[i / 2];
    weft_tensor *t = wt_spread(w, meta(size[0], size[1]), layouts[i % 2]), *real;
    int64_t rows = i % 2 ? size[0] : weft_chunk_size(size[0], wt_ranks(), wt_rank());

    WT_ALL(t && weft_tensor_device(t) == WEFT_META && weft_data(t) == NULL);
    WT_ALL(wt_is_placed(t, layouts[i % 2]));
    real = weft_empty_like(t, WEFT_CPU);
    WT_ALL(weft_tensor_device(real) == WEFT_CPU && wt_is_placed(real, layouts[i % 2]));
    WT_EQ(weft_local_size(real, 0), rows);
    WT_EQ(weft_local_size(real, 1), size[1]);
    WT_ALL(weft_fill_(real, 1.2) == WEFT_OK);
    WT_ALL(holds(real, 1.2f));
    WT_STILL(w);
}

/* DT-02 */
WT_TEST_TIMES_IN_WORLD(meta__goes_through_from_local, w, i, 2)
{
    static const int64_t rows[] = {1024, 6};
    weft_placement rowwise = weft_shard(0);
    weft_tensor *t = weft_from_local(meta(rows[i], 2048), w->mesh, &rowwise, NULL), *real;

    WT_ALL(wt_has_shape(t, 2, rows[i] * wt_ranks(), (int64_t)2048));
    WT_ALL(weft_tensor_device(t) == WEFT_META);
    WT_ALL(weft_tensor_device(weft_to_local(t, NULL)) == WEFT_META);
    real = weft_empty_like(t, WEFT_CPU);
    WT_ALL(weft_fill_(real, 1.5) == WEFT_OK);
    WT_EQ(weft_local_size(real, 0), rows[i]);
    WT_ALL(holds(real, 1.5f));
    WT_STILL(w);
}

WT_TEST_IN_WORLD(meta__has_no_elements_to_read, w)
{
    weft_tensor *t = meta(1, 1), *real = wt_constant(1, 1, 3);
    double room[1];

    WT_ALL(isnan(weft_item(t)));
    WT_FAILED(WEFT_ERR_STATE, "meta device");
    WT_ALL(weft_read_f64(t, room, 1) != WEFT_OK);
    WT_FAILED(WEFT_ERR_STATE, "meta device");
    WT_ALL(weft_to_device(t, WEFT_CPU) == NULL);
    WT_FAILED(WEFT_ERR_STATE, "weft_empty_like");
    WT_ALL(weft_to_device(real, WEFT_CPU) == real);
    WT_ALL(weft_tensor_device(weft_to_device(real, WEFT_META)) == WEFT_META);
    WT_ALL(weft_add(meta(2, 3), wt_constant(2, 3, 1)) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "meta device");
    WT_ALL(weft_tensor_device(weft_mul(meta(2, 3), real)) == WEFT_META);
    weft_set_default_device((weft_device)7);
    WT_FAILED(WEFT_ERR_ARG, "no device 7");
    WT_ALL(weft_tensor_device(wt_constant(1, 1, 0)) == WEFT_CPU);
}

/* DT-40: local data is brought to the mesh's device; what is meta stays meta on any mesh. */
WT_TEST_TIMES_IN_WORLD(meta__mesh_takes_local_data_there, w, i, 3)
{
    static const int64_t sizes[][2] = {{3, 3}, {5, 2}, {0, 4}};
    weft_mesh *mesh = weft_mesh_new(WEFT_META, "tp=%d", wt_ranks()), *cut;
    weft_placement rowwise = weft_shard(0);
    weft_tensor *local = wt_constant(sizes[i][0], sizes[i][1], 2), *t;

    WT_ALL(mesh != w->mesh && weft_mesh_device(mesh) == WEFT_META);
    WT_ALL(weft_mesh_device(w->mesh) == WEFT_CPU);
    cut = weft_mesh_sub(mesh, "tp");
    WT_ALL(cut == mesh);
    t = weft_from_local(local, mesh, &rowwise, NULL);
    WT_ALL(weft_tensor_device(t) == WEFT_META && weft_data(t) == NULL);
    WT_ALL(wt_has_shape(t, 2, sizes[i][0] * wt_ranks(), sizes[i][1]));
    t = weft_distribute_tensor(weft_set_requires_grad(local, true), mesh, &rowwise, 0);
    WT_ALL(weft_tensor_device(t) == WEFT_META && weft_requires_grad(t));
    WT_ALL(weft_tensor_device(weft_mul_scalar(t, 2)) == WEFT_META);
    WT_ALL(weft_tensor_device(local) == WEFT_CPU && wt_local_is_all(local, 2));
    t = weft_from_local(local, w->mesh, &rowwise, NULL);
    WT_ALL(weft_data(t) == weft_data(local));
    t = weft_from_local(meta(2, 2), w->mesh, &rowwise, NULL);
    WT_ALL(weft_tensor_device(t) == WEFT_META);
    WT_STILL(w);
    WT_RELEASE(weft_mesh_release, cut, mesh);
}

/* ---- a training step ---- */

static const weft_plan plan[] = {
    {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE}},
    {NULL, {.kind = WEFT_STYLE_COLWISE}},
};

struct figures {
    int64_t counts[WEFT_COLL_COUNT][3], bytes[WEFT_COLL_COUNT][3];
    weft_memory memory[WEFT_MEMORY_CATEGORIES + 1];
};

static void read_figures(struct figures *f, const weft_ledger *ledger,
                         weft_memory (*memory)(weft_memory_category), const weft_memory *before)
{
    for (int kind = 0; kind < WEFT_COLL_COUNT; kind++)
        for (int d = 0; d < 3; d++) {
            f->counts[kind][d] =
                weft_ledger_count(ledger, (weft_coll)kind, (weft_direction)d, NULL);
            f->bytes[kind][d] = weft_ledger_bytes(ledger, (weft_coll)kind, (weft_direction)d, NULL);
        }
    for (int c = 0; c <= WEFT_MEMORY_CATEGORIES; c++) {
        f->memory[c] = memory((weft_memory_category)c);
        f->memory[c].live -= before[c].live;
        f->memory[c].peak -= before[c].live;
        f->memory[c].cached = 0;
    }
}

static weft_tensor *tokens(int64_t batch, int64_t length)
{
    int32_t data[64];

    for (int i = 0; i < 64; i++) data[i] = i % 7;
    return weft_from_data(WEFT_I32, (int64_t[]){batch, length}, 2, data);
}

/* Forward, backward, clipping, AdamW; figures are taken while everything is alive. */
static weft_status train(struct figures *f, weft_mesh *mesh,
                         weft_memory (*memory)(weft_memory_category))
{
    weft_gpt_config config = {
        .vocab = 12, .context = 8, .width = 24, .heads = 8, .layers = 2, .hidden = 20};
    weft_memory before[WEFT_MEMORY_CATEGORIES + 1];
    weft_ledger *ledger = weft_ledger_open();
    weft_scope *scope = weft_scope_open();
    weft_module *gpt;
    weft_optim *optim;
    weft_status status;

    weft_memory_reset_peak();
    for (int c = 0; c <= WEFT_MEMORY_CATEGORIES; c++) before[c] = memory((weft_memory_category)c);
    gpt = weft_gpt(config);
    status = weft_parallelize_module(gpt, mesh, plan);
    optim = weft_adamw(gpt, (weft_adamw_config){.lr = 1e-3});
    if (status == WEFT_OK) status = weft_backward(weft_gpt_loss(gpt, tokens(4, 8), tokens(4, 8)));
    if (status == WEFT_OK) status = weft_clip_grad_norm(gpt, 1, NULL);
    if (status == WEFT_OK) status = weft_step(optim);
    read_figures(f, ledger, memory, before);
    weft_optim_release(optim);
    weft_module_release(gpt);
    weft_scope_close(scope);
    weft_ledger_close(ledger);
    return status;
}

static weft_status train_meta(struct figures *f, weft_mesh *mesh)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_status status = train(f, mesh, weft_memory_simulated);

    weft_set_default_device(before);
    return status;
}

WT_TEST_IN_WORLD(meta__books_what_a_real_step_sends_and_holds, w)
{
    static _Thread_local struct figures real, planned;

    memset(&real, 0, sizeof real);
    memset(&planned, 0, sizeof planned);
    weft_manual_seed(3);
    WT_ALL(train(&real, w->mesh, weft_memory_of) == WEFT_OK);
    WT_ALL(train_meta(&planned, w->mesh) == WEFT_OK);
    for (int kind = 0; kind < WEFT_COLL_COUNT; kind++)
        for (int d = 0; d < 3; d++) {
            WT_EQ(planned.counts[kind][d], real.counts[kind][d]);
            WT_EQ(planned.bytes[kind][d], real.bytes[kind][d]);
        }
    WT_ALL(wt_ranks() == 1 || real.counts[WEFT_COLL_ALL_REDUCE][WEFT_DIRECTION_BACKWARD] > 0);
    for (int c = 0; c <= WEFT_MEMORY_CATEGORIES; c++) {
        WT_EQ(planned.memory[c].live, real.memory[c].live);
        WT_EQ(planned.memory[c].peak, real.memory[c].peak);
    }
    WT_ALL(real.memory[WEFT_MEMORY_WEIGHTS].live > 0);
}

/* The same figures from one process: no rank of this mesh exists. */
WT_TEST_IN_WORLD(meta__plans_for_a_mesh_without_ranks, w)
{
    const int sizes[] = {wt_ranks()}, me[] = {wt_rank()};
    const char *const names[] = {"tp"};
    static _Thread_local struct figures real, planned;
    weft_mesh *fake = wf_mesh_new_fake(sizes, me, names, 1);

    WT_ALL(train(&real, w->mesh, weft_memory_of) == WEFT_OK);
    WT_ALL(train_meta(&planned, fake) == WEFT_OK);
    WT_ALL(memcmp(real.counts, planned.counts, sizeof real.counts) == 0);
    WT_ALL(memcmp(real.bytes, planned.bytes, sizeof real.bytes) == 0);
    weft_mesh_release(fake);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "meta"); }
