/* draws.c: the table of random fills, and what cases with ranks ask about their results. */
#include "random/draws.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

static weft_status uniform(weft_tensor *t, weft_generator *g)
{
    return weft_uniform_(t, -0.5, 2, g);
}

static weft_status normal(weft_tensor *t, weft_generator *g)
{
    return weft_normal_(t, 1.5, 0.8, g);
}

static weft_status trunc_normal(weft_tensor *t, weft_generator *g)
{
    return weft_trunc_normal_(t, 0, 1, -0.7, 1.9, g);
}

static weft_status log_normal(weft_tensor *t, weft_generator *g)
{
    return weft_log_normal_(t, 0.25, 0.5, g);
}

static weft_status exponential(weft_tensor *t, weft_generator *g)
{
    return weft_exponential_(t, 1.5, g);
}

static weft_status geometric(weft_tensor *t, weft_generator *g)
{
    return weft_geometric_(t, 0.3, g);
}

static weft_status bernoulli(weft_tensor *t, weft_generator *g)
{
    return weft_bernoulli_(t, 0.5, g);
}

static weft_status randint(weft_tensor *t, weft_generator *g)
{
    return weft_randint_(t, 0, 100, g);
}

static weft_status kaiming(weft_tensor *t, weft_generator *g)
{
    if (weft_ndim(t) < 2) return weft_uniform_(t, -1, 1, g);
    return weft_kaiming_uniform_(t, sqrt(5), WEFT_FAN_IN, g);
}

static weft_status xavier(weft_tensor *t, weft_generator *g)
{
    if (weft_ndim(t) < 2) return weft_normal_(t, 0, 1, g);
    return weft_xavier_normal_(t, 1, g);
}

const struct wt_draw wt_draws[] = {
    {"uniform f32", uniform, WEFT_F32, false},
    {"uniform f64", uniform, WEFT_F64, false},
    {"uniform bf16", uniform, WEFT_BF16, false},
    {"uniform f16", uniform, WEFT_F16, false},
    {"normal f32", normal, WEFT_F32, false},
    {"normal f64", normal, WEFT_F64, false},
    {"normal bf16", normal, WEFT_BF16, false},
    {"normal f16", normal, WEFT_F16, false},
    {"trunc_normal f32", trunc_normal, WEFT_F32, false},
    {"log_normal f32", log_normal, WEFT_F32, false},
    {"log_normal bf16", log_normal, WEFT_BF16, false},
    {"exponential f64", exponential, WEFT_F64, false},
    {"geometric f32", geometric, WEFT_F32, false},
    {"geometric i64", geometric, WEFT_I64, false},
    {"bernoulli bf16", bernoulli, WEFT_BF16, true},
    {"bernoulli f16", bernoulli, WEFT_F16, true},
    {"bernoulli bool", bernoulli, WEFT_BOOL, true},
    {"randint i32", randint, WEFT_I32, false},
    {"randint u8", randint, WEFT_U8, false},
    {"kaiming f32", kaiming, WEFT_F32, false},
    {"xavier f32", xavier, WEFT_F32, false},
};
const int wt_draw_count = (int)(sizeof wt_draws / sizeof *wt_draws);

bool wt_is_part_of(const weft_tensor *t, const double *want)
{
    const struct wf_layout *l = t->layout;
    struct wf_shard part[WEFT_MAX_DIMS];
    int sizes[WEFT_MAX_AXES], coordinates[WEFT_MAX_AXES];
    double *got = calloc((size_t)l->desc.numel + 1, sizeof *got);
    bool good = weft_read_f64(t, got, l->desc.numel) == WEFT_OK;

    for (int a = 0; a < l->n_axes; a++) {
        sizes[a] = weft_mesh_axis_size(l->mesh, a);
        coordinates[a] = weft_mesh_coordinate(l->mesh, a);
    }
    for (int d = 0; d < l->desc.ndim; d++)
        wf_shard_init(&part[d], d, l->desc.global[d], sizes, coordinates, l->placements, l->n_axes);
    for (int64_t i = 0; good && i < l->desc.numel; i++) {
        int64_t at = 0, unit = 1, rest = i;

        for (int d = l->desc.ndim - 1; d >= 0; d--) {
            at += wf_shard_to_global(&part[d], rest % l->desc.shape[d]) * unit;
            unit *= l->desc.global[d];
            rest /= l->desc.shape[d];
        }
        good = got[i] == want[at];
        if (!good) wt_note("element %lld is %g, not %g", (long long)at, got[i], want[at]);
    }
    free(got);
    return good;
}

weft_tensor *wt_placed(struct wt_world *w, weft_dtype dtype, int ndim, const int64_t *shape,
                       const char *placements)
{
    weft_spec spec = {.dtype = dtype, .ndim = ndim, .mesh = w->mesh};

    for (int d = 0; d < ndim; d++) spec.shape[d] = shape[d];
    if (weft_placements_parse(spec.placements, WEFT_MAX_AXES, placements) < 0) return NULL;
    return weft_make_empty(spec);
}

double *wt_of_all_ranks(const double *mine, int64_t n)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "world=%d", wt_ranks());
    weft_placement rows = weft_shard(0);
    weft_tensor *row = weft_from_data(WEFT_F64, (int64_t[]){1, n}, 2, mine);
    double *all = wt_values(weft_from_local(row, mesh, &rows, (int64_t[]){wt_ranks(), n}));

    weft_mesh_release(mesh);
    return all;
}

bool wt_rows_differ(const double *rows, int64_t count, int64_t n)
{
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = 0; b < a; b++) {
            if (memcmp(rows + a * n, rows + b * n, (size_t)n * sizeof *rows) != 0) continue;
            wt_note("rows %lld and %lld are equal", (long long)b, (long long)a);
            return false;
        }
    return true;
}

double *wt_local_rows(weft_tensor *t, int64_t n)
{
    double *mine = calloc((size_t)n + 1, sizeof *mine), *all;

    WT_ALL(t && weft_local_numel(t) == n && weft_read_f64(t, mine, n) == WEFT_OK);
    all = wt_of_all_ranks(mine, n);
    free(mine);
    return all;
}

void wt_parts_differ(weft_tensor *t, int64_t n, const char *what)
{
    double *all = wt_local_rows(t, n);

    wt_note("%s", what);
    WT_ALL(wt_rows_differ(all, wt_ranks(), n));
    free(all);
}

bool wt_generator_is(uint64_t seed, uint64_t draws)
{
    const weft_generator *g = weft_default_generator();

    if (weft_generator_seed(g) == seed && weft_generator_draws(g) == draws) return true;
    wt_note("seed %llu, draw %llu", (unsigned long long)weft_generator_seed(g),
            (unsigned long long)weft_generator_draws(g));
    return false;
}
