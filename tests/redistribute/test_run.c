/*
 * test_run.c: redistribution carried out on ranks that are threads, for random meshes,
 * shapes, layouts and memory orders, against the value that one process would hold.
 *
 * Every element has a small integer value, made from its global position. Terms of partial
 * reductions are made from it so that they reduce to it exactly. After the run each rank looks into
 * the results of its peers and reduces them itself: no code under test judges the result.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "comm/comm.h"
#include "device/pool.h"
#include "mesh/mesh.h"
#include "redistribute/redistribute.h"
#include "support/greedy_planner.h"
#include "support/mpi_check.h"

enum { MAX_RANKS = 16, MAX_ELEMENTS = 4096 };

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static int below(unsigned *state, int n) { return (int)(next_random(state) % (unsigned)n); }

/* ---- a random case, the same on all ranks ---- */

struct scene {
    int n_axes, sizes[WEFT_MAX_AXES];
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int order[WEFT_MAX_DIMS]; /* of the source's dims in memory */
    int gap;                  /* stride of its last dim */
    weft_dtype dtype;
    weft_placement from[WEFT_MAX_AXES], to[WEFT_MAX_AXES];
    wf_redist_planner *planner;
    bool flatten; /* the first two axes, for collectives over both */
};

static void pick_mesh(struct scene *s, unsigned *state, int ranks)
{
    int left = ranks;

    s->n_axes = 1 + below(state, WEFT_MAX_AXES);
    for (int a = 0; a < s->n_axes; a++) {
        s->sizes[a] = 1 + below(state, left);
        if (a == s->n_axes - 1 && below(state, 4)) s->sizes[a] = left; /* mostly all ranks */
        left /= s->sizes[a];
    }
}

/* Any way to cut dim d: mostly plainly. */
static weft_placement pick_cut(const struct scene *s, unsigned *state, int d)
{
    static const int64_t thirds[] = {2, 1};

    switch (below(state, 8)) {
    case 0:
        return weft_strided_shard(d, 1 + below(state, 4));
    case 1:
        return weft_shard_balanced(d);
    case 2:
        return s->shape[d] % 3 == 0 ? weft_shard_segments(d, thirds, 2) : weft_shard(d);
    default:
        return weft_shard(d);
    }
}

/* Turns in another order for a dim; they do not go with strided shards. */
static void pick_turns(const struct scene *s, unsigned *state, weft_placement *p)
{
    int dim = s->ndim ? below(state, s->ndim) : 0, axes[WEFT_MAX_AXES];
    int n = s->ndim ? wf_axes_sharding_dim(axes, dim, p, s->n_axes) : 0;

    if (below(state, 3)) return;
    for (int i = 0; i < n; i++)
        if (p[axes[i]].kind == WEFT_KIND_STRIDED) return;
    for (int i = 0; i < n; i++) {
        int other = below(state, i + 1), axis = axes[i];

        axes[i] = axes[other];
        axes[other] = axis;
    }
    for (int i = 0; i < n; i++) p[axes[i]].order = (uint8_t)i;
}

/* Reductions of one list must commute: all of one kind, or sums and averages. */
static void pick_any(struct scene *s, unsigned *state, weft_placement *p)
{
    weft_reduce reduce = (weft_reduce)below(state, WEFT_REDUCE_COUNT);
    bool is_float = wf_dtypes[s->dtype].is_float;

    for (int a = 0; a < s->n_axes; a++) {
        int pick = below(state, 6);

        if (pick < 3 && s->ndim > 0)
            p[a] = pick_cut(s, state, below(state, s->ndim));
        else if (pick < 4 || s->dtype == WEFT_U8)
            p[a] = weft_replicate();
        else if (reduce <= WEFT_AVG || (reduce == WEFT_NORM && !is_float))
            p[a] = weft_partial(below(state, 2) && is_float ? WEFT_AVG : WEFT_SUM);
        else
            p[a] = reduce == WEFT_NORM ? weft_norm_partial(2) : weft_partial(reduce);
    }
    pick_turns(s, state, p);
}

/* What does not go together is picked anew. */
static void pick_placements(struct scene *s, unsigned *state, weft_placement *to)
{
    weft_placement p[WEFT_MAX_AXES];

    do {
        weft_error_clear();
        pick_any(s, state, p);
    } while (wf_placements_normalize(to, p, s->n_axes, s->ndim, "test") != WEFT_OK);
}

static struct scene pick_scene(unsigned *state, int ranks)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16,
                                        WEFT_I32, WEFT_I64, WEFT_U8};
    struct scene s = {
        .ndim = below(state, 4), .dtype = dtypes[below(state, 7)], .gap = 1 + below(state, 2)};

    pick_mesh(&s, state, ranks);
    for (int d = 0; d < s.ndim; d++) {
        int other = below(state, d + 1);

        s.shape[d] = below(state, 12) ? 1 + below(state, 11) : below(state, 40) ? 1 : 0;
        s.order[d] = s.order[other];
        s.order[other] = d;
    }
    if (below(state, 2)) {
        s.gap = 1;
        for (int d = 0; d < s.ndim; d++) s.order[d] = d;
    }
    pick_placements(&s, state, s.from);
    pick_placements(&s, state, s.to);
    s.flatten = s.n_axes > 1 && below(state, 2);
    s.planner = below(state, 4) ? wf_redist_find_steps : wt_greedy_steps;
    return s;
}

/* ---- values ---- */

static bool has_norm(const weft_placement *p, int n)
{
    for (int a = 0; a < n; a++)
        if (weft_is_partial(p[a]) && p[a].reduce == WEFT_NORM) return true;
    return false;
}

/* Bytes stay bytes, norms are not negative; the others have signs. */
static double value_of(const struct scene *s, int64_t element)
{
    int64_t scattered = (element * 37 + 11) % 19;
    bool positive =
        s->dtype == WEFT_U8 || has_norm(s->from, s->n_axes) || has_norm(s->to, s->n_axes);

    return (double)(positive ? scattered % 10 : scattered - 9);
}

static int64_t noise(int64_t element, int term) { return (element * 13 + term * 7) % 4; }

/* Which of the terms of its partial tensors a rank holds, and how many there are. */
static int term_of(const struct scene *s, const weft_placement *p, const int *coordinates,
                   int *terms)
{
    int term = 0;

    *terms = 1;
    for (int a = 0; a < s->n_axes; a++) {
        if (p[a].kind != WEFT_KIND_PARTIAL) continue;
        term = term * s->sizes[a] + coordinates[a];
        *terms *= s->sizes[a];
    }
    return term;
}

static int averaged(const struct scene *s, const weft_placement *p)
{
    int ways = 1;

    for (int a = 0; a < s->n_axes; a++)
        if (p[a].kind == WEFT_KIND_PARTIAL && p[a].reduce == WEFT_AVG) ways *= s->sizes[a];
    return ways;
}

/* WEFT_SUM also for averages; *any is false when nothing is partial. */
static weft_reduce reduction(const struct scene *s, const weft_placement *p, bool *any)
{
    *any = false;
    for (int a = 0; a < s->n_axes; a++) {
        if (p[a].kind != WEFT_KIND_PARTIAL) continue;
        *any = true;
        if (p[a].reduce > WEFT_AVG) return (weft_reduce)p[a].reduce;
    }
    return WEFT_SUM;
}

/* What the rank with this term holds of an element, so that all terms reduce to its value. */
static double term_value(const struct scene *s, int64_t element, int term, int terms)
{
    double value = value_of(s, element), sum;
    bool any, holder = term == (int)(element % terms);
    weft_reduce reduce = reduction(s, s->from, &any);

    if (!any) return value;
    if (reduce == WEFT_PRODUCT) return holder ? value : 1;
    if (reduce == WEFT_MASKED || reduce == WEFT_NORM) return holder ? value : 0;
    if (reduce == WEFT_MAX) return holder ? value : value - (double)noise(element, term);
    if (reduce == WEFT_MIN) return holder ? value : value + (double)noise(element, term);
    if (term > 0) return (double)noise(element, term);
    sum = value * averaged(s, s->from);
    for (int other = 1; other < terms; other++) sum -= (double)noise(element, other);
    return sum;
}

static double combine(weft_reduce reduce, double a, double b)
{
    if (reduce == WEFT_NORM) return sqrt(a * a + b * b);
    if (reduce == WEFT_PRODUCT) return a * b;
    if (reduce == WEFT_MAX) return a > b ? a : b;
    if (reduce == WEFT_MIN) return a < b ? a : b;
    return a + b;
}

/* ---- walking a box ---- */

static int64_t global_index(const struct wf_layout *layout, const int *coordinates, int64_t local,
                            int64_t *memory)
{
    const struct wf_tensor_desc *desc = &layout->desc;
    int64_t index = 0, scale = 1;

    *memory = 0;
    for (int d = desc->ndim - 1; d >= 0; d--) {
        struct wf_shard part;

        wf_shard_init(&part, d, desc->global[d], wf_mesh_sizes(layout->mesh), coordinates,
                      layout->placements, layout->n_axes);
        *memory += local % part.size * desc->stride[d];
        index += wf_shard_to_global(&part, local % part.size) * scale;
        local /= part.size;
        scale *= desc->global[d];
    }
    return index;
}

static void source_strides(const struct scene *s, const int64_t *box, int64_t *strides)
{
    int64_t step = s->gap;

    for (int i = s->ndim - 1; i >= 0; i--) {
        strides[s->order[i]] = step;
        step *= box[s->order[i]] > 0 ? box[s->order[i]] : 1;
    }
}

static char *make_source(const struct scene *s, const struct wf_layout *from)
{
    const struct wf_dtype_info *dtype = &wf_dtypes[s->dtype];
    char *data = calloc(2 * MAX_ELEMENTS, dtype->size);
    int terms, term = term_of(s, s->from, wf_mesh_coordinates(from->mesh), &terms);

    for (int64_t i = 0; i < from->desc.numel; i++) {
        int64_t memory, element = global_index(from, wf_mesh_coordinates(from->mesh), i, &memory);

        dtype->store(data + memory * dtype->size, term_value(s, element, term, terms));
    }
    return data;
}

/* ---- judging ---- */

/* Where every rank shows what it has. Barriers order the accesses. */
struct board {
    unsigned seed;
    int rounds;
    const void *shown[MAX_RANKS];
    const struct wf_layout *layout[MAX_RANKS];
};

static void barrier(void)
{
    struct wf_coll coll = {.kind = WEFT_COLL_BARRIER, .comm = wf_comm_world(), .dtype = WEFT_U8};

    wf_comm_run(&coll);
}

/* The world rank that holds `term` where this rank's other coordinates are kept. */
static int holder_of(const struct scene *s, const int *coordinates, int term)
{
    int rank = 0, step = 1;

    for (int a = s->n_axes - 1; a >= 0; a--) {
        int at = coordinates[a];

        if (s->to[a].kind == WEFT_KIND_PARTIAL) {
            at = term % s->sizes[a];
            term /= s->sizes[a];
        }
        rank += at * step;
        step *= s->sizes[a];
    }
    return rank;
}

/* All is exact but the quotients of averages, and sums of such; 9 is the largest value. */
static double tolerance(const struct scene *s)
{
    static const double unit[WEFT_DTYPE_COUNT] = {
        [WEFT_F32] = 0x1p-24, [WEFT_F64] = 0x1p-53, [WEFT_BF16] = 0x1p-8, [WEFT_F16] = 0x1p-11};

    if (has_norm(s->from, s->n_axes) || has_norm(s->to, s->n_axes)) return 9 * 8 * unit[s->dtype];
    return averaged(s, s->from) > 1 ? 9 * 4 * unit[s->dtype] : 0;
}

static int64_t memory_of(const struct wf_tensor_desc *desc, int64_t local)
{
    int64_t memory = 0;

    for (int d = desc->ndim - 1; d >= 0; d--) {
        memory += local % desc->shape[d] * desc->stride[d];
        local /= desc->shape[d];
    }
    return memory;
}

static weft_status judge(const struct scene *s, const struct board *board,
                         const struct wf_layout *to, const char *plan)
{
    const struct wf_dtype_info *dtype = &wf_dtypes[s->dtype];
    const int *coordinates = wf_mesh_coordinates(to->mesh);
    int terms;
    bool any;
    weft_reduce reduce = reduction(s, s->to, &any);

    term_of(s, s->to, coordinates, &terms);
    for (int64_t i = 0; i < to->desc.numel; i++) {
        int64_t memory, element = global_index(to, coordinates, i, &memory);
        double value = 0;

        for (int term = 0; term < terms; term++) {
            int rank = holder_of(s, coordinates, term);
            double part;

            memory = memory_of(&board->layout[rank]->desc, i);
            part = dtype->load((const char *)board->shown[rank] + memory * dtype->size);
            value = term ? combine(reduce, value, part) : part;
        }
        value /= averaged(s, s->to);
        WF_NEED(fabs(value - value_of(s, element)) <= tolerance(s), WEFT_ERR_STATE,
                "element %lld is %g, not %g, after {%s}", (long long)element, value,
                value_of(s, element), plan);
    }
    return WEFT_OK;
}

/* ---- one case ---- */

static weft_status run_scene(const struct scene *s, struct board *board, weft_mesh *mesh)
{
    struct wf_layout *rows = wf_layout_new(mesh, s->from, s->dtype, s->shape, NULL, s->ndim);
    int64_t strides[WEFT_MAX_DIMS];
    struct wf_layout *from, *to = wf_layout_with_placements(rows, s->to);
    struct wf_redist_plan *plan;
    struct wf_block *block = NULL;
    weft_status status;
    char text[512];
    char *source;

    source_strides(s, rows->desc.shape, strides);
    from = wf_layout_new(mesh, s->from, s->dtype, s->shape, strides, s->ndim);
    source = make_source(s, from);
    plan = wf_redist_plan_with_planner(s->planner, from, to);
    wf_redist_print(plan, text, sizeof text);
    if (plan->n_steps > 0) block = wf_redist_run(plan, source);
    board->shown[weft_world_rank()] = block ? block->data : source;
    board->layout[weft_world_rank()] = block ? to : from;
    barrier();
    status = judge(s, board, to, text);
    if (block && block->bytes != to->desc.numel * (int64_t)wf_dtypes[s->dtype].size)
        status = WF_FAIL(WEFT_ERR_STATE, "%lld bytes after {%s}", (long long)block->bytes, text);
    if (block && (block->category == WF_MEM_COMM) != to->partial)
        status = WF_FAIL(WEFT_ERR_STATE, "category %d after {%s}", block->category, text);
    barrier();
    if (block) wf_block_release(block);
    wf_redist_plan_free(plan);
    WT_RELEASE(wf_layout_release, from, to, rows);
    free(source);
    return status;
}

static weft_mesh *scene_mesh(const struct scene *s)
{
    weft_mesh *mesh;
    char text[128];
    int length = 0;

    for (int a = 0; a < s->n_axes; a++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%sa%d=%d", a ? "," : "", a,
                           s->sizes[a]);
    mesh = weft_mesh_new(WEFT_CPU, "%s", text);
    if (s->flatten) {
        weft_mesh *two = weft_mesh_sub(mesh, "a0,a1"), *flat = weft_mesh_flatten(two, NULL);

        weft_mesh_release(flat); /* the root remembers */
        weft_mesh_release(two);
    }
    return mesh;
}

/* A failure is kept to the end: the other ranks go on as well. */
static int rounds(void *payload)
{
    struct board *board = payload;
    unsigned state = board->seed;
    weft_status first = WEFT_OK;

    for (int round = 0; round < board->rounds; round++) {
        struct scene s = pick_scene(&state, weft_world_size());
        weft_mesh *mesh = scene_mesh(&s);
        weft_status status = run_scene(&s, board, mesh);

        if (first == WEFT_OK) first = status;
        weft_mesh_release(mesh);
    }
    if (first == WEFT_OK && wf_pool_stats(WF_CATEGORIES).live != 0)
        first = WF_FAIL(WEFT_ERR_STATE, "blocks are left");
    if (first == WEFT_OK && wf_layout_live_count() != 0)
        first = WF_FAIL(WEFT_ERR_STATE, "layouts are left");
    wf_mesh_finalize();
    wf_pool_finalize();
    return (int)first;
}

static const struct {
    int ranks, rounds;
} worlds[] = {{1, 200}, {2, 600}, {3, 400}, {4, 600}, {6, 400}, {8, 300}, {16, 40}};

enum { SEEDS = 3 };

static void run_on(int ranks, int (*body)(void *), void *payload)
{
    int status;

    weft_error_clear();
    status = wf_comm_run_rank_threads(ranks, body, payload);
    ck_assert_msg(status == 0, "%d ranks: %s", ranks, weft_error_message());
}

WT_UNIT_TIMES(redistribute__any_layout_to_any_other_keeps_the_value,
              SEEDS *(int)(sizeof worlds / sizeof worlds[0]))
{
    int world = _i / SEEDS;
    struct board board = {.seed = 1000u + (unsigned)_i, .rounds = worlds[world].rounds};

    run_on(worlds[world].ranks, rounds, &board);
}

/* ---- what a run costs ---- */

#define NEED(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) return (int)WF_FAIL(WEFT_ERR_STATE, "rank %d: %s", weft_world_rank(), #cond); \
    } while (0)

/* A second run takes everything from the caches. */
static int steady(void *payload)
{
    static const int64_t shape[2] = {6, 10};
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=4");
    weft_placement p[1] = {weft_shard(1)}, q[1] = {weft_shard(0)};
    struct wf_layout *from = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 2),
                     *to = wf_layout_new(mesh, q, WEFT_F32, shape, NULL, 2);
    struct wf_redist_plan *plan = wf_redist_plan_new(from, to);
    struct wf_block *source =
                        wf_block_new((size_t)from->desc.numel * sizeof(float), WF_MEM_ACTIVATIONS),
                    *result;
    int64_t calls = 0;

    (void)payload;
    memset(source->data, 0, (size_t)source->bytes);
    for (int i = 0; i < 3; i++) {
        if (i == 1) calls = wf_pool_system_calls();
        result = wf_redist_run(plan, source->data);
        wf_block_release(result);
    }
    NEED(wf_pool_system_calls() == calls);
    NEED(wf_pool_stats(WF_MEM_COMM).live == 0);
    wf_block_release(source);
    wf_redist_plan_free(plan);
    WT_RELEASE(wf_layout_release, from, to);
    weft_mesh_release(mesh);
    wf_pool_finalize();
    return 0;
}

WT_UNIT(redistribute__again_asks_the_system_for_nothing) { run_on(4, steady, NULL); }

/* Ranks that the mesh leaves out neither wait nor hold anything. */
static int outside(void *payload)
{
    static const int64_t shape[1] = {6};
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=2");
    weft_placement p[1] = {weft_shard(0)}, q[1] = {weft_replicate()};
    struct wf_layout *from = wf_layout_new(mesh, p, WEFT_I32, shape, NULL, 1),
                     *to = wf_layout_new(mesh, q, WEFT_I32, shape, NULL, 1);
    struct wf_redist_plan *plan = wf_redist_plan_new(from, to);
    int32_t mine[3] = {1, 2, 3};

    (void)payload;
    NEED(plan->n_steps == (weft_world_rank() < 2 ? 1 : 0));
    if (plan->n_steps) {
        struct wf_block *block = wf_redist_run(plan, mine);

        NEED(((int32_t *)block->data)[5] == 3);
        wf_block_release(block);
    }
    wf_redist_plan_free(plan);
    WT_RELEASE(wf_layout_release, from, to);
    weft_mesh_release(mesh);
    wf_pool_finalize();
    return 0;
}

WT_UNIT(redistribute__leaves_ranks_outside_the_mesh_alone) { run_on(3, outside, NULL); }

int main(void) { return wt_unit_main("run"); }
