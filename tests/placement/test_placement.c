/* test_placement.c: the chunk rule, boxes, and placements as text. */
#include <string.h>

#include "placement/layout.h"
#include "support/mpi_check.h"

static void begin(void) { weft_error_clear(); }

/* ---- chunks ---- */

WT_UNIT(chunk__sizes_are_those_of_the_rule)
{
    static const struct {
        int64_t n;
        int ways;
        int64_t sizes[8];
    } cases[] = {
        {12, 4, {3, 3, 3, 3}},
        {13, 4, {4, 4, 4, 1}},
        {14, 4, {4, 4, 4, 2}},
        {5, 4, {2, 2, 1, 0}},
        {10, 4, {3, 3, 3, 1}},
        {15, 4, {4, 4, 4, 3}},
        {11, 8, {2, 2, 2, 2, 2, 1, 0, 0}},
        {9, 8, {2, 2, 2, 2, 1, 0, 0, 0}},
        {8, 6, {2, 2, 2, 2, 0, 0}},
        {7, 6, {2, 2, 2, 1, 0, 0}},
        {31, 4, {8, 8, 8, 7}},
        {32, 3, {11, 11, 10}},
        {0, 3, {0, 0, 0}},
        {1, 1, {1}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t at = 0;

        for (int r = 0; r < cases[i].ways; r++) {
            ck_assert_int_eq(weft_chunk_size(cases[i].n, cases[i].ways, r), cases[i].sizes[r]);
            ck_assert_int_eq(weft_chunk_offset(cases[i].n, cases[i].ways, r), at);
            at += cases[i].sizes[r];
        }
        ck_assert_int_eq(at, cases[i].n);
    }
}

WT_UNIT(chunk__sizes_beyond_32_bits_are_exact)
{
    int64_t n = ((int64_t)1 << 40) + 1;

    ck_assert_int_eq(weft_chunk_size(n, 2, 0), ((int64_t)1 << 39) + 1);
    ck_assert_int_eq(weft_chunk_offset(n, 2, 1), ((int64_t)1 << 39) + 1);
    ck_assert_int_eq(weft_chunk_size(n, 2, 1), (int64_t)1 << 39);
}

/* ---- boxes ---- */

/* PLC-08 */
WT_UNIT(box__two_axes_on_one_dim_split_left_to_right)
{
    static const int sizes[2] = {4, 2};
    static const int64_t global[2] = {18, 2};
    static const int64_t want[4][2][2] = {
        {{3, 0}, {2, 3}}, {{3, 5}, {2, 8}}, {{3, 10}, {2, 13}}, {{2, 15}, {1, 17}}};
    weft_placement p[2] = {weft_shard(0), weft_shard(0)};

    for (int dp = 0; dp < 4; dp++)
        for (int tp = 0; tp < 2; tp++) {
            int coordinates[2] = {dp, tp};
            int64_t shape[2], offset[2];

            wf_local_box(shape, offset, global, 2, sizes, coordinates, p, 2);
            ck_assert_int_eq(shape[0], want[dp][tp][0]);
            ck_assert_int_eq(offset[0], want[dp][tp][1]);
            ck_assert_int_eq(shape[1], 2);
            ck_assert_int_eq(offset[1], 0);
        }
}

WT_UNIT(box__outside_the_mesh_is_empty)
{
    int sizes[1] = {2}, coordinates[1] = {-1};
    int64_t global[2] = {4, 6}, shape[2], offset[2];
    weft_placement p[1] = {weft_replicate()};

    wf_local_box(shape, offset, global, 2, sizes, coordinates, p, 1);
    ck_assert_int_eq(shape[0], 0);
    ck_assert_int_eq(shape[1], 0);
    ck_assert_int_eq(offset[0], 4);
    ck_assert_int_eq(offset[1], 6);
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* Element by element: keep those of one dim that fall to the coordinate, axis after axis. */
static int64_t elements_held(int64_t *held, int64_t n, int dim, int n_axes, const int *sizes,
                             const int *coordinates, const weft_placement *p)
{
    int64_t count = n;

    for (int64_t i = 0; i < n; i++) held[i] = i;
    for (int a = 0; a < n_axes; a++) {
        int64_t chunk = 0, kept = 0;

        if (p[a].kind != WEFT_KIND_SHARD || p[a].dim != dim) continue;
        while (chunk * sizes[a] < count) chunk++;
        for (int64_t i = 0; i < count; i++)
            if (i / chunk == coordinates[a]) held[kept++] = held[i];
        count = kept;
    }
    return count;
}

/* PLC-05, PLC-06, for random meshes of up to 4 axes */
WT_UNIT(box__holds_the_elements_that_splitting_one_by_one_gives)
{
    unsigned state = 7;

    for (int round = 0; round < 4000; round++) {
        int n_axes = 1 + (int)(next_random(&state) % 4), ndim = 1 + (int)(next_random(&state) % 3);
        int sizes[4], coordinates[4];
        int64_t global[3], shape[3], offset[3];
        weft_placement p[4];

        for (int d = 0; d < ndim; d++) global[d] = next_random(&state) % 40;
        for (int a = 0; a < n_axes; a++) {
            unsigned pick = next_random(&state) % 5;

            sizes[a] = 1 + (int)(next_random(&state) % 5);
            coordinates[a] = (int)(next_random(&state) % (unsigned)sizes[a]);
            p[a] = weft_shard((int)(pick % (unsigned)ndim));
            if (pick == 4)
                p[a] = next_random(&state) % 2 ? weft_replicate() : weft_partial(WEFT_SUM);
        }
        wf_local_box(shape, offset, global, ndim, sizes, coordinates, p, n_axes);
        for (int d = 0; d < ndim; d++) {
            int64_t held[40],
                count = elements_held(held, global[d], d, n_axes, sizes, coordinates, p);

            ck_assert_int_eq(shape[d], count);
            ck_assert_int_eq(offset[d], count ? held[0] : global[d]);
            if (count) ck_assert_int_eq(held[count - 1], offset[d] + count - 1);
        }
    }
}

/* ---- text ---- */

WT_UNIT(parse__what_is_printed_reads_back)
{
    static const char *const texts[] = {"S(0),R",
                                        "R",
                                        "P",
                                        "P(max),S(1)",
                                        "P(avg),P",
                                        "P(product)",
                                        "S(-1),S(7)",
                                        "P(min),R,R,S(2)",
                                        "SS(0,2),S(0)",
                                        "SS(-1,2147483647)",
                                        "S(0,balanced)",
                                        "S(0|4,1,1)",
                                        "S(1,balanced|3,2)",
                                        "S(1)[1],S(1)[0]",
                                        "S(0|1,1)[1],S(0|1,1)[2],S(0|1,1)[0]",
                                        "P(masked)",
                                        "P(norm 2)",
                                        "P(norm 0.5)",
                                        "P(norm 3.1415927)",
                                        "P(norm -1)"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weft_placement p[4];
        char text[64];
        int count = weft_placements_parse(p, 4, texts[i]);

        ck_assert_int_gt(count, 0);
        ck_assert_int_eq(weft_placements_format(p, count, text, sizeof text),
                         (int)strlen(texts[i]));
        ck_assert_str_eq(text, texts[i]);
    }
}

WT_UNIT(parse__blanks_and_the_long_name_of_a_sum_are_accepted)
{
    weft_placement p[2];

    ck_assert_int_eq(weft_placements_parse(p, 2, " S(1) , P(sum) "), 2);
    ck_assert(weft_placement_equal(p[0], weft_shard(1)));
    ck_assert(weft_placement_equal(p[1], weft_partial(WEFT_SUM)));
}

WT_UNIT(parse__nonsense_is_refused_with_its_place)
{
    static const char *const texts[] = {"",
                                        "S",
                                        "S()",
                                        "S(0",
                                        "S(8)",
                                        "S(-9)",
                                        "S(x)",
                                        "Q",
                                        "R,,R",
                                        "R,",
                                        "R;R",
                                        "P()",
                                        "P(mean)",
                                        "P(max",
                                        "s(0)",
                                        "S(0)x",
                                        "S(99999999999999999999)",
                                        "SS(0)",
                                        "SS(0,0)",
                                        "S(0,2)",
                                        "S(0|)",
                                        "S(0|1,)",
                                        "S(0|0,1)",
                                        "S(0|1,2,3,4,5,6)",
                                        "S(0)[",
                                        "S(0)[x]",
                                        "S(0)[9]",
                                        "P(norm)",
                                        "P(norm x)",
                                        "P(norm 2",
                                        "S(0,balanced",
                                        "S(0|65536,1)"};
    weft_placement p[4];

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weft_error_clear();
        ck_assert_int_eq(weft_placements_parse(p, 4, texts[i]), -1);
        ck_assert_int_eq(weft_error_status(), WEFT_ERR_ARG);
    }
    weft_error_clear();
    ck_assert_int_eq(weft_placements_parse(p, 4, "R,S(x)"), -1);
    ck_assert_ptr_nonnull(strstr(weft_error_message(), "character 2"));
}

WT_UNIT(parse__more_placements_than_room_are_refused)
{
    weft_placement p[2];

    ck_assert_int_eq(weft_placements_parse(p, 2, "R,R,R"), -1);
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_ARG);
}

WT_UNIT(print__tells_the_length_when_there_is_no_room)
{
    weft_placement p[2] = {weft_shard(0), weft_partial(WEFT_MAX)};
    char text[6];

    ck_assert_int_eq(weft_placements_format(p, 2, NULL, 0), 11);
    ck_assert_int_eq(weft_placements_format(p, 2, text, sizeof text), 11);
    ck_assert_str_eq(text, "S(0),");
}

/* ---- normal form ---- */

WT_UNIT(normalize__counts_dims_from_the_front)
{
    weft_placement in[3] = {weft_shard(-1),
                            {.kind = WEFT_KIND_REPLICATE, .reduce = 3, .dim = 4},
                            {.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_MAX, .dim = 5}},
                   out[3];

    ck_assert_int_eq(wf_placements_normalize(out, in, 3, 2, "test"), WEFT_OK);
    ck_assert(weft_placement_equal(out[0], weft_shard(1)));
    ck_assert(weft_placement_equal(out[1], weft_replicate()));
    ck_assert(weft_placement_equal(out[2], weft_partial(WEFT_MAX)));
}

WT_UNIT(normalize__refuses_a_dim_that_the_tensor_lacks)
{
    weft_placement in[1] = {weft_shard(2)}, out[1];

    ck_assert_int_eq(wf_placements_normalize(out, in, 1, 2, "weft_distribute_tensor"),
                     WEFT_ERR_LAYOUT);
    ck_assert_ptr_nonnull(
        strstr(weft_error_message(), "weft_distribute_tensor: S(2) on mesh axis 0"));
    weft_error_clear();
    in[0] = weft_shard(-3);
    ck_assert_int_eq(wf_placements_normalize(out, in, 1, 2, "test"), WEFT_ERR_LAYOUT);
    weft_error_clear();
    in[0] = weft_shard(0);
    ck_assert_int_eq(wf_placements_normalize(out, in, 1, 0, "test"), WEFT_ERR_LAYOUT);
}

/* RED-37 */
WT_UNIT(normalize__refuses_reductions_that_do_not_commute)
{
    weft_placement in[2] = {weft_partial(WEFT_SUM), weft_partial(WEFT_MAX)}, out[2];

    ck_assert_int_eq(wf_placements_normalize(out, in, 2, 2, "test"), WEFT_ERR_LAYOUT);
    weft_error_clear();
    in[1] = weft_partial(WEFT_AVG);
    ck_assert_int_eq(wf_placements_normalize(out, in, 2, 2, "test"), WEFT_OK);
    in[0] = weft_partial(WEFT_MIN);
    in[1] = weft_partial(WEFT_MIN);
    ck_assert_int_eq(wf_placements_normalize(out, in, 2, 2, "test"), WEFT_OK);
}

WT_UNIT(normalize__refuses_what_is_no_placement)
{
    weft_placement in[1] = {{.kind = 9}}, out[1];

    ck_assert_int_eq(wf_placements_normalize(out, in, 1, 2, "test"), WEFT_ERR_ARG);
    weft_error_clear();
    in[0] = (weft_placement){.kind = WEFT_KIND_PARTIAL, .reduce = 77};
    ck_assert_int_eq(wf_placements_normalize(out, in, 1, 2, "test"), WEFT_ERR_ARG);
    weft_error_clear();
    ck_assert_int_eq(wf_placements_normalize(out, NULL, 1, 2, "test"), WEFT_ERR_ARG);
}

WT_UNIT(normalize__refuses_fields_out_of_range)
{
    static const struct {
        weft_placement p;
        const char *part;
    } cases[] = {
        {{.kind = WEFT_KIND_SHARD, .cut = 7}, "unknown cut 7"},
        {{.kind = WEFT_KIND_SHARD, .n_segments = 6}, "in more than 5 segments"},
        {{.kind = WEFT_KIND_SHARD, .n_segments = 2, .segments = {3}}, "segment 1 is not 1 to"},
        {{.kind = WEFT_KIND_STRIDED, .factor = 0}, "at least one piece"},
        {{.kind = WEFT_KIND_STRIDED, .factor = -2}, "at least one piece"},
        {{.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_NORM, .p = 0.0f / 0.0f}, "a norm of power"},
    };
    int64_t many[6] = {1, 1, 1, 1, 1, 1}, huge[2] = {65537, 1}, none[2] = {4, 0};
    int64_t below[2] = {-1,
                        INT64_MIN}; /* trial 3: their quotient is no number and ended the process */
    weft_placement bad[] = {weft_shard_segments(0, many, 6), weft_shard_segments(0, huge, 2),
                            weft_shard_segments(0, none, 2), weft_shard_segments(0, below, 2)};
    weft_placement out[1];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_error_clear();
        ck_assert_int_eq(wf_placements_normalize(out, &cases[i].p, 1, 2, "test"), WEFT_ERR_ARG);
        ck_assert_msg(strstr(weft_error_message(), cases[i].part) != NULL, "%s",
                      weft_error_message());
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        weft_error_clear();
        ck_assert_int_eq(wf_placements_normalize(out, &bad[i], 1, 2, "test"), WEFT_ERR_ARG);
    }
}

static void expect_list(const weft_placement *p, int count, const char *text)
{
    char got[128];

    weft_placements_format(p, count, got, sizeof got);
    ck_assert_str_eq(got, text);
}

WT_UNIT(normalize__writes_each_layout_in_one_way)
{
    static const char *const pairs[][2] = {
        {"S(0)[0],S(0)[1],S(1)", "S(0),S(0),S(1)"}, {"S(0|8,2,2),R,R", "S(0|4,1,1),R,R"},
        {"S(-1|7),S(0),R", "S(1),S(0),R"},          {"S(0)[1],S(-2)[0],R", "S(0)[1],S(0)[0],R"},
        {"P(norm 0),P,P(avg)", "P,P,P(avg)"},       {"P(masked),P,R", "P(masked),P,R"}};

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        weft_placement p[3];

        ck_assert_int_eq(weft_placements_parse(p, 3, pairs[i][0]), 3);
        ck_assert_int_eq(wf_placements_normalize(p, p, 3, 2, "test"), WEFT_OK);
        expect_list(p, 3, pairs[i][1]);
    }
}

/* Lists put together axis by axis, as the choice of an op's layouts does. */
WT_UNIT(settle__makes_a_list_normal)
{
    static const char *const pairs[][2] = {
        {"S(0)[2],S(0)[1],R", "S(0)[1],S(0)[0],R"},
        {"S(0)[1],R,R", "S(0),R,R"},
        {"S(0)[1],S(0)[1],R", "S(0),S(0),R"},
        {"S(0)[1],S(0)[0],S(0)[0]", "S(0)[2],S(0)[0],S(0)[1]"},
        {"S(0)[1],SS(0,2),S(0)", "S(0),SS(0,2),S(0)"},
        {"S(0),S(0|2,1),S(0|2,1)", "S(0),S(0),S(0)"},
        {"S(0|2,1),S(0|2,1),S(0|1,1)", "S(0|2,1),S(0|2,1),S(0)"},
        {"S(0),S(0|2,1)[1],S(1)", "S(0),S(0),S(1)"},
        {"S(1)[1],S(1|2,1)[0],P", "S(1)[1],S(1|2,1)[0],P"},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        weft_placement p[3], again[3];

        ck_assert_int_eq(weft_placements_parse(p, 3, pairs[i][0]), 3);
        wf_placements_renormalize(p, 3);
        expect_list(p, 3, pairs[i][1]);
        ck_assert_int_eq(wf_placements_normalize(again, p, 3, 2, "test"), WEFT_OK);
        ck_assert(memcmp(again, p, sizeof p) == 0);
    }
}

int main(void) { return wt_unit_main_with("placement", begin, begin); }
