/*
 * test_inputs.c: what a style may be given: any number of dims, no rows at all, views, indices of
 * one dim, integers, and all of these one after the other. Each against one device.
 */
/* mpi: 4 */
#include <stdlib.h>

#include "support/given.h"
#include "support/near_modules.h"
#include "support/style_rows.h"

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
    t = weft_from_data(WEFT_F64, shape->ndim, shape->sizes, values);
    free(values);
    return t;
}

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(weft_detach(t), true); }

static weft_module *linear(int64_t in, int64_t out)
{
    weft_manual_seed(8);
    return weft_linear_new((weft_linear_config){.in = {in}, .out = {out}, .dtype = WEFT_F64});
}

static weft_module *styled(weft_module *m, weft_mesh *mesh, weft_style style)
{
    WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"", style}, {0}}), WEFT_OK);
    return m;
}

/* A style, the layout of the plain shard that its module is given, and that of what it hands on. */
struct way {
    const char *name;
    weft_style style;
    const char *in, *out;
};

static const struct way ways[] = {
    {"colwise", COL(0), "R", "S(-1)"},
    {"colwise, out R", COL(.output_layouts = "R"), "R", "R"},
    {"colwise, in S(-1)", COL(.input_layouts = "S(-1)"), "S(-1)", "S(-1)"},
    {"rowwise", ROW(0), "S(-1)", "R"},
    {"rowwise, in R, out S(-1)", ROW(.input_layouts = "R", .output_layouts = "S(-1)"), "R",
     "S(-1)"},
};

enum { WAYS = sizeof ways / sizeof *ways };

/* Output and parameter gradients; `x` is this rank's plain shard of x_one, as the way says. */
static void check_call(const struct way *way, weft_mesh *mesh, weft_module *one, weft_module *many,
                       weft_tensor *x_one, weft_tensor *x)
{
    weft_tensor *y_one = weft_call(one, x_one), *y = weft_call(many, x), *c;

    WT_ALL(y_one && y && !weft_tensor_mesh(y));
    c = given_like(y_one);
    WT_ALL(wt_near_tensors(y, given_shard(weft_detach(y_one), mesh, way->out), WT_WITHIN(1e-12)));
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, given_shard(c, mesh, way->out)))), WEFT_OK);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-12));
}

/* ---- dims ---- */

static void check_shape(const struct way *way, const struct shape *lead, int64_t in, int64_t out)
{
    weft_mesh *mesh = given_mesh();
    weft_module *one = linear(in, out), *many = styled(linear(in, out), mesh, way->style);
    struct shape shape = *lead;
    weft_tensor *x_one, *x;

    shape.sizes[shape.ndim++] = in;
    x_one = leaf(of_shape(0, &shape));
    x = leaf(given_shard(weft_detach(x_one), mesh, way->in));
    wt_note("%s of %d dims, %d to %d", way->name, shape.ndim, (int)in, (int)out);
    check_call(way, mesh, one, many, x_one, x);
    WT_ALL(wt_near_tensors(weft_grad(x), given_shard(weft_grad(x_one), mesh, way->in),
                           WT_WITHIN(1e-12)));
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

/* Also without any rows, where gradients of parameters are 0. */
WT_TEST(inputs__of_any_number_of_dims)
{
    static const struct shape leads[] = {{0, {0}},       {1, {5}}, {2, {2, 3}},
                                         {3, {2, 1, 3}}, {1, {0}}, {2, {2, 0}}};

    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
        for (int w = 0; w < WAYS; w++) {
            weft_scope *scope = weft_scope_open();

            check_shape(&ways[w], &leads[i], 16, 24);
            check_shape(&ways[w], &leads[i], 13, 3);
            weft_scope_close(scope);
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
    weft_mesh *mesh = given_mesh();
    weft_module *one = linear(in, 10), *many = styled(linear(in, 10), mesh, way->style);
    bool split = way->in[0] == 'S';
    weft_tensor *whole = turned ? given(0, in, 5, 0) : given(0, 5, in, 0);
    weft_tensor *x_one = leaf(whole), *x = leaf(whole), *seen_one, *seen, *grad, *want;

    seen_one = turned ? weft_transpose(x_one, 0, 1) : x_one;
    seen = turned ? weft_transpose(x, 0, 1) : x;
    wt_note("%s of %d%s", way->name, (int)in, turned ? ", transposed" : "");
    check_call(way, mesh, one, many, seen_one, split ? last_dim_of(seen) : seen);
    grad = turned ? weft_transpose(weft_grad(x), 0, 1) : weft_grad(x);
    want = turned ? weft_transpose(weft_grad(x_one), 0, 1) : weft_grad(x_one);
    if (split) grad = last_dim_of(grad), want = last_dim_of(want);
    WT_ALL(wt_near_tensors(grad, want, WT_WITHIN(1e-12)));
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

WT_TEST(inputs__that_are_views)
{
    for (int w = 0; w < WAYS; w++)
        for (int turned = 0; turned < 2; turned++) {
            check_view(&ways[w], turned != 0, 16);
            check_view(&ways[w], turned != 0, 13);
        }
}

/* ---- one after the other ---- */

/* One module, and calls of other sizes, layouts and kinds: none is taken for the one before. */
WT_TEST(inputs__of_all_kinds_one_after_the_other)
{
    static const int64_t rows[] = {5, 8, 1, 5};
    static const char *const layouts[] = {NULL, "R", "S(0)", "S(1)"};
    weft_mesh *mesh = given_mesh();
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
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

/* ---- indices and other integers ---- */

static weft_module *embedding(int64_t rows, int64_t width)
{
    weft_manual_seed(8);
    return weft_embedding_new(
        (weft_embedding_config){.rows = rows, .width = width, .dtype = WEFT_F64});
}

static weft_tensor *index_of(const struct shape *shape, int64_t rows)
{
    int64_t values[64], n = 1;

    for (int d = 0; d < shape->ndim; d++) n *= shape->sizes[d];
    for (int64_t i = 0; i < n; i++) values[i] = (i * 7 + 3) % rows;
    return weft_from_data(WEFT_I64, shape->ndim, shape->sizes, values);
}

static void check_index(const struct shape *shape, const char *out, int64_t rows, int64_t width)
{
    weft_mesh *mesh = given_mesh();
    struct way way = {"rowwise embedding", ROW(.input_layouts = "R", .output_layouts = out), "R",
                      out};
    weft_module *one = embedding(rows, width),
                *many = styled(embedding(rows, width), mesh, way.style);
    weft_tensor *index = index_of(shape, rows), *y, *y_one = weft_call(one, index), *c;
    weft_ledger *ledger = weft_ledger_open();

    wt_note("index of %d dims, %d rows of %d, out %s", shape->ndim, (int)rows, (int)width, out);
    y = weft_call(many, index);
    GIVEN_MOVED(ledger, WEFT_COLL_REDUCE_SCATTER, 1);
    c = given_like(y_one);
    WT_ALL(y && wt_near_tensors(y, given_shard(weft_detach(y_one), mesh, out), WT_EXACT));
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
    weft_ledger_reset(ledger);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, given_shard(c, mesh, out)))), WEFT_OK);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, 1);
    weft_ledger_close(ledger);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-12));
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

/* An index of n dims gives n + 1: the layouts of the output count those. */
WT_TEST(inputs__indices_of_any_number_of_dims)
{
    static const struct shape shapes[] = {{1, {8}}, {1, {5}}, {2, {4, 2}}, {3, {2, 3, 2}}};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int dim = 0; dim <= shapes[i].ndim; dim++) {
            const char *const outs[] = {"S(0)", "S(1)", "S(2)", "S(3)"};

            check_index(&shapes[i], outs[dim], 16, 16);
            check_index(&shapes[i], outs[dim], 5, 13);
        }
}

/* Tokens, masks and targets go through prepare-module as they are. */
WT_TEST(inputs__integers_and_masks_are_moved_alike)
{
    static const char *const desired[] = {"R", "S(0)", "S(1)"};
    weft_mesh *mesh = given_mesh();
    int64_t rows = 2 * wt_ranks();
    weft_tensor *index = index_of(&(struct shape){2, {rows, 3}}, 11);
    weft_tensor *wholes[] = {index, weft_cast(index, WEFT_I32), weft_cast(index, WEFT_BOOL)};

    for (int i = 0; i < 9; i++) {
        weft_tensor *whole = wholes[i / 3], *y;
        weft_module *m =
            styled(given_identity(), mesh, weft_prepare_module_input("S(0)", desired[i % 3]));

        wt_note("kind %d to %s", i / 3, desired[i % 3]);
        y = weft_call(m, given_shard(whole, mesh, "S(0)"));
        WT_ALL(given_is(y, desired[i % 3]));
        WT_EQ(weft_tensor_dtype(y), weft_tensor_dtype(whole));
        WT_ALL(wt_near_tensors(y, whole, WT_EXACT));
        weft_module_release(m);
    }
    weft_mesh_release(mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "inputs"); }
