/*
 * redistribute.c: redistribution against the same moves written by hand (hand/moves.c), by turns in
 * one run; and what planning costs.
 *
 *     run: mpiexec -n 2 redistribute
 *     run: mpiexec -n 1 redistribute plan
 *
 * redistribute.vs_raw.MOVE.SIZE is our median over theirs, redistribute.vs_raw the median of those:
 * below 1, ours is faster. Ours is the public call, with its plan looked up, its result made and
 * given back; theirs has all its buffers beforehand. Both read the same source. A plan is looked up
 * by its op's key on a mesh of one rank, and made for rank 0 of a fake mesh of 2 x 4 x 8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "device/pool.h"
#include "dtensor/dispatch/placement_args.h"
#include "dtensor/dispatch/plan_cache.h"
#include "hand/moves.h"
#include "mesh/mesh.h"
#include "redistribute/redistribute.h"
#include "support/bench.h"

enum { MOST_ROUNDS = 31 };

/* ---- against moves by hand ---- */

static const struct {
    const char *name, *from, *to;
} moves[HAND_MOVES] = {[HAND_GATHER] = {"s0_r", "S(0)", "R"},
                       [HAND_TURN] = {"s0_s1", "S(0)", "S(1)"},
                       [HAND_SUM] = {"p_r", "P", "R"},
                       [HAND_SUM_ROWS] = {"p_s0", "P", "S(0)"}};

struct pair {
    weft_mesh *mesh;
    enum hand_move move;
    weft_tensor *source;
    weft_placement to;
    struct hand_matrix hand;
};

static void meet(const struct pair *p)
{
    struct wf_coll coll = {.kind = WEFT_COLL_BARRIER, .comm = p->hand.comm};

    wf_comm_run(&coll);
}

static double ours(struct pair *p, int batch)
{
    double start;

    meet(p);
    start = bench_now();
    for (int i = 0; i < batch; i++) {
        weft_scope *scope = weft_scope_open();

        bench_need(weft_redistribute(p->source, &p->to));
        weft_scope_close(scope);
    }
    return (bench_now() - start) / batch;
}

static double theirs(struct pair *p, int batch)
{
    const float *source = weft_data(p->source);
    double start;

    meet(p);
    start = bench_now();
    for (int i = 0; i < batch; i++) hand_matrix_move(&p->hand, p->move, source);
    return (bench_now() - start) / batch;
}

/* Both give the same bytes, or the comparison means nothing. */
static void check_equal(struct pair *p)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *y = bench_need(weft_redistribute(p->source, &p->to));
    const float *want = hand_matrix_move(&p->hand, p->move, weft_data(p->source));

    if (memcmp(weft_data(y), want, (size_t)weft_local_numel(y) * sizeof(float)) != 0) {
        fprintf(stderr, "redistribute: %s differs from the move by hand\n", moves[p->move].name);
        exit(EXIT_FAILURE);
    }
    weft_scope_close(scope);
}

static weft_tensor *make_source(const struct pair *p, int64_t rows, int64_t columns)
{
    int64_t shape[] = {rows, columns};
    weft_placement from;
    weft_tensor *t;

    weft_placements_parse(&from, 1, moves[p->move].from);
    if (weft_is_partial(from)) {
        t = bench_need(weft_empty(WEFT_F32, shape, 2));
        weft_memory_count_as(t, WEFT_MEMORY_COMMUNICATION);
        t = weft_from_local(t, p->mesh, &from, shape);
    } else {
        t = weft_distribute_tensor(bench_need(weft_empty(WEFT_F32, shape, 2)), p->mesh, &from, -1);
    }
    bench_fill(bench_need(t), 1, weft_local_offset(t, 0) * columns, 1, 0);
    return t;
}

/* gives: our median over theirs */
static double measure(weft_mesh *mesh, enum hand_move move, int64_t rows, int64_t columns,
                      const char *size)
{
    size_t bytes = (size_t)(rows * columns) * sizeof(float);
    int rounds = bytes > 1 << 24 ? 7 : MOST_ROUNDS, batch = bytes <= 1 << 16 ? 200 : 1;
    struct wf_block *blocks[3];
    struct pair p = {.mesh = mesh, .move = move};
    weft_scope *scope = weft_scope_open();
    double our[MOST_ROUNDS], their[MOST_ROUNDS], us, them;

    if (bytes > 1 << 16 && bytes <= 1 << 21) batch = 10;
    for (int b = 0; b < 3; b++) blocks[b] = bench_need(wf_block_new(bytes, WF_MEM_COMM));
    hand_matrix_init(&p.hand, wf_mesh_axis_comm(mesh, 0), (size_t)rows, (size_t)columns,
                     blocks[0]->data, blocks[1]->data, blocks[2]->data);
    weft_placements_parse(&p.to, 1, moves[move].to);
    p.source = make_source(&p, rows, columns);
    check_equal(&p);
    for (int i = 0; i < rounds; i++) {
        our[i] = ours(&p, batch);
        their[i] = theirs(&p, batch);
    }
    us = bench_median(our, rounds);
    them = bench_median(their, rounds);
    if (weft_world_rank() == 0) {
        printf("%s %s: %.2f us, by hand %.2f us\n", moves[move].name, size, us * 1e6, them * 1e6);
        bench_line(us / them, "ratio", "redistribute.vs_raw.%s.%s", moves[move].name, size);
    }
    hand_matrix_free(&p.hand);
    for (int b = 0; b < 3; b++) wf_block_release(blocks[b]);
    weft_scope_close(scope);
    return us / them;
}

static void measure_all(void)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } sizes[] = {{"4KiB", 32, 32},      {"4KiB_uneven", 33, 31},
                 {"64KiB", 128, 128},   {"64KiB_uneven", 129, 127},
                 {"1MiB", 512, 512},    {"1MiB_uneven", 513, 511},
                 {"16MiB", 2048, 2048}, {"16MiB_uneven", 2049, 2047},
                 {"64MiB", 4096, 4096}, {"64MiB_uneven", 4097, 4095}};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    weft_mesh *mesh = bench_need(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));
    double ratios[SIZES * HAND_MOVES];
    int n = 0;

    for (int s = 0; s < SIZES; s++)
        for (int m = 0; m < HAND_MOVES; m++)
            ratios[n++] =
                measure(mesh, (enum hand_move)m, sizes[s].rows, sizes[s].columns, sizes[s].name);
    if (weft_world_rank() == 0) bench_line(bench_median(ratios, n), "ratio", "redistribute.vs_raw");
    weft_mesh_release(mesh);
}

/* ---- planning ---- */

/* What weft_redistribute asks the cache for. */
static void measure_hit(void)
{
    enum { CALLS = 2000 };
    weft_mesh *mesh = bench_need(weft_mesh_new(WEFT_CPU, "dp=1,tp=1"));
    weft_placement from[] = {weft_shard(0), weft_shard(1)},
                   to[] = {weft_shard(0), weft_replicate()};
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = bench_need(weft_full(WEFT_F32, (int64_t[]){8, 8}, 2, 1));
    struct wf_redistribute_attrs attrs = {.flattened_axes = 0};
    struct wf_op_args args = {.attr_words =
                                  WF_ATTR_WORDS(redistribute, placements, WF_PLACEMENT_WORDS * 2),
                              .attrs = &attrs};
    double seconds[MOST_ROUNDS];

    t = bench_need(weft_distribute_tensor(t, mesh, from, -1));
    wf_placements_to_words(attrs.placements, to, 2);
    bench_need(wf_op_plan_lookup(WF_OP_redistribute, &t, 1, &args));
    for (int i = 0; i < MOST_ROUNDS; i++) {
        double start = bench_cpu_now();

        for (int c = 0; c < CALLS; c++)
            bench_need(wf_op_plan_lookup(WF_OP_redistribute, &t, 1, &args));
        seconds[i] = (bench_cpu_now() - start) / (double)CALLS;
    }
    bench_line(bench_median(seconds, MOST_ROUNDS) * 1e9, "ns", "redistribute.plan_hit_ns");
    weft_scope_close(scope);
    weft_mesh_release(mesh);
}

/* New plans between layouts that change on every axis. */
static void measure_plan(void)
{
    static const char *const texts[] = {
        "S(0),S(0),S(0)", "S(1),S(1),S(1)", "S(0)[2],S(0)[1],S(0)[0]",
        "R,S(0),S(1)",    "P,S(0),R",       "S(2),R,S(1)"};
    enum { LAYOUTS = sizeof texts / sizeof *texts };
    static const int sizes[] = {2, 4, 8}, origin[3];
    static const int64_t shape[] = {1024, 4096, 60};
    weft_mesh *mesh = wf_mesh_new_fake(sizes, origin, NULL, 3);
    struct wf_layout *layouts[LAYOUTS];
    double seconds[MOST_ROUNDS], worst = 0;

    for (int i = 0; i < LAYOUTS; i++) {
        weft_placement p[3];

        weft_placements_parse(p, 3, texts[i]);
        layouts[i] = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 3);
    }
    for (int i = 0; i < LAYOUTS * LAYOUTS; i++) {
        struct wf_layout *from = layouts[i / LAYOUTS], *to = layouts[i % LAYOUTS];

        if (from == to || to->partial) continue;
        for (int r = 0; r < MOST_ROUNDS; r++) {
            double start = bench_cpu_now();
            struct wf_redist_plan *plan = bench_need(wf_redist_plan_new(from, to));

            seconds[r] = bench_cpu_now() - start;
            wf_redist_plan_free(plan);
        }
        if (bench_median(seconds, MOST_ROUNDS) > worst) worst = bench_median(seconds, MOST_ROUNDS);
    }
    bench_line(worst * 1e6, "us", "redistribute.plan_us");
    for (int i = 0; i < LAYOUTS; i++) wf_layout_release(layouts[i]);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv)
{
    bool plan = argc > 1 && strcmp(argv[1], "plan") == 0;

    WEFT_CHECK(weft_init(&argc, &argv));
    if (plan) {
        measure_hit();
        measure_plan();
    } else {
        measure_all();
    }
    return weft_finalize();
}
