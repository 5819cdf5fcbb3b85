/*
 * test_local_elements.c: what ranks hold of real tensors, for every kind of shard; and back to the
 * whole. Meshes may be smaller than the world: the ranks outside hold nothing.
 */
/* ranks: 8 */
/* mpi: 8 */
#include "support/worlds.h"

enum { ROOM = 4096 };

/* Element i of the whole is i. */
static weft_tensor *numbered(const int64_t *shape, int ndim)
{
    weft_tensor *t = weft_empty(WEFT_F64, shape, ndim);
    double *data = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) data[i] = (double)i;
    return t;
}

static const double *numbers(void)
{
    static _Thread_local double values[ROOM];

    for (int i = 0; i < ROOM; i++) values[i] = i;
    return values;
}

/* On ranks of the mesh: the part is the elements that the layout says, and the whole comes back. */
static bool holds_its_shard(weft_tensor *t) { return t && wt_near_local(t, numbers(), WT_EXACT); }

static bool comes_back(weft_tensor *t)
{
    weft_tensor *full = weft_full_tensor(t);

    if (!full) return false;
    return !weft_mesh_is_member(weft_tensor_mesh(t)) || wt_near_local(full, numbers(), WT_EXACT);
}

static weft_tensor *spread_of(struct wt_world *w, const char *placements, int ndim,
                              const int64_t *shape)
{
    weft_tensor *t = wt_spread(w, numbered(shape, ndim), placements);

    WT_ALL(holds_its_shard(t));
    WT_ALL(comes_back(t));
    return t;
}

static weft_tensor *spread(struct wt_world *w, const char *placements, int64_t rows,
                           int64_t columns)
{
    return spread_of(w, placements, 2, (int64_t[]){rows, columns});
}

static bool has_shard(const weft_tensor *t, int64_t rows, int64_t columns, int64_t row,
                      int64_t column)
{
    return weft_local_size(t, 0) == rows && weft_local_size(t, 1) == columns &&
           weft_local_offset(t, 0) == row && weft_local_offset(t, 1) == column;
}

/* This rank's elements are these, `n` per rank of the mesh in a table. */
static bool holds(const weft_tensor *t, const double *table, int n)
{
    double got[16];

    if (!weft_mesh_is_member(weft_tensor_mesh(t))) return weft_local_numel(t) == 0;
    if (weft_local_numel(t) != n || weft_read_f64(t, got, 16) != WEFT_OK) return false;
    for (int i = 0; i < n; i++)
        if (got[i] != table[wt_rank() * n + i]) return false;
    return true;
}

static int at(const struct wt_world *w, int axis) { return weft_mesh_coordinate(w->mesh, axis); }

/* ---- plain shards ---- */

/* PLC-05 */
WT_TEST_IN_WORLD(local_elements__is_the_slice_of_the_whole_for_all_sizes, w)
{
    for (int64_t n = 0; n <= 17; n++) {
        weft_tensor *s = spread_of(w, "S(0)", 1, &n), *r = spread_of(w, "R", 1, &n);

        WT_EQ(weft_local_size(s, 0), weft_chunk_size(n, 8, wt_rank()));
        WT_EQ(weft_local_offset(s, 0), weft_chunk_offset(n, 8, wt_rank()));
        WT_EQ(weft_local_size(r, 0), n);
        WT_EQ(weft_local_offset(r, 0), 0);
    }
}

/* PLC-06 */
WT_TEST_IN(local_elements__is_the_slice_of_the_whole_for_pairs_of_placements, w,
           wt_world_open_mesh("a=2,b=4"))
{
    static const char *const pairs[] = {"S(0),S(0)", "S(0),S(1)", "S(0),R",
                                        "S(1),S(1)", "S(1),R",    "R,R"};

    for (int i = 0; i < 6; i++)
        for (int64_t rows = 1; rows <= 9; rows += rows == 5 ? 2 : 1)
            spread(w, pairs[i], rows, 64 / rows);
}

/* PLC-38 */
WT_TEST_TIMES_IN(local_elements__parts_are_disjoint_and_complete, w, k, 2,
                 wt_world_open_mesh("a=3,b=2"))
{
    static const char *const texts[] = {"S(0),S(1)", "S(1),S(0)", "S(0),S(0)", "S(1),S(1)"};
    static const int rows[] = {2, 1, 2, 1, 1, 0};
    int64_t height = 7 + k;
    weft_placement sums[] = {weft_partial(WEFT_SUM), weft_partial(WEFT_SUM)};

    for (int i = 0; i < 4; i++) {
        weft_tensor *t = spread(w, texts[i], height, 5);
        double numel = (double)weft_local_numel(t);
        weft_tensor *total = weft_full_tensor(
            weft_from_local(weft_from_data(WEFT_F64, NULL, 0, &numel), w->mesh, sums, NULL));

        WT_ALL(!weft_mesh_is_member(w->mesh) || weft_item(total) == 5 * (double)height);
        if (i == 2 && height == 7)
            WT_ALL(weft_local_size(t, 0) == (wt_rank() < 6 ? rows[wt_rank()] : 0));
    }
}

/* ---- strided shards ---- */

/* PLC-14, PLC-15, PLC-17, PLC-19 */
WT_TEST(local_elements__of_strided_shards_has_the_size_and_offset_of_its_layout)
{
    struct wt_world w = wt_world_open_mesh("a=2,b=2,c=2");
    weft_tensor *t = spread(&w, "SS(0,2),S(0),S(0)", 16, 16);

    WT_ALL(has_shard(t, 2, 16, 4 * at(&w, 0) + 8 * at(&w, 1) + 2 * at(&w, 2), 0));
    t = spread(&w, "R,SS(0,2),S(0)", 8, 2);
    WT_ALL(has_shard(t, 2, 2, 2 * (at(&w, 2) * 2 + at(&w, 1)), 0));
    t = spread(&w, "SS(0,2),S(0),S(0)", 17, 3); /* pieces of 9 and 8 */
    t = spread(&w, "S(1),SS(0,3),S(0)", 13, 5);
    wt_world_close(&w);
    w = wt_world_open_mesh("a=1,b=2,c=2,d=2");
    t = spread(&w, "SS(0,2),SS(1,2),S(0),S(1)", 16, 16);
    WT_ALL(has_shard(t, 8, 4, 8 * at(&w, 2) + 4 * at(&w, 0), 8 * at(&w, 3) + 4 * at(&w, 1)));
    wt_world_close(&w);
    w = wt_world_open_mesh("dp=4,tp=2");
    t = spread(&w, "SS(0,2),S(0)", 16, 2);
    WT_ALL(has_shard(t, 2, 2, 2 * (at(&w, 1) * 4 + at(&w, 0)), 0));
    t = spread(&w, "SS(0,2),S(0)", 18, 2); /* PLC-10 as a tensor */
    WT_ALL(has_shard(t, at(&w, 0) < 3 ? 3 : 0, 2,
                     at(&w, 0) < 3 ? 9 * at(&w, 1) + 3 * at(&w, 0) : 18, 0));
    wt_world_close(&w);
}

/* PLC-25 */
WT_TEST(local_elements__strided_elements_of_one_axis)
{
    static const double together[] = {0, 1, 2, 3, 4, 5, 6, 7}, apart[] = {0, 4, 1, 5, 2, 6, 3, 7},
                        thirds[] = {0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11};
    struct wt_world w = wt_world_open_mesh("tp=4");
    int64_t n = 8;

    WT_ALL(holds(spread_of(&w, "SS(0,1)", 1, &n), together, 2));
    WT_ALL(holds(spread_of(&w, "S(0)", 1, &n), together, 2));
    WT_ALL(holds(spread_of(&w, "SS(0,2)", 1, &n), apart, 2));
    wt_world_close(&w);
    w = wt_world_open_mesh("tp=2");
    n = 12;
    WT_ALL(holds(spread_of(&w, "SS(0,3)", 1, &n), thirds, 6));
    n = 9; /* in pieces of 5 and 4 */
    WT_EQ(weft_local_size(spread_of(&w, "SS(0,2)", 1, &n), 0), wt_rank() == 0   ? 5
                                                               : wt_rank() == 1 ? 4
                                                                                : 0);
    wt_world_close(&w);
}

/* PLC-26, PLC-27 */
WT_TEST_IN(local_elements__strided_elements_of_two_axes, w, wt_world_open_mesh("a=2,b=2"))
{
    static const double plain[] = {0, 1, 2, 3, 4, 5, 6, 7}, strided[] = {0, 1, 4, 5, 2, 3, 6, 7},
                        columns[] = {0, 4, 2, 6, 1, 5, 3, 7};
    static const double outer[] = {0, 1, 4, 5, 0, 1, 4, 5, 2, 3, 6, 7, 2, 3, 6, 7},
                        outer_columns[] = {0, 2, 4, 6, 0, 2, 4, 6, 1, 3, 5, 7, 1, 3, 5, 7};
    int64_t n = 8;
    weft_tensor *t;

    WT_ALL(holds(spread_of(w, "S(0),S(0)", 1, &n), plain, 2));
    t = spread_of(w, "SS(0,2),S(0)", 1, &n);
    WT_ALL(holds(t, strided, 2));
    t = wt_to(t, "SS(0,2),R");
    WT_ALL(wt_is_placed(t, "SS(0,2),R") && holds(t, outer, 4));
    WT_ALL(comes_back(t));
    t = spread(w, "SS(1,2),S(1)", 2, 4);
    WT_ALL(holds(t, columns, 2));
    t = wt_to(t, "SS(1,2),R");
    WT_ALL(holds(t, outer_columns, 4) && comes_back(t));
    for (n = 5; n <= 7; n++) { /* uneven ones, by the element map */
        t = wt_to(spread_of(w, "SS(0,2),S(0)", 1, &n), "SS(0,2),R");
        WT_ALL(holds_its_shard(t) && comes_back(t));
    }
}

/* ---- orders, segments, balanced cuts ---- */

/* PLC-30 as tensors: an order and its strided form put the same elements on every rank. */
WT_TEST_TIMES_IN(local_elements__by_shard_order_is_as_strided, w, i, 4,
                 wt_world_open_mesh("a=2,b=2,c=2"))
{
    static const char *const pairs[][2] = {
        {"S(0)[1],S(0)[0],R", "SS(0,2),S(0),R"},
        {"S(0)[2],S(0)[1],S(0)[0]", "SS(0,4),SS(0,2),S(0)"},
        {"S(0)[1],S(0)[2],S(0)[0]", "SS(0,2),SS(0,2),S(0)"},
        {"S(1)[1],S(0),S(1)[0]", "SS(1,2),S(0),S(1)"},
    };
    weft_tensor *a = spread(w, pairs[i][0], 16, 8), *b = spread(w, pairs[i][1], 16, 8);
    weft_layout by_order, strided;
    double x[64], y[64];

    WT_ALL(weft_layout_of(&by_order, a) == WEFT_OK && weft_layout_of(&strided, b) == WEFT_OK);
    WT_ALL(weft_layout_to_strided(&by_order) == WEFT_OK);
    WT_ALL(weft_layout_equal(&by_order, &strided));
    WT_ALL(weft_read_f64(a, x, 64) == WEFT_OK && weft_read_f64(b, y, 64) == WEFT_OK);
    WT_ALL(wt_near(x, y, weft_local_numel(a), WT_EXACT));
    spread(w, pairs[i][0], 13, 7);
}

WT_TEST_IN(local_elements__in_segments_and_balanced_comes_back, w, wt_world_open_mesh("a=2,b=4"))
{
    static const char *const texts[] = {"S(0|4,1,1),R",
                                        "R,S(0|4,1,1)",
                                        "S(0|4,1,1),S(0|4,1,1)",
                                        "S(0|4,1,1)[1],S(0|4,1,1)[0]",
                                        "S(0)[1],S(0|2,1)[0]",
                                        "S(0,balanced),S(1,balanced)",
                                        "S(0,balanced|1,1),S(0,balanced)"};
    weft_tensor *t;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (int64_t rows = 6; rows <= 30; rows += 12) spread(w, texts[i], rows, 7);
    t = spread(w, "S(0,balanced),S(1,balanced)", 7, 6);
    WT_ALL(weft_local_size(t, 0) == (at(w, 0) ? 3 : 4));
    WT_ALL(weft_local_size(t, 1) == (at(w, 1) < 2 ? 2 : 1));
}

/* PLC-32 */
WT_TEST_TIMES_IN(local_elements__after_a_shard_on_the_inner_axis_and_then_one_on_the_outer, w, i, 2,
                 wt_world_open_mesh("dp=2,tp=2"))
{
    int64_t rows = 4 + 3 * i;
    weft_mesh *tp = weft_mesh_sub(w->mesh, "tp");
    weft_placement shard = weft_shard(0), both[] = {weft_replicate(), weft_shard(0)};
    bool member = weft_mesh_is_member(w->mesh);
    weft_tensor *part, *t;
    int64_t nested;

    part = weft_distribute_tensor(numbered((int64_t[]){rows, 2}, 2), tp, &shard, 0);
    WT_ALL(!member || wt_moved(w, WEFT_COLL_SCATTER) == 1);
    t = weft_from_local(weft_to_local(part, NULL), w->mesh, both, (int64_t[]){rows, 2});
    t = wt_to(t, "S(0),S(0)");
    WT_ALL(!member || wt_moved(w, WEFT_COLL_COUNT) == 1); /* 2 in all */
    WT_ALL(holds_its_shard(t));
    nested = weft_chunk_size(rows, 2, 0);
    WT_ALL(!member || weft_local_offset(t, 0) ==
                          at(w, 0) * nested +
                              weft_chunk_offset(weft_chunk_size(rows, 2, at(w, 0)), 2, at(w, 1)));
    WT_ALL(rows != 4 || !member || has_shard(t, 1, 2, wt_rank(), 0));
    WT_ALL(comes_back(t));
    weft_mesh_release(tp);
}

/* The same error on every rank, before anything is sent. */
WT_TEST_IN(local_elements__refuses_placements_that_do_not_fit, w, wt_world_open_mesh("a=2,b=4"))
{
    static const struct {
        const char *placements, *part;
    } cases[] = {{"S(0|4,1,1),R", "no multiple of 6"},
                 {"S(0)[1],R", "turn 1 on mesh axis 0"},
                 {"S(0)[1],S(0)[1]", "both take turn 1"},
                 {"S(0),S(0|2,5)", "no longer whole"},
                 {"S(0)[1],SS(0,2)", "strided shard"},
                 {"SS(2,2),R", "SS(2,2) on mesh axis 0, but the tensor has 2 dims"}};
    weft_tensor *x = numbered((int64_t[]){7, 5}, 2), *t = wt_spread(w, x, "S(0),S(1)");

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_placement p[2];

        WT_ALL(weft_placements_parse(p, 2, cases[i].placements) == 2);
        WT_ALL(weft_redistribute(t, p) == NULL);
        WT_FAILED(WEFT_ERR_LAYOUT, cases[i].part);
        WT_ALL(weft_distribute_tensor(x, w->mesh, p, 0) == NULL);
        WT_FAILED(WEFT_ERR_LAYOUT, cases[i].part);
        WT_ALL(weft_from_local(x, w->mesh, p, (int64_t[]){7, 5}) == NULL);
        WT_FAILED(WEFT_ERR_LAYOUT, cases[i].part);
    }
    WT_STILL(w);
    WT_ALL(holds_its_shard(t));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "local_elements"); }
