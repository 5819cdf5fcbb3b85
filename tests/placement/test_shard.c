/* test_shard.c: which elements a rank holds, against lists of indexes that are cut by counting. */
#include <string.h>

#include "placement/element_map.h"
#include "support/mpi_check.h"

static const uint64_t seeds[] = {1, 20261121, 0x9E3779B97F4A7C15u};

enum { LAYOUTS = 20000 };

/* libcheck notes every assertion that holds, which would take most of the time. */
#define NEED(cond, c)                                                                              \
    do {                                                                                           \
        if (!(cond)) ck_abort_msg("%s: %s", #cond, wt_layout_text(c));                             \
    } while (0)

static void shard_of(struct wf_shard *part, const struct wt_layout_case *c, int dim)
{
    wf_shard_init(part, dim, c->global[dim], c->sizes, c->coordinates, c->p, c->n_axes);
}

/* PLC-05, PLC-06, PLC-10, PLC-12, PLC-25, PLC-26, PLC-27, PLC-38: the element map of any layout */
WT_UNIT_TIMES(shard__holds_what_cutting_index_lists_gives, 3)
{
    uint64_t state = seeds[_i];

    for (int round = 0; round < LAYOUTS; round++) {
        struct wt_layout_case c;

        wt_random_layout(&c, &state);
        for (int d = 0; d < c.ndim; d++) {
            struct wt_map map;
            struct wf_shard part;
            int at = 0;

            wt_map_of(&map, &c, d);
            shard_of(&part, &c, d);
            NEED(part.size == map.count, &c);
            NEED(wf_shard_offset(&part) == (map.count ? map.index[0] : c.global[d]), &c);
            for (int64_t i = 0; i < c.global[d]; i++) {
                bool held = at < map.count && map.index[at] == i;

                NEED(wf_shard_to_local(&part, i) == (held ? at : -1), &c);
                if (held) NEED(wf_shard_to_global(&part, at++) == i, &c);
            }
            NEED(at == map.count, &c);
        }
    }
}

WT_UNIT_TIMES(shard__runs_are_the_elements_and_as_long_as_can_be, 3)
{
    uint64_t state = seeds[_i];

    for (int round = 0; round < LAYOUTS; round++) {
        struct wt_layout_case c;

        wt_random_layout(&c, &state);
        for (int d = 0; d < c.ndim; d++) {
            struct wf_index_range runs[WT_MAP_ROOM];
            struct wt_map map;
            struct wf_shard part;
            int64_t at = 0, count, most = 1;

            wt_map_of(&map, &c, d);
            shard_of(&part, &c, d);
            count = wf_shard_ranges(&part, runs, WT_MAP_ROOM);
            NEED(count == wf_shard_ranges(&part, NULL, 0), &c);
            for (int64_t i = 0; i < count; at += runs[i++].size) {
                NEED(runs[i].size > 0, &c);
                if (i) NEED(runs[i].offset > runs[i - 1].offset + runs[i - 1].size, &c);
                for (int64_t k = 0; k < runs[i].size; k++)
                    NEED(map.index[at + k] == runs[i].offset + k, &c);
            }
            NEED(at == map.count, &c);
            for (int a = 0; a < c.n_axes; a++) {
                if (!weft_shards(c.p[a], d)) continue;
                most += c.p[a].n_segments ? c.p[a].n_segments - 1 : 0;
                most += c.p[a].kind == WEFT_KIND_STRIDED ? c.p[a].factor - 1 : 0;
            }
            NEED(count <= most, &c);
            if (wf_placements_give_one_box(c.p, c.n_axes)) NEED(count <= 1, &c);
        }
    }
}

/* Every element of every dim: the rank that locate names is the one that holds it. */
WT_UNIT_TIMES(shard__locate_is_the_inverse, 3)
{
    uint64_t state = seeds[_i];

    for (int round = 0; round < LAYOUTS; round++) {
        struct wt_layout_case c;

        wt_random_layout(&c, &state);
        for (int d = 0; d < c.ndim; d++)
            for (int64_t i = 0; i < c.global[d]; i += 1 + i % 3) {
                struct wt_layout_case there = c;
                struct wf_shard part;
                int64_t local = wf_shard_locate_owner(there.coordinates, i, d, c.global[d], c.sizes,
                                                      c.p, c.n_axes);

                for (int a = 0; a < c.n_axes; a++)
                    if (!weft_shards(c.p[a], d)) NEED(there.coordinates[a] == c.coordinates[a], &c);
                shard_of(&part, &there, d);
                NEED(local >= 0 && wf_shard_to_local(&part, i) == local, &there);
            }
    }
}

WT_UNIT(shard__of_a_rank_outside_the_mesh_is_empty)
{
    struct wt_layout_case c = {.n_axes = 2,
                               .ndim = 1,
                               .sizes = {2, 2},
                               .coordinates = {-1, -1},
                               .global = {6},
                               .p = {weft_shard(0), weft_strided_shard(0, 2)}};
    struct wf_shard part;

    shard_of(&part, &c, 0);
    ck_assert_int_eq(part.size, 0);
    ck_assert_int_eq(wf_shard_offset(&part), 6);
    ck_assert_int_eq(wf_shard_to_local(&part, 0), -1);
    ck_assert_int_eq(wf_shard_ranges(&part, NULL, 0), 0);
}

/* A dim far beyond 32 bits, and a factor for which most pieces are empty. */
WT_UNIT(shard__large_dims_and_factors_are_exact)
{
    int sizes[2] = {3, 2}, coordinates[2] = {2, 1};
    int64_t n = (int64_t)3 << 45, few = 5;
    weft_placement p[2] = {weft_strided_shard(0, 2147483647), weft_shard(0)};
    struct wf_shard part;

    wf_shard_init(&part, 0, n, sizes, coordinates, p, 2);
    ck_assert_int_eq(wf_shard_to_local(&part, wf_shard_to_global(&part, part.size - 1)),
                     part.size - 1);
    ck_assert_int_lt(wf_shard_to_global(&part, part.size - 1), n);
    coordinates[0] = 0;
    wf_shard_init(&part, 0, few, sizes, coordinates, p, 2);
    ck_assert_int_eq(part.size, 2);
    ck_assert_int_eq(wf_shard_offset(&part), 3);
    ck_assert_int_eq(wf_shard_ranges(&part, NULL, 0), 1);
}

int main(void) { return wt_unit_main("shard"); }
