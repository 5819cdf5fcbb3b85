/*
 * test_helpers.c: what Megatron keeps beside its layers: how a parameter is split, seeds that
 * differ between ranks, batches that one rank loads, and pieces of tensors.
 */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 8 */
#include "megatron/lines.h"

/* ---- how a parameter is split ---- */

static bool is_split(weft_tensor *t, int dim)
{
    return weft_placement_equal(weft_tensor_placement(t, 0), weft_shard(dim));
}

static const weft_placement fused = {
    .kind = WEFT_KIND_SHARD, .n_segments = 3, .segments = {4, 1, 1}};

/* Queries, keys and values of a fused weight, each over all ranks. */
static weft_status split_fused(weft_module *m, weft_mesh *mesh, void *payload)
{
    (void)payload;
    return weft_module_set_parameter(
        m, "weight", weft_distribute_tensor(weft_module_parameter(m, "weight"), mesh, &fused, -1));
}

static weft_module *layers(void)
{
    weft_module *m = weft_sequential_new();

    weft_module_add_child(m, "embedding",
                          weft_embedding_new((weft_embedding_config){.rows = 10, .width = 6}));
    weft_module_add_child(m, "up", weft_linear_new((weft_linear_config){.in = {6}, .out = {10}}));
    weft_module_add_child(m, "down", weft_linear_new((weft_linear_config){.in = {10}, .out = {6}}));
    weft_module_add_child(
        m, "qkv", weft_linear_new((weft_linear_config){.in = {6}, .out = {24}, .no_bias = true}));
    return m;
}

static void check_splits(weft_module *m)
{
    WT_ALL(is_split(weft_module_parameter(m, "embedding.weight"), 0));
    WT_ALL(is_split(weft_module_parameter(m, "up.weight"), 0));
    WT_ALL(is_split(weft_module_parameter(m, "up.bias"), 0));
    WT_ALL(is_split(weft_module_parameter(m, "down.weight"), 1));
    WT_ALL(weft_placement_equal(weft_tensor_placement(weft_module_parameter(m, "qkv.weight"), 0),
                                fused));
    WT_EQ(weft_size(weft_module_parameter(m, "embedding.weight"), 0), 10); /* never padded */
}

/* MEG-14: the placement says it, also before there are elements; what else is known of a parameter,
 * how a fused weight is split and how long the whole is, survives copies of every kind. */
WT_TEST(parameters__say_how_they_are_split)
{
    static const weft_style_functions split = {.name = "split", .partition = split_fused};
    const weft_plan plan[] = {{"embedding", weft_rowwise_parallel()},
                              {"up", weft_colwise_parallel()},
                              {"down", weft_rowwise_parallel()},
                              {"qkv", weft_custom_style(&split, NULL)},
                              {0}};
    struct lines l = lines_open();
    weft_device before = weft_set_default_device(WEFT_META);
    weft_module *m = wt_own(layers());
    weft_tensor *copy;

    weft_set_default_device(before);
    WT_EQ(weft_parallelize_module(m, l.tp, plan), WEFT_OK);
    check_splits(m);
    WT_EQ(weft_module_materialize(m, WEFT_CPU), WEFT_OK);
    check_splits(m);
    WT_EQ(weft_module_cast(m, WEFT_BF16), WEFT_OK);
    check_splits(m);
    copy = weft_empty_like(weft_module_parameter(m, "qkv.weight"), WEFT_CPU);
    WT_ALL(weft_placement_equal(weft_tensor_placement(copy, 0), fused));
    copy = weft_zeros_like(weft_module_parameter(m, "embedding.weight"));
    WT_ALL(is_split(copy, 0) && weft_size(copy, 0) == 10);
}

/* ---- seeds ---- */

/* The first number of a generator. */
static double draw(weft_generator *g)
{
    return weft_item(weft_make_rand((weft_spec){.dtype = WEFT_F64}, g));
}

static void gather(struct lines *l, double mine, double *all)
{
    weft_tensor *t = weft_mesh_all_gather(lines_full(1, 0, mine), 0, NULL, l->tp, 0);

    WT_EQ(weft_read_f64(t, all, l->ways), WEFT_OK);
}

/* MEG-16 */
WT_TEST(seed__one_that_is_equal_and_one_that_differs)
{
    struct lines l = lines_open();
    weft_generator *own;
    double all[8];

    weft_generator_reset();
    for (uint64_t seed = 123; seed < 126; seed++) {
        WT_EQ(weft_manual_seed_parallel(l.mesh, 1, seed), WEFT_OK);
        own = weft_generator_find("model-parallel-rng");
        WT_ALL(own != NULL);
        WT_EQ(weft_generator_seed(own), seed + 2718 + (uint64_t)l.place);
        WT_EQ(weft_generator_draws(own), 0);
        gather(&l, draw(own), all);
        for (int i = 0; i < l.ways; i++)
            for (int j = 0; j < i; j++) WT_ALL(all[i] != all[j]);
        WT_EQ(weft_generator_seed(weft_default_generator()), seed);
        gather(&l, draw(NULL), all);
        for (int i = 0; i < l.ways; i++) WT_ALL(all[i] == all[0]);
    }
    WT_FAILS(weft_manual_seed_parallel(l.mesh, 2, 1), WEFT_ERR_ARG, "no axis 2");
    weft_generator_reset();
}

/* ---- batches ---- */

static weft_tensor *counted(weft_dtype dtype, int ndim, const int64_t *shape, double first)
{
    weft_tensor *t = weft_empty(WEFT_F64, shape, ndim);
    double *at = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) at[i] = first + (double)i;
    return weft_cast(t, dtype);
}

/* MEG-18: only the first rank of each group has the batch; nobody else knows the shapes. */
WT_TEST(batch__of_one_rank_goes_to_all)
{
    struct lines l = lines_open();

    for (int root = 0; root<l.ways; root += l.ways> 1 ? l.ways - 1 : 1) {
        weft_batch_entry batch[] = {
            {"text", NULL}, {"mask", NULL}, {"scale", NULL}, {"none", NULL}};
        double first = 100 * l.first;
        weft_tensor *want[] = {counted(WEFT_I64, 2, (int64_t[]){7, 5}, first),
                               counted(WEFT_BF16, 3, (int64_t[]){3, 1, 2}, first),
                               counted(WEFT_F32, 0, NULL, first),
                               counted(WEFT_F64, 2, (int64_t[]){0, 3}, first)};

        weft_ledger_reset(l.ledger);
        for (int i = 0; i < 4 && l.place == root; i++) batch[i].tensor = want[i];
        WT_EQ(weft_mesh_broadcast_batch(batch, 4, l.mesh, 1, root), WEFT_OK);
        WT_EQ(weft_ledger_count(l.ledger, WEFT_COLL_BROADCAST, WEFT_DIRECTION_ANY, NULL), 2);
        WT_EQ(weft_ledger_count(l.ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 2);
        for (int i = 0; i < 4; i++) {
            WT_EQ(weft_tensor_dtype(batch[i].tensor), weft_tensor_dtype(want[i]));
            WT_ALL(wt_near_tensors(batch[i].tensor, want[i], WT_EXACT));
        }
    }
}

/* What only the root can know is refused by all, and the line goes on. */
WT_TEST(batch__that_is_missing_is_refused_by_all)
{
    struct lines l = lines_open();
    weft_batch_entry batch[] = {{"text", lines_full(3, 0, 1)}, {"mask", NULL}};
    weft_placement rows = weft_shard(0);

    WT_FAILS(weft_mesh_broadcast_batch(batch, 2, l.tp, 0, 0), WEFT_ERR_ARG,
             "no plain tensor for 'mask'");
    batch[1].tensor = weft_distribute_tensor(lines_full(8, 0, 1), l.tp, &rows, -1);
    WT_FAILS(weft_mesh_broadcast_batch(batch, 2, l.tp, 0, 0), WEFT_ERR_ARG,
             "no plain tensor for 'mask'");
    WT_FAILS(weft_mesh_broadcast_batch(batch, 2, l.tp, 1, 0), WEFT_ERR_ARG, "no axis 1");
    WT_FAILS(weft_mesh_broadcast_batch((weft_batch_entry[]){{0}}, 1, l.tp, 0, 0), WEFT_ERR_ARG,
             "no key");
    WT_EQ(weft_mesh_broadcast_batch(batch, 1, l.tp, 0, 0), WEFT_OK);
    WT_ALL(wt_near_tensors(batch[0].tensor, lines_full(3, 0, 1), WT_EXACT));
}

/* ---- pieces ---- */

/* trial 3: sizes whose sum wraps to the dim's. */
WT_TEST(split__of_sizes_beyond_what_can_be_added_is_refused)
{
    weft_tensor *x = counted(WEFT_F64, 2, (int64_t[]){3, 4}, 0), *pieces[3];

    WT_ALL(weft_split(NULL, x, -1, NULL, 2) == WEFT_ERR_ARG);
    weft_error_clear();
    WT_FAILS(weft_split(pieces, x, -1, (int64_t[]){INT64_MAX, INT64_MAX, 6}, 3), WEFT_ERR_SHAPE,
             "add up");
}

/* MEG-18: along the last dim, in equal pieces. */
WT_TEST(split__in_equal_pieces)
{
    weft_tensor *x = counted(WEFT_F64, 2, (int64_t[]){3, 4}, 0), *pieces[4];

    for (int n = 1; n <= 4; n *= 2) {
        WT_EQ(weft_split(pieces, x, -1, NULL, n), WEFT_OK);
        for (int i = 0; i < n; i++) {
            WT_ALL(wt_has_shape(pieces[i], 2, (int64_t)3, (int64_t)(4 / n)));
            WT_ALL(weft_item(weft_slice(weft_slice(pieces[i], 0, 2, 3), 1, 0, 1)) == 8 + 4 / n * i);
        }
        WT_ALL(wt_near_tensors(weft_cat(pieces, n, -1), x, WT_EXACT));
    }
    WT_FAILS(weft_split(pieces, x, 1, NULL, 3), WEFT_ERR_SHAPE, "no 3 equal pieces");
    WT_FAILS(weft_split(pieces, x, 1, NULL, 0), WEFT_ERR_SHAPE, "no 0 equal pieces");
}

/* MEG-18: the elements in their order, a piece per rank, and together again. */
WT_TEST(split__flat_and_gathered)
{
    static const int64_t shapes[][2] = {{3, 4}, {5, 7}, {1, 2}};
    const weft_placement whole = weft_replicate(), part = weft_shard(0);
    struct lines l = lines_open();

    for (int i = 0; i < 3; i++) {
        int64_t n = shapes[i][0] * shapes[i][1];
        weft_tensor *x = counted(WEFT_F64, 2, shapes[i], 0), *flat, *back;

        flat = weft_distribute_tensor(weft_reshape(x, &n, 1), l.tp, &part, -1);
        LINES_STILL(&l);
        WT_EQ(weft_local_numel(flat), weft_chunk_size(n, l.ways, l.place));
        back = weft_reshape(weft_redistribute(flat, &whole), shapes[i], 2);
        LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
        WT_ALL(wt_near_tensors(back, x, WT_EXACT));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "helpers"); }
