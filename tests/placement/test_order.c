/* test_order.c: the order in which axes cut a dim, and the strided shards that say the same. */
#include <string.h>

#include <weft/weft.h>

#include "placement/element_map.h"
#include "support/mpi_check.h"

static void begin(void) { weft_error_clear(); }

static weft_layout layout_of(weft_mesh *mesh, const char *placements, int ndim,
                             const int64_t *shape)
{
    weft_placement p[WEFT_MAX_AXES];
    int count = weft_placements_parse(p, WEFT_MAX_AXES, placements);
    weft_layout l;

    ck_assert_msg(weft_layout_make(&l, mesh, p, count, shape, ndim) == WEFT_OK, "%s",
                  weft_error_message());
    return l;
}

/* ---- text ---- */

/* PLC-34 */
WT_UNIT(order__prints_turns_where_they_are_not_left_to_right)
{
    static const struct {
        const char *given, *brief;
    } cases[] = {{"S(2),S(1),S(0)", "S(2)S(1)S(0)"},
                 {"S(1)[1],S(1)[2],S(1)[0]", "S(1)[1]S(1)[2]S(1)[0]"},
                 {"R,R,R", "RRR"},
                 {"R,R,S(1)", "RRS(1)"},
                 {"S(1)[0],S(1)[1],S(1)[2]", "S(1)S(1)S(1)"},
                 {"S(0)[1],S(1),S(0)[0]", "S(0)[1]S(1)S(0)[0]"}};
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=2,b=2,c=2");
    int64_t shape[3] = {8, 8, 8};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_layout l = layout_of(mesh, cases[i].given, 3, shape);
        weft_placement back[3];
        char text[64];

        weft_placements_brief_format(l.placements, 3, text, sizeof text);
        ck_assert_str_eq(text, cases[i].brief);
        ck_assert_int_eq(weft_placements_parse(back, 3, text), 3);
        ck_assert(memcmp(back, l.placements, sizeof back) == 0);
    }
    weft_mesh_release(mesh);
}

/* PLC-34: the order as a list of axes */
WT_UNIT(order__of_a_dim_is_a_list_of_axes)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=2,b=2,c=2");
    int64_t shape[3] = {8, 8, 8};
    weft_layout l = layout_of(mesh, "S(1),S(1),S(1)", 3, shape);
    weft_shard_order order = {.dim = 1, .n_axes = 3, .axes = {2, 0, 1}}, out[WEFT_MAX_DIMS];
    char text[64];

    ck_assert_int_eq(weft_layout_set_order(&l, &order, 1), WEFT_OK);
    weft_placements_brief_format(l.placements, 3, text, sizeof text);
    ck_assert_str_eq(text, "S(1)[1]S(1)[2]S(1)[0]");
    ck_assert_int_eq(weft_layout_order(&l, out), 1);
    ck_assert(out[0].dim == 1 && out[0].n_axes == 3);
    ck_assert(out[0].axes[0] == 2 && out[0].axes[1] == 0 && out[0].axes[2] == 1);
    weft_mesh_release(mesh);
}

/* ---- setting ---- */

/* PLC-36 */
WT_UNIT(order__that_is_none_is_refused_by_name)
{
    static const struct {
        int count;
        weft_shard_order order[2];
        const char *part;
    } cases[] = {
        {2, {{.dim = 0, .n_axes = 0}, {1, 2, {1, 0}}}, "no mesh axes for dim 0"},
        {2, {{1, 2, {1, 0}}, {0, 1, {2}}}, "not sorted by dim: 1 before 0"},
        {2, {{0, 1, {2}}, {0, 1, {2}}}, "not sorted by dim: 0 before 0"},
        {2, {{0, 1, {1}}, {1, 2, {2, 0}}}, "mesh axis 1 does not shard dim 0"},
        {1, {{1, 2, {1, 0}}}, "mesh axis 2 shards dim 0 and is not named"},
        {2, {{0, 1, {2}}, {1, 1, {1}}}, "mesh axis 0 shards dim 1 and is not named"},
        {2, {{0, 1, {3}}, {1, 2, {1, 0}}}, "mesh axis 3 for dim 0, but the mesh has 3 axes"},
        {2, {{-1, 1, {2}}, {1, 2, {1, 0}}}, "entry 0 is for dim -1, but dims are 0 to 2"},
        {2, {{0, 1, {2}}, {3, 2, {1, 0}}}, "entry 1 is for dim 3, but dims are 0 to 2"},
        {2, {{0, 1, {2}}, {1, 2, {1, 1}}}, "mesh axis 1 stands twice for dim 1"},
        {2, {{0, 1, {2}}, {1, 99, {1, 0}}}, "99 mesh axes for dim 1"},
    };
    weft_mesh *mesh = weft_mesh_new_fake(5, "a=2,b=2,c=2");
    int64_t local[3] = {8, 6, 5};
    weft_placement p[3] = {weft_shard(1), weft_shard(1), weft_shard(0)};
    weft_shard_order good[2] = {{0, 1, {2}}, {1, 2, {1, 0}}};
    weft_layout l, before;

    ck_assert_int_eq(weft_layout_of_even(&l, mesh, p, 3, local, NULL, 3), WEFT_OK);
    ck_assert_int_eq(weft_layout_set_order(&l, good, 2), WEFT_OK);
    ck_assert_int_eq(l.placements[0].order, 1);
    ck_assert_int_eq(l.placements[1].order, 0);
    before = l;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_error_clear();
        ck_assert_int_eq(weft_layout_set_order(&l, cases[i].order, cases[i].count),
                         WEFT_ERR_LAYOUT);
        ck_assert_msg(strstr(weft_error_message(), cases[i].part) != NULL, "%s",
                      weft_error_message());
        ck_assert(weft_layout_equal(&l, &before));
    }
    weft_mesh_release(mesh);
}

/* ---- strided shards ---- */

/* Axes dealt to dims at random, and each dim's cut by them in a random order. */
static void random_order(weft_layout *l, int ndim, uint64_t *state)
{
    for (int d = 0; d < ndim; d++) {
        int axes[WEFT_MAX_AXES], n = 0;

        for (int a = 0; a < l->n_axes; a++)
            if (weft_shards(l->placements[a], d)) axes[n++] = a;
        for (int i = n - 1; i > 0; i--) {
            int j = wt_below(state, i + 1), swap = axes[i];

            axes[i] = axes[j];
            axes[j] = swap;
        }
        for (int i = 0; i < n; i++) l->placements[axes[i]].order = (uint8_t)i;
    }
    ck_assert_int_eq(wf_placements_normalize(l->placements, l->placements, l->n_axes, ndim, "test"),
                     WEFT_OK);
}

static void expect_same_shards(const weft_layout *a, const weft_layout *b, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        struct wt_layout_case one = {.n_axes = a->n_axes, .ndim = a->ndim}, other;
        int left = r;

        for (int i = a->n_axes - 1; i >= 0; i--) {
            one.sizes[i] = weft_mesh_axis_size(a->mesh, i);
            one.coordinates[i] = left % one.sizes[i];
            left /= one.sizes[i];
        }
        memcpy(one.p, a->placements, sizeof one.p);
        memcpy(one.global, a->shape, sizeof one.global);
        other = one;
        memcpy(other.p, b->placements, sizeof other.p);
        for (int d = 0; d < a->ndim; d++) {
            struct wt_map x, y;

            wt_map_of(&x, &one, d);
            wt_map_of(&y, &other, d);
            if (x.count != y.count ||
                memcmp(x.index, y.index, (size_t)x.count * sizeof *x.index) != 0)
                ck_abort_msg("rank %d: %s", r, wt_layout_text(&one));
        }
    }
}

static void round_trips(const char *mesh_text, int ranks, const int64_t *shape, int rounds)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "%s", mesh_text);
    uint64_t state = 32;

    for (int round = 0; round < rounds; round++) {
        weft_placement p[WEFT_MAX_AXES];
        weft_layout l, strided, back;

        for (int a = 0; a < weft_mesh_ndim(mesh); a++) p[a] = weft_shard(wt_below(&state, 3));
        ck_assert_int_eq(weft_layout_make(&l, mesh, p, weft_mesh_ndim(mesh), shape, 3), WEFT_OK);
        random_order(&l, 3, &state);
        back = strided = l;
        ck_assert_int_eq(weft_layout_to_strided(&strided), WEFT_OK);
        for (int a = 0; a < l.n_axes; a++) ck_assert_int_eq(strided.placements[a].order, 0);
        expect_same_shards(&l, &strided, ranks);
        back = strided;
        ck_assert_int_eq(weft_layout_from_strided(&back), WEFT_OK);
        ck_assert_msg(weft_layout_equal(&l, &back), "round %d", round);
    }
    weft_mesh_release(mesh);
}

/* PLC-30 */
WT_UNIT(strided__and_shard_order_are_two_ways_to_write_one_layout)
{
    int64_t cube[3] = {32, 32, 32}, other[3] = {72, 36, 108};

    round_trips("a=2,b=2,c=2,d=2,e=2", 32, cube, 25);
    round_trips("a=3,b=2,c=6", 36, other, 60);
}

/* PLC-31 */
WT_UNIT(strided__shards_that_no_order_gives_are_not_guessed_at)
{
    static const char *const texts[] = {"SS(0,2),SS(1,2)", "SS(0,2),S(1)", "SS(1,16),S(1)",
                                        "SS(1,4),S(1)", "S(1),SS(1,2)"};
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=4,b=8");
    int64_t shape[2] = {64, 64};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weft_layout l = layout_of(mesh, texts[i], 2, shape), before = l;

        weft_error_clear();
        ck_assert_int_eq(weft_layout_from_strided(&l), WEFT_ERR_LAYOUT);
        ck_assert_ptr_nonnull(strstr(weft_error_message(), "is no shard order"));
        ck_assert(weft_layout_equal(&l, &before));
    }
    weft_mesh_release(mesh);
}

/* 17 rows: [S(0)[1],S(0)[0]] over (4,2) is 3,3,3,0 and 2,2,2,2; strided it would be another cut. */
WT_UNIT(strided__forms_of_uneven_dims_are_refused_where_they_differ)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=4,b=2");
    int64_t uneven[2] = {17, 3}, even[2] = {16, 3};
    weft_layout l = layout_of(mesh, "S(0)[1],S(0)[0]", 2, uneven), before = l;

    ck_assert_int_eq(weft_layout_to_strided(&l), WEFT_ERR_LAYOUT);
    ck_assert_ptr_nonnull(strstr(weft_error_message(), "cut unevenly"));
    ck_assert(weft_layout_equal(&l, &before));
    weft_error_clear();
    l = layout_of(mesh, "SS(0,2),S(0)", 2, uneven);
    ck_assert_int_eq(weft_layout_from_strided(&l), WEFT_ERR_LAYOUT);
    weft_error_clear();
    l = layout_of(mesh, "S(0,balanced)[1],S(0)[0]", 2, even);
    ck_assert_int_eq(weft_layout_to_strided(&l), WEFT_ERR_LAYOUT);
    ck_assert_ptr_nonnull(strstr(weft_error_message(), "balanced or in segments"));
    weft_mesh_release(mesh);
}

int main(void) { return wt_unit_main_with("order", begin, begin); }
