/*
 * test_inputs.c: what a style may be given: any number of dims, no rows at all, views, indices of
 * one dim, integers, layouts that were not declared, and all of these one after the other. Each
 * against one device, with the collectives of forward and backward; every layout beside every other
 * is in suite/.
 */
/* mpi: 1 2 3 4 */
#include <stdlib.h>
#include <string.h>

#include "support/given.h"
#include "support/near_modules.h"
#include "support/style_rows.h"

#define AR WEFT_COLL_ALL_REDUCE
#define AG WEFT_COLL_ALL_GATHER
#define RS WEFT_COLL_REDUCE_SCATTER
#define A2A WEFT_COLL_ALL_TO_ALL
#define NO WEFT_COLL_COUNT

/* ---- tensors and layers ---- */

enum { MOST = 4 };

struct shape {
    int ndim;
    int64_t sizes[MOST];
};

/* As given(), with any sizes. */
static weft_tensor *of_shape(int which, const struct shape *shape)
{
    int64_t n = 1;
    double *values;
    weft_tensor *t;

    for (int d = 0; d < shape->ndim; d++) n *= shape->sizes[d];
    values = malloc((size_t)n * sizeof *values + 1);
    for (int64_t i = 0; i < n; i++) values[i] = wt_element(which, i);
    t = weft_from_data(WEFT_F64, shape->sizes, shape->ndim, values);
    free(values);
    return t;
}

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(weft_detach(t), true); }

static weft_module *linear(int64_t in, int64_t out)
{
    weft_manual_seed(8);
    return wt_own(
        weft_linear_new((weft_linear_config){.in = {in}, .out = {out}, .dtype = WEFT_F64}));
}

static weft_module *embedding(int64_t rows, int64_t width)
{
    weft_manual_seed(8);
    return wt_own(weft_embedding_new(
        (weft_embedding_config){.rows = rows, .width = width, .dtype = WEFT_F64}));
}

static weft_module *styled(weft_module *m, weft_mesh *mesh, weft_style style)
{
    WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"", style}, {0}}), WEFT_OK);
    return m;
}

/* A style, the layouts of the plain shards that its module is given and hands on, and what it
 * sends: forward, and backward for the gradient of the output and for that of the input. */
struct way {
    const char *name;
    weft_style style;
    const char *in, *out;
    weft_coll forward, of_output, of_input;
    bool rows; /* its S(0) is of rows */
};

/* STYLE-01, STYLE-05, STYLE-06, STYLE-25 */
static const struct way ways[] = {
    {"colwise", COL(0), "R", "S(-1)", NO, NO, AR, false},
    {"colwise, out R", COL(.output_layouts = "R"), "R", "R", AG, NO, AR, false},
    {"colwise, in S(-1)", COL(.input_layouts = "S(-1)"), "S(-1)", "S(-1)", AG, NO, RS, false},
    {"colwise, in S(0)", COL(.input_layouts = "S(0)"), "S(0)", "S(-1)", AG, NO, RS, true},
    {"colwise, out S(0)", COL(.output_layouts = "S(0)"), "R", "S(0)", A2A, A2A, AR, true},
    {"rowwise", ROW(0), "S(-1)", "R", AR, NO, NO, false},
    {"rowwise, in R", ROW(.input_layouts = "R"), "R", "R", AR, NO, AG, false},
    {"rowwise, in R, out S(-1)", ROW(.input_layouts = "R", .output_layouts = "S(-1)"), "R", "S(-1)",
     RS, AG, AG, false},
    {"rowwise, out S(0)", ROW(.output_layouts = "S(0)"), "S(-1)", "S(0)", RS, AG, NO, true},
};

enum { WAYS = sizeof ways / sizeof *ways };

/* Exactly these collectives in a direction, where several ranks have something to send. */
static void check_sent(const weft_ledger *ledger, weft_direction direction, weft_coll first,
                       weft_coll second, const weft_tensor *something)
{
    const weft_coll kinds[] = {first, second};
    int some = wt_ranks() > 1 && weft_numel(something), all = (first != NO) + (second != NO);

    WT_EQ(weft_ledger_count(ledger, NO, direction, NULL), some * all);
    for (int i = 0; i < 2; i++)
        if (kinds[i] != NO)
            WT_EQ(weft_ledger_count(ledger, kinds[i], direction, NULL),
                  some * (1 + (first == second)));
}

/* Output, parameter gradients and collectives; `x` is this rank's plain shard of x_one, as the way
 * says. */
static void check_call(const struct way *way, weft_mesh *mesh, weft_module *one, weft_module *many,
                       weft_tensor *x_one, weft_tensor *x)
{
    weft_ledger *ledger = wt_own(weft_ledger_open());
    weft_tensor *y_one = weft_call(one, x_one), *y = weft_call(many, x), *c;

    WT_ALL(y_one && y && !weft_tensor_mesh(y));
    c = given_like(y_one);
    WT_ALL(wt_near_tensors(y, given_shard(weft_detach(y_one), mesh, way->out), WT_WITHIN(1e-12)));
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, given_shard(c, mesh, way->out)))), WEFT_OK);
    check_sent(ledger, WEFT_DIRECTION_FORWARD, way->forward, NO, y_one);
    check_sent(ledger, WEFT_DIRECTION_BACKWARD, way->of_output,
               weft_requires_grad(x) ? way->of_input : NO, y_one);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-12));
}

/* ---- dims ---- */

static void check_shape(const struct way *way, const struct shape *lead, int64_t in, int64_t out,
                        bool wanted)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = linear(in, out), *many = styled(linear(in, out), mesh, way->style);
    struct shape shape = *lead;
    weft_tensor *x_one, *x;

    shape.sizes[shape.ndim++] = in;
    x_one = of_shape(0, &shape);
    x = weft_detach(given_shard(x_one, mesh, way->in));
    if (wanted) weft_set_requires_grad(x, true), weft_set_requires_grad(x_one, true);
    check_call(way, mesh, one, many, x_one, x);
    if (wanted)
        WT_ALL(wt_near_tensors(weft_grad(x), given_shard(weft_grad(x_one), mesh, way->in),
                               WT_WITHIN(1e-12)));
}

/* Also without any rows, where gradients of parameters are 0. */
WT_TEST(inputs__of_any_number_of_dims)
{
    static const struct shape leads[] = {{0, {0}},       {1, {8}}, {1, {5}},   {2, {2, 3}},
                                         {3, {2, 1, 3}}, {1, {0}}, {2, {2, 0}}};
    static const int64_t sizes[][2] = {{16, 16}, {16, 24}, {13, 3}};

    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
        for (int w = 0; w < 2 * 3 * WAYS; w++) {
            const struct way *way = &ways[w / 6];
            const int64_t *size = sizes[w % 3];

            if (way->rows && leads[i].ndim == 0) continue;
            if (strcmp(way->in, "S(0)") == 0 && leads[i].sizes[0] % wt_ranks())
                continue; /* not even */
            wt_row("%s of %d dims, %d to %d, %s", way->name, leads[i].ndim + 1, (int)size[0],
                   (int)size[1], w % 2 ? "wanted" : "not wanted");
            check_shape(way, &leads[i], size[0], size[1], w % 2);
        }
}

/* ---- views ---- */

/* This rank's shard along the last dim, as a view of the whole. */
static weft_tensor *last_dim_of(weft_tensor *x)
{
    int last = weft_ndim(x) - 1;
    int64_t n = weft_size(x, last), begin = weft_chunk_offset(n, wt_ranks(), wt_rank());

    return weft_slice(x, last, begin, begin + weft_chunk_size(n, wt_ranks(), wt_rank()));
}

static void check_view(const struct way *way, bool turned, int64_t in)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = linear(in, 10), *many = styled(linear(in, 10), mesh, way->style);
    bool split = way->in[0] == 'S';
    weft_tensor *whole = turned ? given(0, in, 5, 0) : given(0, 5, in, 0);
    weft_tensor *x_one = leaf(whole), *x = leaf(whole), *seen_one, *seen, *grad, *want;

    seen_one = turned ? weft_transpose(x_one, 0, 1) : x_one;
    seen = turned ? weft_transpose(x, 0, 1) : x;
    check_call(way, mesh, one, many, seen_one, split ? last_dim_of(seen) : seen);
    grad = turned ? weft_transpose(weft_grad(x), 0, 1) : weft_grad(x);
    want = turned ? weft_transpose(weft_grad(x_one), 0, 1) : weft_grad(x_one);
    if (split) grad = last_dim_of(grad), want = last_dim_of(want);
    WT_ALL(wt_near_tensors(grad, want, WT_WITHIN(1e-12)));
}

WT_TEST(inputs__that_are_views)
{
    for (int w = 0; w < 4 * WAYS; w++) {
        const struct way *way = &ways[w / 4];
        int in = w / 2 % 2 ? 13 : 16;

        if (strcmp(way->in, "S(0)") == 0) continue;
        wt_row("%s of %d%s", way->name, in, w % 2 ? ", transposed" : "");
        check_view(way, w % 2, in);
    }
}

/* ---- one after the other ---- */

/* One module, and calls of other sizes, layouts and kinds: none is taken for the one before. */
WT_TEST(inputs__of_all_kinds_one_after_the_other)
{
    static const int64_t rows[] = {5, 8, 1, 5};
    static const char *const layouts[] = {NULL, "R", "S(0)", "S(1)"};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = linear(13, 10), *many = styled(linear(13, 10), mesh, ways[1].style);

    weft_no_grad_open();
    for (int i = 0; i < 16; i++) {
        weft_tensor *x = given(i % 2, rows[i / 4], 13, 0), *want = weft_call(one, x);
        const char *layout = layouts[i % 4];

        wt_note("%d rows, %s", (int)rows[i / 4], layout ? layout : "plain");
        WT_ALL(wt_near_tensors(weft_call(many, layout ? given_spread(x, mesh, layout) : x), want,
                               WT_WITHIN(1e-12)));
    }
    weft_no_grad_close();
}

/* STYLE-23: a distributed input is taken with its own layout, whatever was declared. */
WT_TEST(inputs__that_are_distributed_keep_their_layout)
{
    static const struct {
        const char *name;
        weft_style style;
        const char *out;
        weft_coll first, second;
    } rows[] = {
        {"rowwise", ROW(0), "R", A2A, AR},
        {"rowwise, declared R", ROW(.input_layouts = "R"), "R", A2A, AR},
        {"colwise", COL(0), "S(-1)", AG, NO},
        {"colwise, declared S(0)", COL(.input_layouts = "S(0)"), "S(-1)", AG, NO},
        {"colwise, declared S(1)", COL(.input_layouts = "S(1)"), "S(-1)", AG, NO},
    };

    weft_no_grad_open();
    for (int i = 0; i < 10; i++) {
        const int64_t height = i % 2 ? 13 : 8;
        weft_mesh *mesh;
        weft_module *many;
        weft_ledger *ledger;
        weft_tensor *x, *y;

        wt_row("%s, %d rows", rows[i / 2].name, (int)height);
        mesh = wt_own(given_mesh());
        many = styled(linear(16, 16), mesh, rows[i / 2].style);
        x = given(0, height, 16, 0);
        ledger = wt_own(weft_ledger_open());
        y = weft_call(many, given_spread(x, mesh, "S(0)"));
        check_sent(ledger, WEFT_DIRECTION_ANY, rows[i / 2].first, rows[i / 2].second, x);
        WT_ALL(wt_near_tensors(y, given_shard(weft_call(linear(16, 16), x), mesh, rows[i / 2].out),
                               WT_WITHIN(1e-12)));
    }
    weft_no_grad_close();
}

WT_TEST(inputs__on_a_larger_mesh_are_refused)
{
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", wt_ranks()));
    weft_module *m =
        styled(linear(6, 6), wt_own(weft_mesh_sub(mesh, "tp")), weft_colwise_parallel());
    weft_placement everywhere[] = {weft_replicate(), weft_replicate()};

    WT_FAILS(weft_call(m, weft_distribute_tensor(given(0, 8, 6, 0), mesh, everywhere, -1)),
             WEFT_ERR_LAYOUT, "a tensor lies on mesh (dp:1, tp:");
}

/* ---- indices and other integers ---- */

static weft_tensor *index_of(const struct shape *shape, int64_t rows)
{
    int64_t values[64], n = 1;

    for (int d = 0; d < shape->ndim; d++) n *= shape->sizes[d];
    for (int64_t i = 0; i < n; i++) values[i] = (i * 7 + 3) % rows;
    return weft_from_data(WEFT_I64, shape->sizes, shape->ndim, values);
}

static void check_index(const struct way *way, const struct shape *shape)
{
    static const int64_t sizes[][2] = {{16, 16}, {5, 13}, {5, 3}};

    for (int i = 0; i < 3; i++) {
        int64_t rows = sizes[i][0], width = sizes[i][1];
        weft_tensor *index;
        weft_mesh *mesh;

        wt_row("%s to %s, index of %d dims, %d rows of %d", way->name, way->out, shape->ndim,
               (int)rows, (int)width);
        mesh = wt_own(given_mesh());
        index = index_of(shape, rows);
        check_call(way, mesh, embedding(rows, width),
                   styled(embedding(rows, width), mesh, way->style), index, index);
    }
}

/* STYLE-03, STYLE-07; an index of n dims gives n + 1: the layouts of the output count those. */
WT_TEST(inputs__indices_of_any_number_of_dims)
{
    static const struct shape shapes[] = {{1, {8}}, {1, {5}}, {2, {4, 2}}, {3, {2, 3, 2}}};
    static const char *const outs[] = {"S(0)", "S(1)", "S(2)", "S(3)"};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_index(&(struct way){"colwise", COL(0), "R", "S(-1)", NO, NO, NO, 0}, &shapes[i]);
        check_index(&(struct way){"rowwise", ROW(0), "R", "R", AR, NO, NO, 0}, &shapes[i]);
        for (int dim = 0; dim <= shapes[i].ndim; dim++)
            check_index(&(struct way){"rowwise", ROW(.output_layouts = outs[dim]), "R", outs[dim],
                                      RS, AG, NO, 0},
                        &shapes[i]);
    }
}

/* Tokens, masks and targets go through prepare-module as they are. */
WT_TEST(inputs__integers_and_masks_are_moved_alike)
{
    static const char *const desired[] = {"R", "S(0)", "S(1)"};
    weft_mesh *mesh = wt_own(given_mesh());
    int64_t rows = 2 * wt_ranks();
    weft_tensor *index = index_of(&(struct shape){2, {rows, 3}}, 11);
    weft_tensor *wholes[] = {index, weft_cast(index, WEFT_I32), weft_cast(index, WEFT_BOOL)};

    for (int i = 0; i < 9; i++) {
        weft_tensor *whole = wholes[i / 3], *y;
        weft_module *m;

        wt_row("kind %d to %s", i / 3, desired[i % 3]);
        m = styled(wt_own(given_identity()), mesh,
                   weft_prepare_module_input("S(0)", desired[i % 3]));
        y = weft_call(m, given_shard(whole, mesh, "S(0)"));
        WT_ALL(given_is(y, desired[i % 3]));
        WT_EQ(weft_tensor_dtype(y), weft_tensor_dtype(whole));
        WT_ALL(wt_near_tensors(y, whole, WT_EXACT));
    }
}

/* ---- frozen parameters ---- */

/* STYLE-04, STYLE-09; of a norm the peer makes them trainable. */
WT_TEST(parameters__that_are_frozen_stay_frozen)
{
    weft_module *modules[] = {
        linear(8, 16), linear(8, 16),
        wt_own(weft_layer_norm_new((weft_norm_config){.width = 6, .dtype = WEFT_F64}))};
    const weft_style styles[] = {weft_colwise_parallel(), weft_rowwise_parallel(),
                                 weft_sequence_parallel()};
    weft_mesh *mesh = wt_own(given_mesh());

    for (int i = 0; i < 3; i++) {
        weft_set_requires_grad(weft_module_parameter(modules[i], "weight"), false);
        styled(modules[i], mesh, styles[i]);
        WT_ALL(!weft_requires_grad(weft_module_parameter(modules[i], "weight")));
        WT_ALL(weft_requires_grad(weft_module_parameter(modules[i], "bias")));
        WT_ALL(weft_tensor_mesh(weft_module_parameter(modules[i], "weight")) == mesh);
        WT_ALL(weft_tensor_mesh(weft_module_parameter(modules[i], "bias")) == mesh);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "inputs"); }
