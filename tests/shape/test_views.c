/*
 * test_views.c: views over every layout: the values of one device, nothing sent where a placement
 * says what the ranks have, and the placement that it then is.
 */
/* ranks: 1 2 3 4 6 8 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <weft/extend/guard.h>
#include <weft/extend/layout.h>

#include "base/error.h"
#include "ops/shape/reshape_rule.h"
#include "support/worlds.h"

/* ---- which dims correspond ---- */

static void expect_groups(const int64_t *old, int n_old, const int64_t *new, int n_new,
                          const char *want)
{
    struct wf_reshape_group groups[WEFT_MAX_DIMS];
    int n = wf_reshape_groups(groups, old, n_old, new, n_new);
    char text[256] = "";
    size_t at = 0;

    for (int g = 0; g < n; g++) {
        for (int i = 0; i < groups[g].n_old; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%d", groups[g].old_dim[i]);
        at += (size_t)snprintf(text + at, sizeof text - at, ">");
        for (int i = 0; i < groups[g].n_new; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%d", groups[g].new_dim[i]);
        at += (size_t)snprintf(text + at, sizeof text - at, " ");
    }
    wt_note("%s, not %s", text, want);
    WT_ALL(strcmp(text, want) == 0);
}

#define SIZES(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof(int64_t[]){__VA_ARGS__} / 8)

/* VIEW-01, VIEW-02: what is flattened, and what it is split into; dims of size 1 come and go */
WT_TEST(groups__are_the_smallest)
{
    expect_groups(SIZES(2, 3), SIZES(3, 2), "01>01 ");
    expect_groups(SIZES(3, 4, 5), SIZES(12, 5), "01>0 2>1 ");
    expect_groups(SIZES(2, 3, 4, 5, 7), SIZES(12, 70), "01234>01 ");
    expect_groups(SIZES(2, 3, 4, 5, 7), SIZES(3, 8, 7, 5), "012>01 34>23 ");
    expect_groups(SIZES(3, 4, 8, 3), SIZES(12, 4, 2, 3), "01>0 2>12 3>3 ");
    expect_groups(SIZES(3, 24), SIZES(1, 3, 2, 4, 1, 3, 1), "0>1 1>235 ");
    expect_groups(SIZES(1, 1, 3, 2, 1, 1), SIZES(6, 1, 1, 1), "23>0 4>1 5>2 ");
    expect_groups(SIZES(1, 1, 12, 1, 1, 1, 2, 5, 1), SIZES(3, 4, 1, 10), "2>01 3>2 67>3 ");
    expect_groups(SIZES(2, 3, 4), SIZES(2, 3, 4), "0>0 1>1 2>2 ");
    expect_groups(SIZES(7), SIZES(7, 1), "0>0 ");
}

/* ---- every layout ---- */

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof(int64_t[]){__VA_ARGS__} / 8)
#define DIMS(...)                                                                                  \
    (const int[]) { __VA_ARGS__ }
#define VIEW(name, expression)                                                                     \
    static weft_tensor *name(weft_tensor *x) { return expression; }

VIEW(one_dim, weft_atleast_nd(x, 1))
VIEW(two_dims, weft_atleast_nd(x, 2))
VIEW(three_dims, weft_atleast_nd(x, 3))
VIEW(broadcast_1, weft_expand(x, SHAPE(1, 24, 36)))
VIEW(broadcast_42, weft_expand(x, SHAPE(42, 24, 36)))
VIEW(broadcast_kept, weft_expand(x, SHAPE(-1, 36)))
VIEW(broadcast_middle, weft_expand(x, SHAPE(12, 24, 24, 36)))
VIEW(broadcast_middle_kept, weft_expand(x, SHAPE(-1, 1, 36)))
VIEW(broadcast_second, weft_expand(x, SHAPE(12, 36, 42, 24)))
/* Of 31 million elements the first of each repeated dim: the others are the same ones. */
static weft_tensor *expand_many(weft_tensor *x)
{
    x = weft_expand(x, SHAPE(36, 24, 42, -1, 24));
    if (!wt_has_shape(x, 5, 36, 24, 42, 36, 24)) return NULL;
    x = weft_slice(weft_slice(x, 0, 34, 36), 2, 0, 2);
    return weft_slice(x, 4, 22, 24);
}
VIEW(flatten_all, weft_flatten(x, 0, -1))
VIEW(move_1_to_2, weft_movedim(x, DIMS(1), DIMS(2), 1))
VIEW(move_1_to_0, weft_movedim(x, DIMS(1), DIMS(0), 1))
VIEW(move_12_to_01, weft_movedim(x, DIMS(1, 2), DIMS(0, 1), 2))
VIEW(move_021_to_210, weft_movedim(x, DIMS(0, 2, 1), DIMS(2, 1, 0), 3))
VIEW(move_10_to_01, weft_movedim(x, DIMS(1, 0), DIMS(0, 1), 2))
VIEW(move_12_to_back, weft_movedim(x, DIMS(1, 2), DIMS(-3, -2), 2))
VIEW(permute_201, weft_permute(x, DIMS(2, 0, 1)))
VIEW(permute_negative, weft_permute(x, DIMS(-1, -3, -2)))
VIEW(ravel, weft_ravel(x))
VIEW(repeat, weft_repeat(x, SHAPE(1, 2, 1, 1, 2)))
VIEW(tile, weft_tile(x, SHAPE(1, 2, 1, 1, 2)))
VIEW(tile_short, weft_tile(x, SHAPE(1, 3)))
VIEW(join_first, weft_reshape(x, SHAPE(72, 24)))
VIEW(transpose_20, weft_transpose(x, 2, 0))
VIEW(transpose_last, weft_transpose(x, -1, 0))
VIEW(unsqueeze_1, weft_unsqueeze(x, 1))
VIEW(squeeze, weft_squeeze(x, NULL, 0))
VIEW(view_join, weft_view(x, SHAPE(72, 24)))
VIEW(view_flat, weft_view(x, SHAPE(-1)))
VIEW(view_apart, weft_view(x, SHAPE(24, 4, 35, 13)))

static const struct row {
    const char *name;
    weft_tensor *(*f)(weft_tensor *x);
    int ndim;
    int64_t shape[6];
    unsigned fixed; /* bits of dims that are repeated, or not the first of what is flattened */
    bool is_view;   /* VIEW-07 */
} rows[] = {
    {"atleast_1d", one_dim, 0, {0}, 0, 0},
    {"atleast_1d", one_dim, 1, {24}, 0, 0},
    {"atleast_1d", one_dim, 4, {24, 12, 6, 6}, 0, 0},
    {"atleast_2d", two_dims, 0, {0}, 0, 0},
    {"atleast_2d", two_dims, 1, {24}, 0, 0},
    {"atleast_2d", two_dims, 3, {24, 36, 6}, 0, 0},
    {"atleast_3d", three_dims, 0, {0}, 0, 0},
    {"atleast_3d", three_dims, 1, {24}, 0, 0},
    {"atleast_3d", three_dims, 2, {24, 36}, 0, 0},
    {"broadcast_to", broadcast_1, 2, {24, 36}, 0, 0},
    {"broadcast_to", broadcast_42, 2, {24, 36}, 0, 0},
    {"broadcast_to", broadcast_kept, 2, {24, 36}, 0, 0},
    {"broadcast_to", broadcast_middle, 3, {24, 1, 36}, 0, 0},
    {"broadcast_to", broadcast_middle_kept, 3, {24, 1, 36}, 0, 0},
    {"broadcast_to", broadcast_second, 3, {36, 1, 24}, 0, 0},
    {"expand", expand_many, 4, {24, 1, 36, 1}, 0, 0},
    {"flatten", flatten_all, 2, {24, 36}, 2, 0},
    {"movedim", move_1_to_2, 4, {12, 24, 48, 96}, 0, 0},
    {"movedim", move_1_to_0, 3, {6, 12, 24}, 0, 0},
    {"movedim", move_12_to_01, 3, {24, 12, 6}, 0, 0},
    {"movedim", move_021_to_210, 3, {24, 6, 12}, 0, 0},
    {"movedim", move_10_to_01, 2, {24, 12}, 0, 0},
    {"movedim", move_12_to_01, 3, {36, 24, 12}, 0, 0},
    {"movedim", move_12_to_back, 3, {36, 24, 12}, 0, 0},
    {"permute", permute_201, 3, {24, 36, 42}, 0, 0},
    {"permute", permute_negative, 3, {24, 36, 42}, 0, 0},
    {"ravel", ravel, 2, {24, 36}, 2, 0},
    {"repeat", repeat, 2, {24, 36}, 0, 0},
    {"reshape", join_first, 3, {6, 12, 24}, 2, 1},
    {"tile", tile, 2, {24, 36}, 0, 0},
    {"tile", tile_short, 3, {42, 24, 36}, 0, 0},
    {"transpose", transpose_20, 4, {24, 60, 42, 60}, 0, 0},
    {"transpose", transpose_last, 4, {24, 60, 42, 60}, 0, 0},
    {"unsqueeze", unsqueeze_1, 3, {42, 24, 36}, 0, 0},
    {"squeeze", squeeze, 4, {24, 1, 36, 1}, 0, 0},
    {"view", view_join, 3, {6, 12, 24}, 2, 1},
    {"view", view_flat, 3, {1, 1, 12}, 0, 1},
    {"view", view_flat, 4, {1, 1, 42, 24}, 8, 1},
    {"view", view_flat, 6, {1, 1, 42, 1, 24, 1}, 16, 1},
    {"view", view_apart, 3, {48, 35, 26}, 6, 1},
};
enum { ROWS = sizeof rows / sizeof *rows };

static weft_tensor *whole(const int64_t *shape, int ndim)
{
    int64_t n = 1;
    weft_tensor *t;
    float *data;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    data = malloc(((size_t)n + 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)wt_element(0, i);
    t = weft_from_data(WEFT_F32, shape, ndim, data);
    free(data);
    return t;
}

/* dp=3,tp=2 of six ranks */
static struct wt_world two_axes(void)
{
    return wt_ranks() == 6 ? wt_world_open_mesh("dp=3,tp=2") : wt_world_open_two_axes();
}

static weft_placement numbered(int ndim, int index)
{
    return index == ndim ? weft_replicate() : weft_shard(index);
}

static bool has_shape_of(const weft_tensor *y, const weft_tensor *plain)
{
    bool good = y && weft_ndim(y) == weft_ndim(plain);

    for (int d = 0; good && d < weft_ndim(y); d++) good = weft_size(y, d) == weft_size(plain, d);
    return good;
}

/* The values lie where the placements say. */
static bool is_like(weft_tensor *y, weft_tensor *plain)
{
    double *want = wt_values(plain);
    bool good = want && has_shape_of(y, plain) && wt_near_local(y, want, WT_EXACT);

    free(want);
    return good;
}

/* Large ones on six ranks only. */
static bool is_skipped(const struct row *r)
{
    int64_t n = 1;

    for (int d = 0; d < r->ndim; d++) n *= r->shape[d];
    return n > 50000 && wt_ranks() != 6;
}

/* VIEW-03, VIEW-04, VIEW-05: all pairs; on six ranks nothing may be sent */
WT_TEST_TIMES_IN(views__keep_what_the_ranks_have, w, i, ROWS, two_axes())
{
    const struct row *r = &rows[i];
    weft_tensor *x, *plain;
    double *want;

    if (is_skipped(r)) return;
    x = whole(r->shape, r->ndim);
    plain = r->f(x);
    want = wt_values(plain);
    for (int a = 0; a <= r->ndim; a++)
        for (int b = 0; b <= r->ndim; b++) {
            weft_placement p[] = {numbered(r->ndim, a), numbered(r->ndim, b)};
            weft_scope *scope;
            weft_tensor *y;

            if (a < r->ndim && (r->shape[a] == 1 || r->fixed >> a & 1)) continue;
            if (b < r->ndim && (r->shape[b] == 1 || r->fixed >> b & 1)) continue;
            scope = weft_scope_open();
            wt_note("%s, row %d, placements %d and %d", r->name, i, a, b);
            y = weft_distribute_tensor(x, w->mesh, p, -1);
            weft_ledger_reset(w->ledger);
            y = r->f(y);
            if (wt_ranks() == 6) WT_STILL(w);
            WT_ALL(has_shape_of(y, plain));
            if (weft_numel(y) < 1000000 || (3 * a + b) % 4 == 0)
                WT_ALL(wt_near_local(y, want, WT_EXACT));
            weft_scope_close(scope);
            weft_ledger_reset(w->ledger);
        }
    free(want);
}

/* VIEW-06 */
WT_TEST_IN_WORLD(broadcast__needs_dims_that_fit, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 24, 36), "S(0)");

    WT_FAILS(weft_expand(x, SHAPE(1, 2, 4)) ? WEFT_OK : weft_error_status(), WEFT_ERR_SHAPE,
             "expand: size 2 in dim 1 does not repeat f32[24,36]");
    weft_error_clear();
}

/* VIEW-07 */
WT_TEST_TIMES_IN(views__of_strided_shards_send_nothing, w, i, ROWS, two_axes())
{
    const struct row *r = &rows[i];
    weft_tensor *x, *plain;

    if (is_skipped(r) || !r->is_view) return;
    x = whole(r->shape, r->ndim);
    plain = r->f(x);
    for (int d = 0; d < r->ndim; d++) {
        weft_placement p[] = {weft_strided_shard(d, 2), weft_shard(d)};
        weft_tensor *y;

        if (r->shape[d] == 1 || r->fixed >> d & 1) continue;
        wt_note("%s, row %d, dim %d", r->name, i, d);
        y = weft_distribute_tensor(x, w->mesh, p, -1);
        weft_ledger_reset(w->ledger);
        y = r->f(y);
        if (wt_ranks() == 6) WT_STILL(w);
        WT_ALL(is_like(y, plain));
        weft_ledger_reset(w->ledger);
    }
}

/* VIEW-10, at n = 1 and 7, and 5 */
WT_TEST_IN_WORLD(views__of_an_untouched_dim_are_the_same_bytes, w)
{
    static const struct {
        int ndim;
        int64_t rest[3];
    } to[] = {{3, {2, 4}}, {3, {4, 2}}, {2, {8}}, {4, {2, 2, 2}}};

    for (int k = 0; k < 3 * 4; k++) {
        int64_t n = (int64_t[]){1, 7, 5}[k / 4], shape[4] = {n};
        weft_tensor *x = whole((int64_t[]){n, 2, 2, 2}, 4), *y;

        wt_note("%d rows, view %d", (int)n, k % 4);
        memcpy(shape + 1, to[k % 4].rest, sizeof to[k % 4].rest);
        x = wt_spread(w, x, "S(0)");
        weft_ledger_reset(w->ledger);
        y = weft_view(x, shape, to[k % 4].ndim);
        WT_STILL(w);
        WT_ALL(y && weft_data(y) == weft_data(x));
        WT_ALL(wt_is_placed(y, "S(0)"));
        WT_ALL(weft_local_size(y, 0) == weft_chunk_size(n, wt_ranks(), weft_world_rank()));
    }
}

/* VIEW-11, with 5, 6 and 7 of six ranks, and other sizes: on any number of ranks */
WT_TEST_IN_WORLD(flatten__of_an_inner_shard_is_a_strided_shard, w)
{
    static const int64_t local[3][6] = {
        {6, 6, 6, 6, 6, 0}, {6, 6, 6, 6, 6, 6}, {12, 12, 12, 6, 0, 0}};

    for (int64_t seq = 1; seq < 12; seq++) {
        weft_tensor *x = whole((int64_t[]){6, seq, 3}, 3), *plain, *y;

        wt_note("seq %d", (int)seq);
        plain = weft_view(x, SHAPE(6 * seq, 3));
        x = wt_spread(w, x, "S(1)");
        weft_ledger_reset(w->ledger);
        y = weft_view(x, SHAPE(6 * seq, 3));
        if (seq > 1 || wt_ranks() == 1) {
            WT_STILL(w);
            if (wt_ranks() > 1) WT_ALL(wt_is_placed(y, "SS(0,6)"));
            WT_ALL(weft_data(y) == weft_data(x));
        }
        WT_ALL(is_like(y, plain));
        if (wt_ranks() == 6 && seq >= 5 && seq <= 7)
            WT_ALL(weft_local_size(y, 0) == local[seq - 5][weft_world_rank()]);
        weft_ledger_reset(w->ledger);
        y = weft_view(y, SHAPE(6, seq, 3));
        if (seq > 1) WT_STILL(w);
        if (seq > 1) WT_ALL(wt_is_placed(y, "S(1)"));
    }
}

static void unflattened(struct wt_world *w, int64_t n, const char *from, const int64_t *shape,
                        int ndim, const char *to)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, n, 3), *plain = weft_view(x, shape, ndim), *y;

    wt_note("%s to %s", from, to);
    y = wt_spread(w, x, from);
    weft_ledger_reset(w->ledger);
    y = weft_view(y, shape, ndim);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, to));
    WT_ALL(is_like(y, plain));
}

/* VIEW-14, and other numbers of ranks and pieces */
WT_TEST_IN_WORLD(unflatten__of_a_strided_shard_is_a_shard, w)
{
    unflattened(w, 36, "SS(0,6)", SHAPE(6, 6, 3), "S(1)");
    unflattened(w, 35, "SS(0,5)", SHAPE(5, 7, 3), "S(1)");
    unflattened(w, 24, "SS(0,6)", SHAPE(3, 8, 3), "SS(1,2)");
}

/* VIEW-14, two axes */
WT_TEST_IN_IF(unflatten__of_two_strided_shards, w, wt_ranks() == 6, two_axes())
{
    unflattened(w, 216, "SS(0,6) SS(0,12)", SHAPE(6, 6, 6, 3), "S(1) S(2)");
    unflattened(w, 216, "R SS(0,36)", SHAPE(6, 6, 6, 3), "R S(2)");
    unflattened(w, 72, "SS(0,2) SS(0,4)", SHAPE(2, 6, 6, 3), "S(1) S(2)");
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Any sizes and placements, there and back: the values, and those of the gradient. What a placement
 * holds is not sent, which the rows above say; here that nothing is wrong, whatever is sent. */
WT_TEST_TIMES_IN(reshapes__of_any_layout_are_right, w, i, 60, two_axes())
{
    uint64_t state = 977 + 31 * (uint64_t)i;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
    int64_t shape[4], to[8];
    int n = 2 + (int)(next(&state) % 3), n_to = 0;
    weft_placement p[2];
    weft_tensor *x, *y, *plain, *loss;

    for (int d = 0; d < n; d++) shape[d] = sizes[next(&state) % 9];
    for (int d = 0; d < n; d++) { /* factors, each a dim of its own or joined with the last */
        int64_t left = shape[d];

        while (left > 0) {
            int64_t factor = left % 2 == 0 && next(&state) % 2   ? 2
                             : left % 3 == 0 && next(&state) % 2 ? 3
                                                                 : left;

            if (n_to > 0 && (n_to == 8 || next(&state) % 2))
                to[n_to - 1] *= factor;
            else
                to[n_to++] = factor;
            left = factor == left ? 0 : left / factor;
        }
    }
    for (int a = 0; a < 2; a++) {
        int d = (int)(next(&state) % (uint64_t)(n + 1));

        p[a] = d == n ? weft_replicate() : weft_shard(d);
        if (d < n && next(&state) % 4 == 0) p[a] = weft_strided_shard(d, 2);
        if (d < n && next(&state) % 6 == 0) p[a] = weft_shard_balanced(d);
    }
    x = whole(shape, n);
    plain = weft_reshape(x, to, n_to);
    WT_ALL(plain != NULL);
    x = weft_set_requires_grad(weft_distribute_tensor(x, w->mesh, p, -1), true);
    y = weft_reshape(x, to, n_to);
    WT_ALL(wt_near_tensors(y, plain, WT_EXACT));
    loss = weft_sum_all(weft_mul(y, y));
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(x), weft_mul_scalar(weft_detach(x), 2), WT_EXACT));
}

/* An uneven shard of an inner dim with others behind it is held by no placement. */
WT_TEST_IN_IF(guard__refuses_what_has_to_be_sent, w, wt_ranks() == 4, wt_world_open())
{
    weft_tensor *x = wt_spread(w, wt_whole3(WEFT_F32, 0, 3, 5, 4), "S(1)");

    WT_EQ(weft_guard_open(WEFT_GUARD_ERROR), WEFT_OK);
    WT_FAILS(weft_flatten(x, 0, -1) ? WEFT_OK : weft_error_status(), WEFT_ERR_LAYOUT,
             "Implicit redistribution: reshape");
    weft_error_clear();
    WT_ALL(weft_flatten(x, 0, 1) != NULL);
    WT_EQ(weft_guard_close(), WEFT_OK);
    WT_ALL(weft_flatten(x, 0, -1) != NULL);
}

/* VIEW-16, and the strides and offsets of other slices */
WT_TEST_IN_WORLD(offsets__are_of_this_ranks_storage, w)
{
    int64_t numbers[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    weft_tensor *x = weft_from_data(WEFT_I64, (int64_t[]){10}, 1, numbers), *y;

    y = weft_slice(wt_spread(w, x, "R"), 0, 1, 10);
    WT_EQ(weft_local_storage_offset(y), 1);
    y = weft_slice(wt_spread(w, wt_whole(WEFT_F32, 0, 12, 8), "S(0)"), 1, 2, 8);
    WT_ALL(weft_local_numel(y) == 0 || weft_local_storage_offset(y) == 2);
    WT_ALL(wt_has_shape(y, 2, 12, 6));
    y = weft_slice(wt_spread(w, wt_whole(WEFT_F32, 0, 10, 12), "S(1)"), 0, 2, 10);
    WT_ALL(weft_local_numel(y) == 0 ||
           weft_local_storage_offset(y) == 2 * weft_chunk_size(12, wt_ranks(), weft_world_rank()));
    if (wt_ranks() == 6) WT_EQ(weft_local_storage_offset(y), 4);
    WT_ALL(wt_has_shape(y, 2, 8, 12));
    y = weft_slice_step(wt_spread(w, wt_whole(WEFT_F32, 0, 10, 12), "S(1)"), 0, 3, 9, 2);
    WT_ALL(weft_local_numel(y) == 0 ||
           weft_local_storage_offset(y) == 3 * weft_chunk_size(12, wt_ranks(), weft_world_rank()));
    WT_STILL(w);
}

/* VIEW-17: in PyTorch the plain view is redistributed; here it is a strided shard */
WT_TEST_IN_WORLD(view__of_a_last_dim_that_is_sharded, w)
{
    int64_t n = 6 * wt_ranks();
    weft_tensor *x = wt_spread(w, wt_whole3(WEFT_F32, 0, 3, 5, n), "S(2)"), *y, *local;
    const weft_placement second = weft_shard(1);

    weft_ledger_reset(w->ledger);
    local = weft_view(weft_drop_grad_types(weft_to_local(x, NULL)), SHAPE(3, -1, 6));
    y = weft_from_local(local, w->mesh, &second, NULL);
    WT_ALL(wt_has_shape(y, 3, 3, 5 * wt_ranks(), 6));
    WT_ALL(weft_data(y) == weft_data(x));
    y = weft_view(x, SHAPE(3, -1, 6));
    WT_STILL(w);
    if (wt_ranks() > 1) WT_ALL(wt_is_placed(y, "SS(1,5)"));
    WT_ALL(
        wt_near_tensors(y, weft_view(wt_whole3(WEFT_F32, 0, 3, 5, n), SHAPE(3, -1, 6)), WT_EXACT));
}

/* TEN-06, and 4 ranks or not */
WT_TEST_IN_WORLD(transposed__lies_otherwise_until_copied, w)
{
    const weft_placement first = weft_shard(0);
    weft_tensor *local = weft_set_requires_grad(wt_whole3(WEFT_F32, 0, 3, 5, 6), true), *x, *y;
    weft_layout l;

    x = weft_from_local(local, w->mesh, &first, NULL);
    WT_EQ(weft_layout_of(&l, x), WEFT_OK);
    WT_ALL(l.stride[0] == 30 && l.stride[1] == 6 && l.stride[2] == 1);
    WT_ALL(weft_is_contiguous(x));
    y = weft_transpose(x, 0, 2);
    WT_EQ(weft_layout_of(&l, y), WEFT_OK);
    WT_ALL(l.stride[0] == 1 && l.stride[1] == 6 && l.stride[2] == 30);
    WT_ALL(!weft_is_contiguous(y) && !weft_is_contiguous(weft_to_local(y, NULL)));
    WT_ALL(weft_local_stride(y, 0) == 1 && weft_local_stride(y, 2) == 30);
    y = weft_contiguous(y);
    WT_ALL(weft_is_contiguous(y) && weft_local_stride(y, 0) == 5 * 3);
    WT_EQ(weft_backward(weft_sum_all(weft_to_local(y, NULL))), WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(local), 1));
}

/* What is joined must lie as one. */
WT_TEST_IN_WORLD(view__refuses_a_copy, w)
{
    weft_tensor *x = weft_transpose(wt_whole(WEFT_F32, 0, 3, 4), 0, 1), *y;

    WT_FAILS(weft_view(x, SHAPE(12)) ? WEFT_OK : weft_error_status(), WEFT_ERR_SHAPE,
             "view: the elements of f32[4,3] do not lie");
    weft_error_clear();
    WT_ALL(weft_reshape(x, SHAPE(12)) != NULL);
    WT_ALL(weft_view(x, SHAPE(2, 2, 3)) != NULL);
    WT_ALL(weft_view(x, SHAPE(4, 1, 3)) != NULL);
    y = weft_transpose(wt_spread(w, wt_whole(WEFT_F32, 0, 4, 3 * wt_ranks()), "S(1)"), 0, 1);
    WT_FAILS(weft_view(y, SHAPE(-1)) ? WEFT_OK : weft_error_status(), WEFT_ERR_SHAPE, "view: ");
    weft_error_clear();
}

static _Thread_local jmp_buf died;
static void jump(void) { longjmp(died, 1); }

/* Shards of one shape that lie otherwise on rank 0: who cannot see them so ends the job, since the
 * others go on; alone it is an error. Where the strides are given to all, they all get the error.
 */
WT_TEST_IN_WORLD(view__of_strides_that_differ_between_ranks, w)
{
    const weft_placement cut = weft_shard(0);
    bool first = wt_rank() == 0;
    weft_tensor *across = weft_transpose(wt_whole(WEFT_F32, 0, 3, 4), 0, 1);
    weft_tensor *along = weft_contiguous(across);
    weft_tensor *x = weft_from_local(first ? across : along, w->mesh, &cut, NULL), *y = NULL;
    volatile bool dead = false;

    wf_die_set_handler(jump);
    WT_ALL(true);
    if (setjmp(died) == 0)
        y = weft_view(x, SHAPE(-1));
    else
        dead = true;
    WT_ALL(true);
    wf_die_set_handler(NULL);
    WT_ALL(!first           ? y != NULL
           : wt_ranks() > 1 ? dead
                            : !y && wt_failed_with(WEFT_ERR_SHAPE, "this rank's elements"));
    WT_ALL(weft_reshape(x, SHAPE(-1)) != NULL);

    across = weft_transpose(wt_whole(WEFT_F32, 0, 3, 4), 0, 1);
    x = weft_from_local_with(across, w->mesh, &cut,
                             (weft_from_local_options){.shape = (int64_t[]){4 * wt_ranks(), 3},
                                                       .stride = (int64_t[]){1, 4 * wt_ranks()}});
    WT_FAILS(weft_view(x, SHAPE(-1)) ? WEFT_OK : weft_error_status(), WEFT_ERR_SHAPE,
             "view: the elements of");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "views"); }
