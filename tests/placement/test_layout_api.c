/* test_layout_api.c: layouts without tensors: kinds, shards, chunk lists and elements of each rank.
 */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "placement/element_map.h"
#include "support/mpi_check.h"

static void begin(void) { weft_error_clear(); }

/* The layout of a shape on a mesh without ranks; placements as text. */
static weft_layout layout_of(weft_mesh *mesh, const char *placements, int64_t rows, int64_t columns)
{
    weft_placement p[WEFT_MAX_AXES];
    int count = weft_placements_parse(p, WEFT_MAX_AXES, placements);
    int64_t shape[2] = {rows, columns};
    weft_layout l;

    ck_assert_msg(weft_layout_make(&l, mesh, p, count, shape, 2) == WEFT_OK, "%s",
                  weft_error_message());
    return l;
}

/* ---- kinds ---- */

/* PLC-01 */
WT_UNIT(kind__of_each_placement_is_one)
{
    static const struct {
        weft_placement p;
        bool shard, partial, replicate;
    } cases[] = {
        {{.kind = WEFT_KIND_SHARD, .dim = 3}, true, false, false},
        {{.kind = WEFT_KIND_SHARD, .dim = 0, .cut = WEFT_CUT_BALANCED}, true, false, false},
        {{.kind = WEFT_KIND_STRIDED, .dim = 3, .factor = 7}, false, false, false},
        {{.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_SUM}, false, true, false},
        {{.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_MAX}, false, true, false},
        {{.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_NORM, .p = 2}, false, true, false},
        {{.kind = WEFT_KIND_REPLICATE}, false, false, true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_placement copy = cases[i].p;

        ck_assert_int_eq(weft_is_shard(copy), cases[i].shard);
        ck_assert_int_eq(weft_is_partial(copy), cases[i].partial);
        ck_assert_int_eq(weft_is_replicate(copy), cases[i].replicate);
        ck_assert(weft_placement_equal(copy, cases[i].p));
    }
    ck_assert(weft_shards(weft_shard(3), 3) && !weft_shards(weft_shard(3), 2));
    ck_assert(weft_shards(weft_strided_shard(3, 7), 3) && !weft_shards(weft_partial(WEFT_SUM), 0));
}

/* PLC-02 */
WT_UNIT(kind__different_placements_are_not_equal)
{
    int64_t thirds[2] = {2, 1}, halves[2] = {1, 1}, scaled[2] = {4096, 2048};
    weft_placement p[] = {weft_shard(3),
                          weft_shard(4),
                          weft_strided_shard(3, 1),
                          weft_strided_shard(3, 2),
                          weft_strided_shard(4, 9),
                          weft_replicate(),
                          weft_partial(WEFT_SUM),
                          weft_partial(WEFT_MAX),
                          weft_partial(WEFT_MASKED),
                          weft_norm_partial(2),
                          weft_norm_partial(3),
                          weft_shard_balanced(3),
                          weft_in_turn(weft_shard(3), 1),
                          weft_shard_segments(3, thirds, 2),
                          weft_shard_segments(3, halves, 2)};
    int count = (int)(sizeof p / sizeof p[0]);

    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) ck_assert_int_eq(weft_placement_equal(p[i], p[j]), i == j);
    ck_assert(weft_placement_equal(weft_shard_segments(3, scaled, 2), p[13]));
    ck_assert(weft_placement_equal(weft_shard_segments(3, thirds, 1), p[0]));
}

WT_UNIT(kind__of_a_norm_of_no_power_is_another_reduction)
{
    ck_assert(weft_placement_equal(weft_norm_partial(0), weft_partial(WEFT_SUM)));
    ck_assert(weft_placement_equal(weft_norm_partial(1.0 / 0.0), weft_partial(WEFT_MAX)));
    ck_assert(weft_placement_equal(weft_norm_partial(1), weft_partial(WEFT_SUM)));
    ck_assert(weft_placement_equal(weft_norm_partial(-1.0 / 0.0), weft_partial(WEFT_MIN)));
}

/* ---- chunks ---- */

/* PLC-03 */
WT_UNIT(chunk__picked_is_the_item_of_the_split_list)
{
    static const int cases[][2] = {{16, 4}, {17, 4}, {15, 4}, {7, 4}, {3, 4},  {1, 4},
                                   {8, 1},  {8, 8},  {8, 16}, {0, 3}, {31, 7}, {100, 64}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int n = cases[i][0], ways = cases[i][1], full = (n + ways - 1) / ways, at = 0;
        weft_mesh *mesh = weft_mesh_new_fake(0, "tp=%d", ways);

        for (int dim = 0; dim < 2; dim++, at = 0) {
            weft_layout l = layout_of(mesh, dim ? "S(1)" : "S(0)", dim ? 5 : n, dim ? n : 5);

            for (int r = 0; r < ways; r++) { /* the list: full chunks until nothing is left */
                int64_t shape[2], offset[2], size = n - at < full ? n - at : full;

                weft_layout_shard(&l, &r, shape, NULL, offset);
                ck_assert_int_eq(shape[dim], size);
                ck_assert_int_eq(offset[dim], at);
                ck_assert_int_eq(weft_chunk_size(n, ways, r), size);
                ck_assert_int_eq(shape[1 - dim], 5);
                at += (int)size;
            }
        }
        weft_mesh_release(mesh);
    }
}

/* PLC-04 */
WT_UNIT(chunk__padding_fills_up_to_the_first_chunk)
{
    for (int n = 0; n < 8; n++)
        for (int r = 0; r < 8; r++) {
            int64_t padding = weft_chunk_padding(n, 8, r), size = weft_chunk_size(n, 8, r);

            ck_assert_int_eq(padding, n > 0 && r >= n);
            ck_assert_int_eq(size == 0, r >= n);
            ck_assert_int_eq(size + padding, n > 0);
        }
    for (int r = 0; r < 5; r++) /* 11 over 5: 3, 3, 3, 2, 0 */
        ck_assert_int_eq(weft_chunk_padding(11, 5, r), r < 3 ? 0 : r == 3 ? 1 : 3);
}

WT_UNIT(chunk__balanced_sizes_differ_by_one)
{
    static const int64_t want[][5] = {{3, 2, 2, 2, 2}, {1, 1, 1, 0, 0}, {2, 2, 2, 2, 2}};
    static const int64_t sizes[] = {11, 3, 10};

    for (int i = 0; i < 3; i++)
        for (int64_t r = 0, at = 0; r < 5; at += want[i][r++]) {
            ck_assert_int_eq(weft_balanced_size(sizes[i], 5, (int)r), want[i][r]);
            ck_assert_int_eq(weft_balanced_offset(sizes[i], 5, (int)r), at);
        }
}

/* ---- parts ---- */

static void expect_rows(const weft_layout *l, int a, int b, int c, int64_t size, int64_t offset)
{
    int coordinates[3] = {a, b, c};
    int64_t shape[2], first[2];

    weft_layout_shard(l, coordinates, shape, NULL, first);
    ck_assert_int_eq(shape[0], size);
    ck_assert_int_eq(first[0], offset);
    ck_assert_int_eq(shape[1], l->shape[1]);
    ck_assert_int_eq(first[1], 0);
}

/* PLC-07, PLC-10, PLC-17, PLC-19 */
WT_UNIT(layout__of_a_strided_shard_and_a_shard)
{
    weft_mesh *wide = weft_mesh_new_fake(0, "dp=30,tp=8"),
              *mesh = weft_mesh_new_fake(0, "dp=4,tp=2"),
              *deep = weft_mesh_new_fake(0, "rep=2,shard=2,tp=2"),
              *odd = weft_mesh_new_fake(0, "dp=2,tp=3");
    weft_layout l = layout_of(wide, "SS(0,8),S(0)", 4096, 4096);

    for (int dp = 0; dp < 30; dp++)
        for (int tp = 0; tp < 8; tp++)
            expect_rows(&l, dp, tp, 0,
                        dp < 28    ? 18
                        : dp == 28 ? 8
                                   : 0,
                        dp < 29 ? tp * 512 + 18 * dp : 4096);
    l = layout_of(mesh, "SS(0,2),S(0)", 18, 2);
    for (int dp = 0; dp < 4; dp++)
        for (int tp = 0; tp < 2; tp++)
            expect_rows(&l, dp, tp, 0, dp < 3 ? 3 : 0, dp < 3 ? 9 * tp + 3 * dp : 18);
    l = layout_of(mesh, "SS(0,2),S(0)", 16, 2);
    for (int dp = 0; dp < 4; dp++)
        for (int tp = 0; tp < 2; tp++) expect_rows(&l, dp, tp, 0, 2, 2 * (tp * 4 + dp));
    l = layout_of(deep, "R,SS(0,2),S(0)", 8, 2);
    for (int r = 0; r < 8; r++)
        expect_rows(&l, r / 4, r / 2 % 2, r % 2, 2, 2 * (r % 2 * 2 + r / 2 % 2));
    l = layout_of(odd, "SS(0,3),S(0)", 12, 1); /* another size: pieces of 4, halves of 2 */
    for (int r = 0; r < 6; r++) expect_rows(&l, r / 3, r % 3, 0, 2, 4 * (r % 3) + 2 * (r / 3));
    WT_RELEASE(weft_mesh_release, wide, mesh, deep, odd);
}

/* PLC-12 */
WT_UNIT(layout__of_a_shard_and_a_strided_shard)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "dp=4,tp=2");
    weft_layout l = layout_of(mesh, "S(0),SS(0,2)", 18, 2);
    static const int64_t rows[2][3] = {{0, 1, 3}, {2, 4, -1}};

    for (int dp = 0; dp < 3; dp++) {
        expect_rows(&l, dp, 0, 0, 3, 5 * dp);
        expect_rows(&l, dp, 1, 0, 2, 5 * dp + 2);
        for (int tp = 0; tp < 2; tp++)
            for (int i = 0; rows[tp][i] >= 0 && i < 3; i++) {
                int64_t index[2] = {5 * dp + rows[tp][i], 1}, local[2];
                int at[2];

                ck_assert_int_eq(weft_layout_find(&l, index, at, local), WEFT_OK);
                ck_assert(at[0] == dp && at[1] == tp && local[0] == i && local[1] == 1);
                if (i == 2) break;
            }
    }
    expect_rows(&l, 3, 0, 0, 2, 15);
    expect_rows(&l, 3, 1, 0, 1, 16);
    weft_mesh_release(mesh);
}

/* PLC-14, PLC-15 */
WT_UNIT(layout__of_three_axes_on_a_dim_and_of_two_dims)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=2,b=2,c=2"),
              *four = weft_mesh_new_fake(0, "a=1,b=2,c=2,d=2");
    weft_layout l = layout_of(mesh, "SS(0,2),S(0),S(0)", 16, 16),
                m = layout_of(four, "SS(0,2),SS(1,2),S(0),S(1)", 16, 16);

    for (int r = 0; r < 8; r++) {
        int at[4] = {0, r / 4, r / 2 % 2, r % 2};
        int64_t shape[2], offset[2];

        expect_rows(&l, r / 4, r / 2 % 2, r % 2, 2, 4 * (r / 4) + 8 * (r / 2 % 2) + 2 * (r % 2));
        weft_layout_shard(&m, at, shape, NULL, offset);
        ck_assert(shape[0] == 8 && shape[1] == 4);
        ck_assert_int_eq(offset[0], 8 * at[2] + 4 * at[0]);
        ck_assert_int_eq(offset[1], 8 * at[3] + 4 * at[1]);
    }
    WT_RELEASE(weft_mesh_release, mesh, four);
}

/* ---- sizes of the whole from those of a part ---- */

/* PLC-23 */
WT_UNIT(even__the_whole_has_the_sharded_dims_times_the_axes)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=2,b=3,c=4");
    int64_t local[3] = {2, 3, 1}, transposed[3] = {1, 2, 6};
    weft_placement sharded[3] = {weft_shard(0), weft_shard(1), weft_shard(2)},
                   whole[3] = {weft_replicate(), weft_partial(WEFT_SUM), weft_replicate()};
    weft_layout l;

    ck_assert_int_eq(weft_layout_of_even(&l, mesh, sharded, 3, local, NULL, 3), WEFT_OK);
    ck_assert(l.shape[0] == 4 && l.shape[1] == 9 && l.shape[2] == 4);
    ck_assert(l.stride[0] == 36 && l.stride[1] == 4 && l.stride[2] == 1);
    ck_assert_int_eq(weft_layout_of_even(&l, mesh, sharded, 3, local, transposed, 3), WEFT_OK);
    ck_assert(l.stride[0] == 1 && l.stride[1] == 4 && l.stride[2] == 36);
    ck_assert_int_eq(weft_layout_of_even(&l, mesh, whole, 3, local, transposed, 3), WEFT_OK);
    ck_assert(memcmp(l.shape, local, sizeof local) == 0);
    ck_assert(memcmp(l.stride, transposed, sizeof transposed) == 0);
    sharded[1] = (weft_placement){.kind = 17};
    ck_assert_int_eq(weft_layout_of_even(&l, mesh, sharded, 3, local, NULL, 3), WEFT_ERR_ARG);
    ck_assert_ptr_nonnull(strstr(weft_error_message(), "unknown placement kind 17"));
    weft_mesh_release(mesh);
}

/* PLC-24, as numbers; test_global_shape.c has it as tensors */
WT_UNIT(even__the_shard_of_the_whole_is_the_shard)
{
    weft_mesh *mesh = weft_mesh_new_fake(77, "a=8,b=8,c=4");
    int64_t local[3] = {4, 4, 4}, shape[3], stride[3];

    for (int pick = 0; pick < 64; pick++) {
        weft_placement p[3];
        int64_t want[3] = {4, 4, 4};
        weft_layout l;

        for (int a = 0, left = pick; a < 3; a++, left /= 4) {
            p[a] = left % 4 == 3 ? weft_replicate() : weft_shard(left % 4);
            if (left % 4 < 3) want[left % 4] *= weft_mesh_axis_size(mesh, a);
        }
        ck_assert_int_eq(weft_layout_of_even(&l, mesh, p, 3, local, NULL, 3), WEFT_OK);
        ck_assert(memcmp(l.shape, want, sizeof want) == 0);
        weft_layout_shard(&l, NULL, shape, stride, NULL);
        ck_assert(memcmp(shape, local, sizeof local) == 0);
        ck_assert(stride[0] == 16 && stride[1] == 4 && stride[2] == 1);
    }
    weft_mesh_release(mesh);
}

/* ---- chunk lists ---- */

/* Every element of the tensor is in as many chunks as ranks hold it, and where find says. */
WT_UNIT_TIMES(chunks__are_the_elements_in_the_order_in_which_they_are_held, 3)
{
    uint64_t state = 20261121u + (unsigned)_i;

    for (int round = 0; round < 1500; round++) {
        struct wt_layout_case c;
        weft_layout l;
        weft_chunk chunks[512];
        weft_mesh *mesh;
        int64_t count, seen = 0, numel = 1, shape[WEFT_MAX_DIMS];
        struct wt_map maps[3];
        int at = 0;
        char text[64] = "";

        wt_random_layout(&c, &state);
        for (int a = 0; a < c.n_axes; a++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%sa%d=%d", a ? "," : "", a,
                           c.sizes[a]);
        mesh = weft_mesh_new_fake(0, "%s", text);
        ck_assert_int_eq(weft_layout_make(&l, mesh, c.p, c.n_axes, c.global, c.ndim), WEFT_OK);
        weft_layout_shard(&l, c.coordinates, shape, NULL, NULL);
        for (int d = 0; d < c.ndim; d++) {
            wt_map_of(&maps[d], &c, d);
            numel *= shape[d];
        }
        count = weft_layout_chunks(&l, c.coordinates, chunks, 512);
        ck_assert_int_eq(count == 0, numel == 0);
        for (int64_t i = 0; i < count && i < 512; i++) {
            int64_t size = 1, index[3], local[3];
            int held_at[WEFT_MAX_AXES];

            for (int d = 0; d < c.ndim; d++) {
                size *= chunks[i].size[d];
                index[d] = chunks[i].offset[d] + chunks[i].size[d] - 1;
            }
            ck_assert_int_eq(weft_layout_find(&l, index, held_at, local), WEFT_OK);
            for (int d = 0; d < c.ndim; d++)
                if (maps[d].index[local[d]] != index[d]) ck_abort_msg("%s", wt_layout_text(&c));
            seen += size;
        }
        if (count <= 512) ck_assert_int_eq(seen, numel);
        weft_mesh_release(mesh);
    }
}

WT_UNIT(chunks__of_a_fused_weight_are_one_per_segment)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "tp=4");
    weft_layout l = layout_of(mesh, "S(0|4,1,1)", 48, 5);
    int rank = 2;
    weft_chunk chunks[3];

    ck_assert_int_eq(weft_layout_chunks(&l, &rank, chunks, 3), 3);
    ck_assert(chunks[0].offset[0] == 16 && chunks[0].size[0] == 8); /* of 32 */
    ck_assert(chunks[1].offset[0] == 36 && chunks[1].size[0] == 2); /* of 8, behind 32 */
    ck_assert(chunks[2].offset[0] == 44 && chunks[2].size[0] == 2);
    ck_assert(chunks[2].offset[1] == 0 && chunks[2].size[1] == 5);
    ck_assert_int_eq(weft_layout_chunks(&l, &rank, NULL, 0), 3);
    weft_mesh_release(mesh);
}

WT_UNIT(chunks__outside_the_mesh_are_none)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "tp=2");
    int outside = -1, inside = 1;
    weft_layout scalar;
    weft_chunk chunk;
    weft_placement r = weft_replicate();

    ck_assert_int_eq(weft_layout_make(&scalar, mesh, &r, 1, NULL, 0), WEFT_OK);
    ck_assert_int_eq(weft_layout_chunks(&scalar, &inside, &chunk, 1), 1);
    ck_assert_int_eq(weft_layout_chunks(&scalar, &outside, &chunk, 1), 0);
    weft_mesh_release(mesh);
}

WT_UNIT(find__refuses_an_element_outside_the_shape)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "tp=2");
    weft_layout l = layout_of(mesh, "S(1)", 3, 4);
    int64_t index[2] = {1, 4}, local[2];
    int at[1];

    ck_assert_int_eq(weft_layout_find(&l, index, at, local), WEFT_ERR_ARG);
    ck_assert_ptr_nonnull(strstr(weft_error_message(), "index 4 of dim 1"));
    weft_mesh_release(mesh);
}

/* ---- comparing ---- */

/* PLC-37 */
WT_UNIT(layout__equality_and_hash_are_of_all_it_says)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=2,b=2"), *other = weft_mesh_new_fake(0, "a=4,b=1");
    weft_layout l = layout_of(mesh, "S(0),S(0)", 8, 6), same = layout_of(mesh, "S(-2),S(0)", 8, 6);
    weft_shard_order turned = {.dim = 0, .n_axes = 2, .axes = {1, 0}};
    weft_layout unlike[] = {layout_of(mesh, "S(0),S(0)", 8, 7),
                            layout_of(mesh, "S(0),S(1)", 8, 6),
                            layout_of(mesh, "SS(0,2),S(0)", 8, 6),
                            layout_of(other, "S(0),S(0)", 8, 6),
                            layout_of(mesh, "S(0|1,1),S(0)", 8, 6),
                            layout_of(mesh, "S(0,balanced),S(0)", 8, 6),
                            same};

    ck_assert(weft_layout_equal(&l, &same));
    ck_assert(weft_layout_hash(&l) == weft_layout_hash(&same));
    ck_assert_int_eq(weft_layout_set_order(&unlike[6], &turned, 1), WEFT_OK);
    for (size_t i = 0; i < sizeof unlike / sizeof unlike[0]; i++) {
        ck_assert(!weft_layout_equal(&l, &unlike[i]));
        ck_assert(weft_layout_hash(&l) != weft_layout_hash(&unlike[i]));
    }
    turned.axes[0] = 0;
    turned.axes[1] = 1;
    ck_assert_int_eq(weft_layout_set_order(&unlike[6], &turned, 1), WEFT_OK);
    ck_assert(weft_layout_equal(&l, &unlike[6]));
    WT_RELEASE(weft_mesh_release, mesh, other);
}

WT_UNIT(layout__prints_as_tensors_do)
{
    weft_mesh *mesh = weft_mesh_new_fake(0, "dp=2,tp=4");
    weft_layout l = layout_of(mesh, "S(0)[1],S(0)[0]", 8, 16);
    char text[80];

    weft_layout_format(&l, text, sizeof text);
    ck_assert_str_eq(text, "[8,16] [S(0)[1],S(0)[0]] on (dp:2, tp:4)");
    weft_mesh_release(mesh);
}

WT_UNIT(layout__refuses_what_does_not_fit)
{
    static const struct {
        const char *placements, *part;
        weft_status status;
    } cases[] = {
        {"S(0)", "expected one placement per mesh axis", WEFT_ERR_LAYOUT},
        {"S(0),R,R", "expected one placement per mesh axis", WEFT_ERR_LAYOUT},
        {"S(2),R", "S(2) on mesh axis 0, but the tensor has 2 dims", WEFT_ERR_LAYOUT},
        {"R,SS(-3,2)", "SS(-3,2) on mesh axis 1, but the tensor has 2 dims", WEFT_ERR_LAYOUT},
        {"S(0|2,1,1),R", "no multiple of 4", WEFT_ERR_LAYOUT},
        {"S(0),S(0|1,1)", "no longer whole", WEFT_ERR_LAYOUT},
        {"S(0|1,1),S(0|2,1)", "no longer whole", WEFT_ERR_LAYOUT},
        {"S(0)[1],S(0)[1]", "both take turn 1", WEFT_ERR_LAYOUT},
        {"S(0)[1],S(1)", "turn 1 on mesh axis 0, but 1 axes shard dim 0", WEFT_ERR_LAYOUT},
        {"S(0)[1],SS(0,2)", "a strided shard", WEFT_ERR_LAYOUT},
        {"P,P(max)", "mixed partial reductions are not supported", WEFT_ERR_LAYOUT},
        {"P(norm 2),P(norm 3)", "mixed partial reductions are not supported", WEFT_ERR_LAYOUT},
    };
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=2,b=2");
    int64_t shape[2] = {6, 8};
    weft_layout l;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_placement p[4];
        int count = weft_placements_parse(p, 4, cases[i].placements);

        weft_error_clear();
        ck_assert_int_eq(weft_layout_make(&l, mesh, p, count, shape, 2), cases[i].status);
        ck_assert_msg(strstr(weft_error_message(), cases[i].part) != NULL, "%s: %s",
                      cases[i].placements, weft_error_message());
    }
    weft_mesh_release(mesh);
}

/* An empty tensor has no elements, and its strides still have to be counted. trial 3 */
WT_UNIT(layout__of_more_elements_than_can_be_counted_is_refused)
{
    static const int64_t huge = INT64_C(1) << 62;
    weft_mesh *mesh = weft_mesh_new_fake(0, "a=2");
    const weft_placement p = weft_shard(0);
    weft_layout layout;

    ck_assert_int_eq(weft_layout_make(&layout, mesh, &p, 1, (int64_t[]){huge, huge, 0}, 3),
                     WEFT_ERR_SHAPE);
    weft_error_clear();
    ck_assert_int_eq(weft_layout_make(&layout, mesh, &p, 1, (int64_t[]){huge, 0}, 2),
                     WEFT_ERR_SHAPE);
    weft_error_clear();
    ck_assert_int_eq(weft_layout_make(&layout, mesh, &p, 1, (int64_t[]){1 << 30, 0}, 2), WEFT_OK);
    weft_mesh_release(mesh);
}

int main(void) { return wt_unit_main_with("layout_api", begin, begin); }
