/*
 * test_golden.c: convolutions, pooling and resizing against PyTorch (tests/golden/convolution.txt,
 * made by make_convolution.py), with gradients: in one piece and in layouts, in f64, f32 and 16-bit
 * floats.
 */
/* mpi: 2 */
#include <stdio.h>
#include <string.h>

#include "support/golden.h"
#include "support/worlds.h"

static weft_tensor *by_formula(weft_dtype dtype, int index, const int64_t *shape, int ndim)
{
    weft_tensor *t = weft_full(WEFT_F64, shape, ndim, 0);
    double *to = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) to[i] = wt_golden_formula(i, index, 1, 0);
    return weft_cast(t, dtype);
}

/* Shaped like t. */
static weft_tensor *upstream(weft_dtype dtype, const weft_tensor *t)
{
    int64_t shape[WEFT_MAX_DIMS];

    for (int d = 0; d < weft_ndim(t); d++) shape[d] = weft_size(t, d);
    return by_formula(dtype, 3, shape, weft_ndim(t));
}

static double bound_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 1e-11 : dtype == WEFT_F32 ? 1e-4 : dtype == WEFT_F16 ? 2e-2 : 1.5e-1;
}

static bool matches(const struct wt_golden *golden, const char *name, const char *part,
                    weft_tensor *t, double bound)
{
    char text[64];

    snprintf(text, sizeof text, "%s.%s", name, part);
    wt_note("%s", text);
    return t && wt_golden_matches(golden, text, weft_cast(t, WEFT_F64), WT_WITHIN(bound));
}

/* ---- convolutions ---- */

struct convolution {
    const char *name;
    int dims;
    int64_t x[5], w[5];
    bool bias;
    weft_conv_options o;
};

static const struct convolution convolutions[] = {
    {"plain1", 1, {4, 6, 11}, {8, 6, 3}, true, {.padding = {1}}},
    {"causal1", 1, {2, 8, 9}, {8, 1, 4}, true, {.groups = 8, .padding = {3}, .causal = true}},
    {"multiplier1", 1, {2, 4, 10}, {8, 1, 3}, false, {.groups = 4, .stride = {2}, .padding = {1}}},
    {"patch1", 1, {2, 3, 24}, {5, 3, 4}, true, {.stride = {4}}},
    {"plain2", 2, {3, 4, 9, 8}, {6, 4, 3, 3}, true, {.padding = {1, 1}}},
    {"strided2",
     2,
     {2, 4, 9, 7},
     {6, 4, 3, 2},
     true,
     {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}},
    {"groups2", 2, {2, 6, 5, 6}, {9, 2, 3, 3}, true, {.groups = 3, .padding = {1, 1}}},
    {"depthwise2", 2, {2, 4, 8, 16}, {4, 1, 7, 7}, true, {.groups = 4, .padding = {3, 3}}},
    {"patch2", 2, {2, 3, 16, 32}, {8, 3, 4, 4}, true, {.stride = {4, 4}}},
    {"point2", 2, {2, 5, 4, 7}, {3, 5, 1, 1}, false, {.groups = 1}},
    {"plain3", 3, {2, 3, 4, 5, 6}, {4, 3, 2, 3, 3}, true, {.padding = {0, 1, 1}}},
};

enum { CONVOLUTIONS = sizeof convolutions / sizeof convolutions[0] };

static weft_tensor *convolve(const struct convolution *c, weft_tensor *const *in)
{
    weft_tensor *(*const functions[])(weft_tensor *, weft_tensor *, weft_tensor *,
                                      weft_conv_options) = {weft_conv1d, weft_conv2d, weft_conv3d};

    return functions[c->dims - 1](in[0], in[1], c->bias ? in[2] : NULL, c->o);
}

static void check_convolution(struct wt_world *w, const struct wt_golden *golden,
                              const struct convolution *c, weft_dtype dtype,
                              const weft_placement *p)
{
    double bound = bound_of(dtype);
    weft_tensor *in[3], *y, *up;

    for (int i = 0; i < 3; i++) {
        in[i] = by_formula(dtype, i, i == 0 ? c->x : c->w, i == 2 ? 1 : c->dims + 2);
        if (p) in[i] = weft_distribute_tensor(in[i], w->mesh, &p[i], -1);
        weft_set_requires_grad(in[i], true);
    }
    y = convolve(c, in);
    WT_ALL(matches(golden, c->name, "y", y, bound));
    up = upstream(dtype, y);
    if (p) up = wt_spread(w, up, "R");
    WT_EQ(weft_backward_from(y, up), WEFT_OK);
    WT_ALL(matches(golden, c->name, "x", weft_grad(in[0]), bound));
    WT_ALL(matches(golden, c->name, "w", weft_grad(in[1]), 4 * bound));
    if (c->bias) WT_ALL(matches(golden, c->name, "b", weft_grad(in[2]), 4 * bound));
}

/* TEN-38: in one to three dims, plain and whole on every rank */
WT_TEST_IN_WORLD(convolutions__are_those_of_torch, w)
{
    const struct wt_golden *golden = wt_golden_open("convolution");
    const weft_placement whole[3] = {{0}};

    for (int k = 0; k < CONVOLUTIONS; k++)
        for (int dtype = 0; dtype < 4; dtype++) {
            check_convolution(w, golden, &convolutions[k], (weft_dtype)dtype, NULL);
            check_convolution(w, golden, &convolutions[k], (weft_dtype)dtype, whole);
        }
}

/* OPDB-03, TEN-38: operands sharded in any dims, channels and places included */
WT_TEST_TIMES_IN_WORLD(convolutions__in_every_layout, w, k, CONVOLUTIONS)
{
    const struct wt_golden *golden = wt_golden_open("convolution");
    const struct convolution *c = &convolutions[k];
    int n = c->dims + 2;

    for (int a = -1; a < n; a++)
        for (int b = -1; b < n; b++) {
            weft_placement p[3] = {a < 0 ? weft_replicate() : weft_shard(a),
                                   b < 0 ? weft_replicate() : weft_shard(b),
                                   b == 0 ? weft_shard(0) : weft_replicate()};

            check_convolution(w, golden, c, (a + b) % 2 ? WEFT_F32 : WEFT_F64, p);
        }
}

/* ---- transposed ---- */

/* All pairs of placements of x and w, the bias whole; plain first. */
static void check_transposed(struct wt_world *w, const struct wt_golden *golden, int dims,
                             weft_dtype dtype, const weft_placement *p)
{
    static const int64_t x[2][4] = {{2, 4, 7}, {2, 6, 4, 5}},
                         weight[2][4] = {{4, 3, 4}, {6, 2, 3, 2}};
    static const int64_t channels[] = {3, 6};
    static const weft_conv_transpose_options options[] = {
        {.stride = {2}, .padding = {1}, .output_padding = {1}},
        {.stride = {2, 1}, .dilation = {1, 2}, .groups = 3}};
    const char *name = dims == 1 ? "transposed1" : "transposed2";
    double bound = bound_of(dtype);
    weft_tensor *y, *up,
        *in[] = {by_formula(dtype, 0, x[dims - 1], dims + 2),
                 by_formula(dtype, 1, weight[dims - 1], dims + 2),
                 by_formula(dtype, 2, &channels[dims - 1], 1)};

    for (int i = 0; i < 3; i++) {
        if (p) in[i] = weft_distribute_tensor(in[i], w->mesh, &p[i], -1);
        weft_set_requires_grad(in[i], true);
    }
    y = (dims == 1 ? weft_conv_transpose1d : weft_conv_transpose2d)(in[0], in[1], in[2],
                                                                    options[dims - 1]);
    WT_ALL(matches(golden, name, "y", y, bound));
    up = upstream(dtype, y);
    if (p) up = wt_spread(w, up, "R");
    WT_EQ(weft_backward_from(y, up), WEFT_OK);
    WT_ALL(matches(golden, name, "x", weft_grad(in[0]), bound));
    WT_ALL(matches(golden, name, "w", weft_grad(in[1]), 4 * bound));
    WT_ALL(matches(golden, name, "b", weft_grad(in[2]), 4 * bound));
}

WT_TEST_TIMES_IN_WORLD(transposed_convolutions__are_those_of_torch, w, k, 2)
{
    const struct wt_golden *golden = wt_golden_open("convolution");
    int n = k + 3;

    for (int dtype = 0; dtype < 4; dtype++)
        check_transposed(w, golden, k + 1, (weft_dtype)dtype, NULL);
    for (int a = -1; a < n; a++)
        for (int b = -1; b < n; b++) {
            weft_placement p[3] = {a < 0 ? weft_replicate() : weft_shard(a),
                                   b < 0 ? weft_replicate() : weft_shard(b), weft_replicate()};

            check_transposed(w, golden, k + 1, WEFT_F64, p);
        }
}

/* ---- windows ---- */

struct windows {
    const char *name;
    int dims;
    int64_t x[5];
    enum { MAXIMUM, AVERAGE, ADAPTIVE, RESIZE } kind;
    weft_pool_options pool;
    weft_interpolate_options resize; /* its sizes are those of adaptive ones too */
};

static const struct windows windows[] = {
    {"max1",
     1,
     {2, 3, 11},
     MAXIMUM,
     {.kernel = {3}, .stride = {2}, .padding = {1}},
     {.align_corners = false}},
    {"max2",
     2,
     {2, 3, 7, 9},
     MAXIMUM,
     {.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 0}, .dilation = {1, 2}, .ceil = true},
     {.align_corners = false}},
    {"average1",
     1,
     {2, 3, 11},
     AVERAGE,
     {.kernel = {4}, .stride = {3}, .padding = {2}},
     {.align_corners = false}},
    {"average2",
     2,
     {2, 3, 7, 9},
     AVERAGE,
     {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil = true},
     {.align_corners = false}},
    {"average2_own",
     2,
     {2, 3, 7, 9},
     AVERAGE,
     {.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 1}, .exclude_padding = true},
     {.align_corners = false}},
    {"average3", 3, {1, 2, 4, 5, 6}, AVERAGE, {.kernel = {2, 2, 2}}, {.align_corners = false}},
    {"adaptive1", 1, {2, 3, 7}, ADAPTIVE, {.ceil = false}, {.size = {3}}},
    {"adaptive2", 2, {2, 3, 7, 5}, ADAPTIVE, {.ceil = false}, {.size = {3, 4}}},
    {"adaptive2_one", 2, {2, 3, 7, 5}, ADAPTIVE, {.ceil = false}, {.size = {1, 1}}},
    {"nearest1", 1, {2, 3, 5}, RESIZE, {.ceil = false}, {.size = {8}}},
    {"nearest2", 2, {2, 3, 4, 5}, RESIZE, {.ceil = false}, {.scale = {2, 2}}},
    {"nearest2_down", 2, {2, 3, 7, 5}, RESIZE, {.ceil = false}, {.scale = {0.6, 1.7}}},
    {"exact2",
     2,
     {2, 3, 7, 5},
     RESIZE,
     {.ceil = false},
     {.size = {3, 8}, .mode = WEFT_NEAREST_EXACT}},
    {"linear1", 1, {2, 3, 5}, RESIZE, {.ceil = false}, {.size = {9}, .mode = WEFT_LINEAR}},
    {"bilinear2", 2, {2, 3, 4, 5}, RESIZE, {.ceil = false}, {.scale = {2, 2}, .mode = WEFT_LINEAR}},
    {"bilinear2_scale",
     2,
     {2, 3, 4, 5},
     RESIZE,
     {.ceil = false},
     {.scale = {1.7, 0.7}, .mode = WEFT_LINEAR}},
    {"bilinear2_corners",
     2,
     {2, 3, 4, 5},
     RESIZE,
     {.ceil = false},
     {.size = {7, 3}, .mode = WEFT_LINEAR, .align_corners = true}},
    {"trilinear3",
     3,
     {1, 2, 3, 4, 2},
     RESIZE,
     {.ceil = false},
     {.size = {5, 2, 4}, .mode = WEFT_LINEAR}},
    {"bicubic2", 2, {2, 3, 4, 5}, RESIZE, {.ceil = false}, {.scale = {2, 2}, .mode = WEFT_CUBIC}},
    {"bicubic2_corners",
     2,
     {2, 3, 4, 5},
     RESIZE,
     {.ceil = false},
     {.size = {7, 3}, .mode = WEFT_CUBIC, .align_corners = true}},
};

enum { WINDOWS = sizeof windows / sizeof windows[0] };

static weft_tensor *window(const struct windows *c, weft_tensor *x)
{
    static weft_tensor *(*const largest[])(weft_tensor *, weft_pool_options, weft_tensor **) = {
        weft_max_pool1d, weft_max_pool2d, weft_max_pool3d};
    static weft_tensor *(*const average[])(weft_tensor *, weft_pool_options) = {
        weft_avg_pool1d, weft_avg_pool2d, weft_avg_pool3d};

    if (c->kind == MAXIMUM) return largest[c->dims - 1](x, c->pool, NULL);
    if (c->kind == AVERAGE) return average[c->dims - 1](x, c->pool);
    if (c->kind == RESIZE) return weft_interpolate(x, c->resize);
    return c->dims == 1 ? weft_adaptive_avg_pool1d(x, c->resize.size[0])
                        : weft_adaptive_avg_pool2d(x, c->resize.size);
}

static void check_windows(struct wt_world *w, const struct wt_golden *golden,
                          const struct windows *c, weft_dtype dtype, const weft_placement *p)
{
    weft_tensor *x = by_formula(dtype, 0, c->x, c->dims + 2), *y, *up;

    if (p) x = weft_distribute_tensor(x, w->mesh, p, -1);
    weft_set_requires_grad(x, true);
    weft_ledger_reset(w->ledger);
    y = window(c, x);
    if (p && p->kind == WEFT_KIND_SHARD && p->dim < 2) {
        WT_STILL(w);
        WT_ALL(weft_placement_equal(weft_tensor_placement(y, 0), *p));
    }
    WT_ALL(matches(golden, c->name, "y", y, bound_of(dtype)));
    up = upstream(dtype, y);
    if (p) up = wt_spread(w, up, "R");
    WT_EQ(weft_backward_from(y, up), WEFT_OK);
    WT_ALL(matches(golden, c->name, "x", weft_grad(x), bound_of(dtype)));
}

/* Batch, channels and places sharded; the first two stay where they are. */
WT_TEST_TIMES_IN_WORLD(windows__are_those_of_torch, w, k, WINDOWS)
{
    const struct wt_golden *golden = wt_golden_open("convolution");

    for (int dtype = 0; dtype < 4; dtype++) {
        check_windows(w, golden, &windows[k], (weft_dtype)dtype, NULL);
        for (int d = -1; d < windows[k].dims + 2; d++) {
            weft_placement p = d < 0 ? weft_replicate() : weft_shard(d);

            check_windows(w, golden, &windows[k], (weft_dtype)dtype, &p);
        }
    }
}

/* MATH-18: all ranks but one are empty; and a batch of more */
WT_TEST_TIMES_IN_WORLD(interpolate__of_a_batch_of_one, w, k, 6)
{
    static const char *const names[] = {"upsample_nearest", "upsample_bilinear",
                                        "upsample_bicubic"};
    static const weft_interpolation modes[] = {WEFT_NEAREST, WEFT_LINEAR, WEFT_CUBIC};
    const struct wt_golden *golden = wt_golden_open("convolution");
    weft_interpolate_options o = {.scale = {2, 2}, .mode = modes[k % 3]};
    weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){1, 1, 2, 2}, 4, 0), *y;

    for (int i = 0; i < 4; i++) ((float *)weft_data(x))[i] = (float)(i + 1);
    if (k < 3) {
        y = weft_interpolate(wt_spread(w, x, "S(0)"), o);
        WT_ALL(wt_is_placed(y, "S(0)"));
        WT_STILL(w);
        WT_ALL(wt_golden_matches(golden, names[k], weft_cast(y, WEFT_F64), WT_WITHIN(1e-6)));
        return;
    }
    x = weft_reshape(wt_whole(WEFT_F32, 0, 10, 6), (int64_t[]){5, 2, 2, 3}, 4);
    y = weft_interpolate(wt_spread(w, x, "S(0)"), o);
    WT_ALL(wt_is_placed(y, "S(0)"));
    WT_STILL(w);
    WT_ALL(wt_near_tensors(y, weft_interpolate(x, o), WT_WITHIN(1e-6)));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "golden"); }
