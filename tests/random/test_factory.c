/*
 * test_factory.c: tensors made where they will live: each rank has its part of the shape, the
 * values that a plain tensor would have there, and no more memory than that.
 */
/* mpi: 4 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "random/draws.h"
#include "tensor/tensor.h"

/* ---- constants ---- */

/* What one factory gives; `value` is NaN for undefined elements. */
static void check_constant(weft_tensor *t, double value, const char *placements,
                           const int64_t *shape, const int64_t *local)
{
    bool good = t && wt_is_placed(t, placements) &&
                wt_has_shape(t, 3, shape[0], shape[1], shape[2]) && weft_requires_grad(t);

    for (int d = 0; good && d < 3; d++)
        good = weft_local_size(t, d) == local[d] && weft_local_stride(t, 2) == 1;
    good = good && weft_local_numel(t) == local[0] * local[1] * local[2];
    for (int64_t i = 0; good && !isnan(value) && i < weft_local_numel(t); i++)
        good = ((const float *)weft_data(t))[i] == (float)value;
    wt_note("%s, value %g", placements, value);
    WT_ALL(good);
}

static void check_constants(struct wt_world *w, const int64_t *shape)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "S(2)", "R"};

    for (int l = 0; l < 4; l++) {
        weft_spec spec = {.ndim = 3, .mesh = w->mesh, .requires_grad = true};
        int64_t local[3];

        memcpy(spec.shape, shape, 3 * sizeof *shape);
        memcpy(local, shape, sizeof local);
        weft_placements_parse(spec.placements, 1, layouts[l]);
        if (l < 3) local[l] = weft_chunk_size(shape[l], wt_ranks(), wt_rank());
        check_constant(weft_make_zeros(spec), 0, layouts[l], shape, local);
        check_constant(weft_make_ones(spec), 1, layouts[l], shape, local);
        check_constant(weft_make_full(spec, 123.4), 123.4, layouts[l], shape, local);
        check_constant(weft_make_empty(spec), NAN, layouts[l], shape, local);
    }
    WT_STILL(w);
}

/* INIT-02, INIT-03: even and uneven, and other shapes with ranks that get nothing. */
WT_TEST_IN_WORLD(factories__make_each_ranks_shard, w)
{
    static const int64_t shapes[][3] = {{4, 8, 12}, {5, 10, 15}, {1, 3, 7}, {9, 0, 2}};

    for (int i = 0; i < 4; i++) check_constants(w, shapes[i]);
    if (wt_ranks() == 4) { /* the figures of the cases, spelled out */
        static const int64_t rows[] = {2, 2, 1, 0}, second[] = {3, 3, 3, 1}, third[] = {4, 4, 4, 3};
        const int64_t *shape = shapes[1];

        WT_EQ(weft_local_size(wt_placed(w, WEFT_F32, 3, shape, "S(0)"), 0), rows[wt_rank()]);
        WT_EQ(weft_local_size(wt_placed(w, WEFT_F32, 3, shape, "S(1)"), 1), second[wt_rank()]);
        WT_EQ(weft_local_size(wt_placed(w, WEFT_F32, 3, shape, "S(2)"), 2), third[wt_rank()]);
    }
}

/* INIT-01: a constant of a part. */
WT_TEST_TIMES_IN_WORLD(fill__sets_each_ranks_shard, w, i, 3)
{
    const int64_t shapes[][2] = {{8 * wt_ranks(), 4}, {8, 4}, {5, 3}};
    weft_tensor *t = wt_placed(w, WEFT_F64, 2, shapes[i], "S(0)");

    WT_ALL(weft_fill_(t, 2.4) == WEFT_OK && wt_local_is_all(t, 2.4));
    WT_EQ(weft_local_size(t, 0), weft_chunk_size(shapes[i][0], wt_ranks(), wt_rank()));
}

/* INIT-04: no dims: one element on every rank; all dtypes. */
WT_TEST_IN_WORLD(factories__make_scalars, w)
{
    for (int d = 0; d < WEFT_C64; d++) {
        weft_spec spec = {.dtype = (weft_dtype)d, .mesh = w->mesh};
        weft_tensor *t[] = {weft_make_zeros(spec), weft_make_ones(spec), weft_make_full(spec, 1),
                            weft_make_empty(spec), weft_make_bernoulli(spec, 1, NULL)};
        static const double want[] = {0, 1, 1, NAN, 1};

        for (int i = 0; i < 5; i++) {
            WT_ALL(t[i] && weft_ndim(t[i]) == 0 && weft_local_numel(t[i]) == 1);
            WT_ALL(weft_tensor_mesh(t[i]) == w->mesh);
            WT_ALL(isnan(want[i]) || weft_item(t[i]) == want[i]);
        }
    }
    WT_STILL(w);
}

/* INIT-05 */
WT_TEST_TIMES_IN_WORLD(zeros__follow_the_chunk_rule, w, i, 5)
{
    static const int64_t rows[] = {32, 31, 3, 1, 0};
    weft_tensor *t = weft_make_zeros((weft_spec){
        .ndim = 2, .shape = {rows[i], 3}, .mesh = w->mesh, .placements = {weft_shard(0)}});

    WT_EQ(weft_local_size(t, 0), weft_chunk_size(rows[i], wt_ranks(), wt_rank()));
    WT_ALL(weft_local_size(t, 1) == 3 && wt_local_is_all(t, 0));
    if (wt_ranks() == 4 && i < 2) WT_EQ(weft_local_size(t, 0), i && wt_rank() == 3 ? 7 : 8);
}

/* ---- values that depend on the place ---- */

enum { KINDS = 9 };

static weft_tensor *make(int kind, weft_spec spec)
{
    switch (kind) {
    case 0:
        return weft_make_arange(spec, 0, 1);
    case 1:
        return weft_make_arange(spec, -7, 3);
    case 2:
        return weft_make_linspace(spec, -1, 2);
    case 3:
        return weft_make_eye(spec, 0);
    case 4:
        return weft_make_eye(spec, -2);
    case 5:
        return weft_make_tril(spec, 0);
    case 6:
        return weft_make_tril(spec, -1);
    case 7:
        return weft_make_triu(spec, 1);
    default:
        return weft_make_triu(spec, -2);
    }
}

/* From the nearer end, by equal steps. */
static double linspace_at(int64_t n, int64_t i)
{
    double step = n > 1 ? 3 / (double)(n - 1) : 0;

    return n == 1 || 2 * i < n - 1 ? -1 + (double)i * step : 2 - (double)(n - 1 - i) * step;
}

static double want_at(int kind, int64_t n, int64_t row, int64_t column)
{
    switch (kind) {
    case 0:
        return (double)column;
    case 1:
        return -7 + 3 * (double)column;
    case 2:
        return linspace_at(n, column);
    case 3:
        return column == row;
    case 4:
        return column == row - 2;
    case 5:
        return column <= row;
    case 6:
        return column <= row - 1;
    case 7:
        return column >= row + 1;
    default:
        return column >= row - 2;
    }
}

static bool good_place(struct wt_world *w, int kind, weft_spec spec, const char *layout)
{
    int64_t columns = spec.shape[spec.ndim - 1],
            rows = spec.ndim > 1 ? spec.shape[spec.ndim - 2] : 1;
    double want[600];
    weft_tensor *t;
    int64_t n = 1;

    for (int d = 0; d < spec.ndim; d++) n *= spec.shape[d];
    for (int64_t i = 0; i < n; i++) {
        char element[8];
        const struct wf_dtype_info *info = &wf_dtypes[spec.dtype];

        info->store(element, want_at(kind, columns, i / columns % rows, i % columns));
        want[i] = info->load(element);
    }
    spec.mesh = w->mesh;
    weft_placements_parse(spec.placements, WEFT_MAX_AXES, layout);
    t = make(kind, spec);
    wt_note("kind %d in %s", kind, layout);
    if (!t || !wt_is_part_of(t, want)) return false;
    spec.mesh = NULL;
    memset(spec.placements, 0, sizeof spec.placements);
    t = make(kind, spec);
    return t && !weft_tensor_mesh(t) && wt_is_part_of(t, want);
}

/* INIT-02: arange, linspace, eye, masks: like those of a plain tensor in every placement. */
WT_TEST_IN_WORLD(factories__know_where_their_elements_lie, w)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16,
                                        WEFT_I32, WEFT_I64, WEFT_BOOL};
    static const char *const layouts[] = {"R", "S(0)", "S(0,balanced)", "SS(0,3)", "S(1)", "S(2)"};
    static const int64_t lengths[] = {12, 5, 1, 0, 600};

    for (int i = 0; i < 3 * 5 * 4; i++) {
        bool good = true;

        for (int d = 0; d < (i % 3 == 2 ? 4 : 6) && good; d++)
            good = good_place(
                w, i % 3, (weft_spec){.dtype = dtypes[d], .ndim = 1, .shape = {lengths[i / 3 % 5]}},
                layouts[i / 15]);
        WT_ALL(good);
    }
    for (int i = 0; i < (KINDS - 3) * 6; i++) {
        weft_spec three = {.dtype = dtypes[i % 7], .ndim = 3, .shape = {3, 5, 7}};
        weft_spec two = {.dtype = dtypes[(i + 1) % 7], .ndim = 2, .shape = {6, 4}};

        WT_ALL(good_place(w, 3 + i % (KINDS - 3), three, layouts[i / (KINDS - 3)]) &&
               good_place(w, 3 + i % (KINDS - 3), two, layouts[i / (KINDS - 3) % 5]));
    }
    WT_STILL(w);
}

WT_TEST_IN_WORLD(linspace__ends_exactly, w)
{
    weft_spec spec = {.dtype = WEFT_F64, .ndim = 1, .shape = {1001}, .mesh = w->mesh};
    double *all = wt_values(weft_make_linspace(spec, 0.1, 0.7));

    WT_ALL(all[0] == 0.1 && all[1000] == 0.7 && fabs(all[500] - 0.4) < 1e-15);
    free(all);
}

/* ---- memory ---- */

/* A tensor of 256 GiB is made as shards only: its other rows are on ranks of a simulated mesh. */
WT_TEST(factories__never_make_the_whole)
{
    weft_mesh *mesh = weft_mesh_new_fake(wt_rank() + 5, "dp=512,tp=512");
    weft_spec spec = {.ndim = 2,
                      .shape = {1 << 18, 1 << 18},
                      .mesh = mesh,
                      .placements = {weft_shard(0), weft_shard(1)}};
    weft_tensor *made[] = {weft_make_zeros(spec), weft_make_randn(spec, NULL),
                           weft_make_randint(spec, 0, 9, NULL), weft_make_eye(spec, 0),
                           weft_make_bernoulli(spec, 0.5, NULL)};

    for (int i = 0; i < 5; i++) WT_ALL(made[i] && weft_local_numel(made[i]) == 512 * 512);
    weft_mesh_release(mesh);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A permutation of 2^28 numbers: every rank has its own few. */
WT_TEST(randperm__never_makes_the_whole)
{
    const int64_t n = (int64_t)1 << 28, part = 1 << 10;
    weft_mesh *mesh = weft_mesh_new_fake(wt_rank(), "dp=512,tp=512");
    weft_spec spec = {.dtype = WEFT_I64, .ndim = 1, .shape = {n}, .mesh = mesh};
    double mine[1 << 10], *all;
    bool good = true;
    weft_tensor *t;

    weft_manual_seed(5);
    spec.placements[0] = spec.placements[1] = weft_shard(0);
    t = weft_make_randperm(spec, NULL);
    WT_ALL(t && weft_local_numel(t) == part && weft_read_f64(t, mine, part) == WEFT_OK);
    all = wt_of_all_ranks(mine, part);
    qsort(all, (size_t)(wt_ranks() * part), sizeof *all, by_value);
    for (int64_t i = 1; i < wt_ranks() * part; i++) good &= all[i] > all[i - 1];
    WT_ALL(good && all[0] >= 0 && all[wt_ranks() * part - 1] < (double)n);
    free(all);
    weft_mesh_release(mesh);
}

/* ---- like another, and refusals ---- */

WT_TEST_IN_WORLD(like__keeps_the_placement, w)
{
    for (int d = 0; d < 3; d++) {
        weft_tensor *t = wt_placed(w, (weft_dtype)d, 2, (int64_t[]){5, 7}, d ? "S(0)" : "SS(1,2)");
        weft_tensor *like[] = {weft_zeros_like(t), weft_ones_like(t), weft_full_like(t, 2),
                               weft_rand_like(t, NULL)};

        for (int i = 0; i < 4; i++) {
            WT_ALL(like[i] && like[i]->layout == t->layout && !weft_requires_grad(like[i]));
            WT_ALL(i > 2 || wt_local_is_all(like[i], i));
        }
        WT_ALL(!weft_zeros_like(NULL) && !weft_rand_like(NULL, NULL));
    }
    WT_STILL(w);
}

WT_TEST_IN_WORLD(factories__refuse, w)
{
    weft_spec good = {.ndim = 2, .shape = {4, 6}, .mesh = w->mesh}, bad = good;

    bad.placements[0] = weft_partial(WEFT_SUM);
    WT_FAILS(weft_make_zeros(bad), WEFT_ERR_LAYOUT, "partial");
    bad.placements[0] = weft_shard(2);
    WT_FAILS(weft_make_rand(bad, NULL), WEFT_ERR_LAYOUT, "");
    bad = good;
    bad.placements[1] = weft_shard(0);
    WT_FAILS(weft_make_ones(bad), WEFT_ERR_LAYOUT, "axes");
    bad = good;
    bad.shape[1] = -1;
    WT_FAILS(weft_make_empty(bad), WEFT_ERR_SHAPE, "-1");
    bad = good;
    bad.ndim = WEFT_MAX_DIMS + 1;
    WT_FAILS(weft_make_empty(bad), WEFT_ERR_SHAPE, "dims");
    bad = good;
    bad.dtype = WEFT_I32;
    WT_FAILS(weft_make_normal(bad, 0, 1, NULL), WEFT_ERR_DTYPE, "i32");
    WT_ALL(!weft_make_linspace((weft_spec){.dtype = WEFT_I32, .ndim = 1}, 0, 1));
    WT_FAILED(WEFT_ERR_DTYPE, "i32");
    bad.requires_grad = true;
    WT_FAILS(weft_make_zeros(bad), WEFT_ERR_DTYPE, "gradient");
}

WT_TEST(factories__refuse_what_a_kind_cannot_be)
{
    weft_spec plane = {.ndim = 2, .shape = {4, 6}},
              line = {.dtype = WEFT_I32, .ndim = 1, .shape = {4}};

    WT_FAILS(weft_make_arange(plane, 0, 1), WEFT_ERR_SHAPE, "arange");
    WT_FAILS(weft_make_arange(line, 0.5, 1), WEFT_ERR_ARG, "whole");
    WT_FAILS(weft_make_eye(line, 0), WEFT_ERR_SHAPE, "eye");
    WT_FAILS(weft_make_randperm(plane, NULL), WEFT_ERR_SHAPE, "randperm");
    WT_FAILS(weft_make_randint(line, 3, 3, NULL), WEFT_ERR_ARG, "randint");
    line.dtype = WEFT_U8;
    WT_ALL(!weft_make_randint(line, 0, 257, NULL) && weft_error_status() == WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "u8");
    line.dtype = WEFT_BF16;
    WT_ALL(weft_make_randint(line, -256, 257, NULL) && !weft_make_randint(line, 0, 258, NULL));
    WT_FAILED(WEFT_ERR_ARG, "bf16");
    line.dtype = WEFT_F16;
    WT_ALL(weft_make_randint(line, -2048, 2049, NULL) && !weft_make_randint(line, 0, 2050, NULL));
    WT_FAILED(WEFT_ERR_ARG, "f16");
    WT_FAILS(weft_make_bernoulli(plane, 1.5, NULL), WEFT_ERR_ARG, "1.5");
    WT_FAILS(weft_make_trunc_normal(plane, 0, 1, 2, 1, NULL), WEFT_ERR_ARG, "trunc_normal");
    WT_FAILS(weft_make_normal(plane, 0, -1, NULL), WEFT_ERR_ARG, "deviation");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "factory"); }
