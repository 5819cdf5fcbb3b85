/* test_slices.c: what a rank needs of what a file has, on paper; who writes what several have. */
#include <stdlib.h>

#include <weft/weft.h>

#include "base/mem.h"
#include "io/checkpoint/shard_text.h"
#include "io/file_slices.h"
#include "io/shard_owners.h"
#include "mesh/mesh.h"
#include "support/mpi_check.h"

struct slice {
    int64_t in_tensor, in_file, count;
};

static void expect(struct wf_index_range tensor, struct wf_index_range file, struct slice want)
{
    struct wf_overlap both = {0};

    wf_overlap_compute_ranges(&both, &tensor, 1, &file, 1);
    ck_assert_int_eq(both.n, want.count > 0);
    if (both.n) {
        ck_assert_int_eq(both.spans->count, 1);
        ck_assert_int_eq(both.spans->a, want.in_tensor);
        ck_assert_int_eq(both.spans->b, want.in_file);
        ck_assert_int_eq(both.spans->size, want.count);
    }
    wf_overlap_free(&both);
}

/* CKPT-09: 128 elements saved by 8 ranks, wanted by 4; saved by 4, wanted by 8 */
WT_UNIT(slices__chunks_of_one_number_of_ranks_are_read_by_another)
{
    for (int64_t r = 0; r < 8; r++)
        expect((struct wf_index_range){32, 32}, (struct wf_index_range){16 * r, 16},
               (struct slice){.in_tensor = r == 3 ? 16 : 0, .count = r == 2 || r == 3 ? 16 : 0});
    for (int64_t r = 0; r < 4; r++)
        expect((struct wf_index_range){16, 16}, (struct wf_index_range){32 * r, 32},
               (struct slice){.in_file = 16, .count = r == 0 ? 16 : 0});
    for (int64_t r = 0; r < 3; r++) /* 10 elements of 3 ranks (4, 4, 2) wanted as [5, 9) */
        expect((struct wf_index_range){5, 4}, (struct wf_index_range){4 * r, r == 2 ? 2 : 4},
               (struct slice){.in_tensor = r == 2 ? 3 : 0,
                              .in_file = r == 1 ? 1 : 0,
                              .count = r == 1   ? 3
                                       : r == 2 ? 1
                                                : 0});
}

/* CKPT-11 */
WT_UNIT(slices__a_range_across_two_chunks_takes_the_end_of_one_and_the_start_of_the_next)
{
    expect((struct wf_index_range){4, 7}, (struct wf_index_range){0, 8}, (struct slice){0, 4, 4});
    expect((struct wf_index_range){4, 7}, (struct wf_index_range){8, 8}, (struct slice){4, 0, 3});
    expect((struct wf_index_range){4, 7}, (struct wf_index_range){16, 8}, (struct slice){0, 0, 0});
    expect((struct wf_index_range){2, 20}, (struct wf_index_range){5, 3}, (struct slice){3, 0, 3});
}

/* Number a of the first list's elements is number b of the second's. */
static void same_element(const unsigned *bits, int64_t a, int64_t b)
{
    int64_t left[] = {a, b};
    int at[2] = {0, 0};

    for (int side = 0; side < 2; side++)
        for (;; at[side]++)
            if ((bits[side] >> at[side] & 1) && left[side]-- == 0) break;
    ck_assert_int_eq(at[0], at[1]);
}

/* Every pair of lists of runs of 8 elements, against a list of elements. */
WT_UNIT(slices__runs_of_any_kind_meet_where_both_have_elements)
{
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++) {
            struct wf_index_range runs[2][8];
            int64_t n[2] = {0, 0}, covered = 0;
            unsigned bits[] = {a, b};
            struct wf_overlap both = {0};

            for (int side = 0; side < 2; side++)
                for (int i = 0; i < 8; i++) {
                    if (!(bits[side] >> i & 1)) continue;
                    if (i > 0 && (bits[side] >> (i - 1) & 1))
                        runs[side][n[side] - 1].size++;
                    else
                        runs[side][n[side]++] = (struct wf_index_range){i, 1};
                }
            wf_overlap_compute_ranges(&both, runs[0], n[0], runs[1], n[1]);
            for (int i = 0; i < both.n; i++) {
                const struct wf_overlap_span *s = &both.spans[i];

                ck_assert_int_eq(s->shared, covered);
                covered += s->count * s->size;
                for (int64_t k = 0; k < s->count * s->size; k++)
                    same_element(bits, s->a + k / s->size * s->a_step + k % s->size,
                                 s->b + k / s->size * s->b_step + k % s->size);
            }
            ck_assert_int_eq(covered, __builtin_popcount(a & b));
            ck_assert_int_eq(both.total, covered);
            wf_overlap_free(&both);
        }
}

/* How many of `count` tensors each rank of a mesh writes. */
static void shares(weft_tensor *(*make)(int which, int rank), int count, int ranks, int *writes)
{
    for (int r = 0; r < ranks; r++) {
        weft_scope *scope = weft_scope_open();
        struct wf_owners owners;

        writes[r] = 0;
        wf_owners_init(&owners, ranks, r);
        for (int i = 0; i < count; i++) writes[r] += wf_owners_assign_tensor(&owners, make(i, r));
        wf_owners_free(&owners);
        weft_scope_close(scope);
    }
}

static int ways;

static weft_tensor *spread(int rank, int64_t n, const char *text)
{
    weft_mesh *mesh = weft_mesh_new_fake(rank, "tp=%d", ways);
    weft_placement p[WEFT_MAX_AXES];
    weft_device before = weft_set_default_device(WEFT_META);
    weft_tensor *t = weft_empty(WEFT_F32, &n, 1);

    weft_set_default_device(before);
    ck_assert_int_eq(weft_placements_on(p, mesh, text), WEFT_OK);
    t = weft_distribute_tensor(t, mesh, p, -1);
    weft_mesh_release(mesh);
    ck_assert_msg(t != NULL, "%s", weft_error_message());
    return t;
}

static weft_tensor *duplicate_first(int which, int rank)
{
    return which == 0 ? spread(rank, 10, "R") : spread(rank, 8 * ways, "S(0)");
}

static weft_tensor *own_first(int which, int rank) { return duplicate_first(1 - which, rank); }

static int sum(const int *values, int n)
{
    int total = 0;

    for (int i = 0; i < n; i++) total += values[i];
    return total;
}

/* CKPT-08, CKPT-12: what every rank has is written once, what is sharded by each; in either order,
 * and by any number of ranks */
WT_UNIT(owners__duplicates_are_written_once)
{
    int writes[8];

    for (ways = 2; ways <= 8; ways++) {
        shares(duplicate_first, 2, ways, writes);
        ck_assert_int_eq(sum(writes, ways), ways + 1);
        ck_assert_int_eq(writes[0], 2);
        for (int r = 1; r < ways; r++) ck_assert_int_eq(writes[r], 1);
        shares(own_first, 2, ways, writes);
        ck_assert_int_eq(writes[0], 2);
        ck_assert_int_eq(sum(writes, ways), ways + 1);
    }
}

static weft_tensor *replicas(int which, int rank) { return spread(rank, 10 + which, "R"); }

/* Twelve replicas of nearly the same size: a fair share each. */
WT_UNIT(owners__the_rank_with_the_least_to_write_takes_the_next)
{
    int writes[4];

    ways = 4;
    shares(replicas, 12, ways, writes);
    for (int r = 0; r < 4; r++) ck_assert_int_eq(writes[r], 3);
}

WT_UNIT(shard_text__what_is_written_reads_back_and_nonsense_does_not)
{
    static const char *const bad[] = {"",
                                      "0+4;0+2",
                                      "0+4;0+2|123",
                                      "0+4|0123456789abcdef",
                                      "0+4;0+3|0123456789abcdef",
                                      "0+2,1+2;0+2|0123456789abcdef",
                                      "4+4;0+2|0123456789abcdef",
                                      "-1+4;0+2|0123456789abcdef",
                                      "0+4;0+2|0123456789abcdeg",
                                      "0+4;0+2;0+1|0123456789abcdef",
                                      "0+99999999999999999999;0+2|0123456789abcdef",
                                      "0+4,;0+2|0123456789abcdef",
                                      "0+4;0+2|0123456789abcdef0",
                                      "0-4;0+2|0123456789abcdef",
                                      "0+0,0+4;0+2|0123456789abcdef"};
    int64_t shape[] = {4, 2}, global[] = {7, 2};
    struct wf_index_range rows[] = {{0, 1}, {3, 3}}, columns[] = {{0, 2}};
    struct wf_local_runs held = {{2, 1}, {rows, columns}}, again;
    char *text = wf_file_slice_text(&held, 2, 0x0123456789abcdefu);
    uint64_t hash;

    ck_assert_str_eq(text, "0+1,3+3;0+2|0123456789abcdef");
    ck_assert(wf_file_slice_parse(&again, &hash, text, shape, global, 2));
    ck_assert(hash == 0x0123456789abcdefu);
    ck_assert_int_eq(again.n_runs[0], 2);
    ck_assert_int_eq(again.runs[0][1].offset, 3);
    wf_local_runs_free(&again);
    wf_free(text);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!wf_file_slice_parse(&again, &hash, bad[i], shape, global, 2), "%s", bad[i]);
        wf_local_runs_free(&again);
    }
}

int main(void) { return wt_unit_main("slices"); }
