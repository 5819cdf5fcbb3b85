/*
 * plan.c: plans: what planners look at, whether anything moves at all, refusals, and
 * cost. Which steps there are is decided in search.c, what they do to memory in
 * program.c.
 */
#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "mesh/mesh.h"
#include "redistribute/program.h"
#include "redistribute/redistribute.h"

/* ---- what planners look at ---- */

/* Axes of one rank do not count: a flattened mesh with them is one without. */
static uint64_t flattened_axis_sets(const weft_mesh *mesh, const int *sizes, int n_axes)
{
    uint64_t sets = 0;

    if (wf_mesh_flattened_count(mesh) == 0) return 0;
    for (unsigned axes = 3; axes >> n_axes == 0; axes++) {
        unsigned large = 0;

        if (!wf_mesh_is_flattened(mesh, axes)) continue;
        for (int a = 0; a < n_axes; a++)
            if (axes >> a & 1 && sizes[a] > 1) large |= 1u << a;
        if (large & (large - 1)) sets |= (uint64_t)1 << large;
    }
    return sets;
}

struct wf_redist_problem wf_redist_problem(const struct wf_layout *from, const weft_placement *to)
{
    struct wf_redist_problem p = {
        .n_axes = from->n_axes,
        .ndim = from->desc.ndim,
        .sizes = wf_mesh_sizes(from->mesh),
        .global = from->desc.global,
        .element = weft_dtype_size((weft_dtype)from->desc.dtype),
        .from = from->placements,
        .to = to,
    };

    for (int a = 0; a < p.n_axes; a++)
        p.links[a] = wf_link_of_axis(wf_mesh_axes_label(from->mesh, 1u << a));
    p.flattened = flattened_axis_sets(from->mesh, p.sizes, p.n_axes);
    return p;
}

/* ---- whether anything moves ---- */

/* The next rank of the axes that cut the dim in either list; false after the last. */
static bool next_coordinates(const struct wf_redist_problem *p, int dim, int *coordinates)
{
    for (int a = 0; a < p->n_axes; a++) {
        if (!weft_shards(p->from[a], dim) && !weft_shards(p->to[a], dim)) continue;
        if (++coordinates[a] < p->sizes[a]) return true;
        coordinates[a] = 0;
    }
    return false;
}

static bool same_shards_of_dim(const struct wf_redist_problem *p, int dim)
{
    int coordinates[WEFT_MAX_AXES] = {0};

    do {
        struct wf_shard x, y;

        wf_shard_init(&x, dim, p->global[dim], p->sizes, coordinates, p->from, p->n_axes);
        wf_shard_init(&y, dim, p->global[dim], p->sizes, coordinates, p->to, p->n_axes);
        if (!wf_shards_equal(&x, &y)) return false;
    } while (next_coordinates(p, dim, coordinates));
    return true;
}

/* Different placements may give the same shards: chunks of a dim that divides are balanced chunks,
 * and one order of axes may be another's strided shard. The same on all ranks. */
static bool all_ranks_keep_elements(const struct wf_redist_problem *p)
{
    for (int a = 0; a < p->n_axes; a++) {
        bool partial = weft_is_partial(p->from[a]) || weft_is_partial(p->to[a]);

        if (p->sizes[a] > 1 && partial && !weft_placement_equal(p->from[a], p->to[a])) return false;
    }
    for (int d = 0; d < p->ndim; d++)
        if (!same_shards_of_dim(p, d)) return false;
    return true;
}

/* ---- plans ---- */

static weft_status check_reduction_dtype(const struct wf_redist_plan *plan)
{
    weft_dtype dtype = (weft_dtype)plan->from->desc.dtype;

    for (int i = 0; i < plan->n_steps; i++) {
        weft_placement p = plan->steps[i].from[__builtin_ctz(plan->steps[i].axes)];
        weft_reduce reduce = p.reduce == WEFT_AVG ? WEFT_SUM : (weft_reduce)p.reduce; /* divided */

        WF_NEED(!weft_is_partial(p) || wf_dtype_can_reduce(dtype, reduce), WEFT_ERR_DTYPE,
                "redistribute: a partial %s tensor cannot be reduced", weft_dtype_name(dtype));
    }
    return WEFT_OK;
}

/* The axes of one rank on which a norm is to be finished; none where it is over others too. */
static unsigned single_rank_norm_axes(const struct wf_redist_problem *p)
{
    unsigned axes = 0;

    for (int a = 0; a < p->n_axes; a++) {
        bool norm = weft_is_partial(p->from[a]) && p->from[a].reduce == WEFT_NORM;

        if (!norm || weft_placement_equal(p->from[a], p->to[a])) continue;
        if (p->sizes[a] > 1) return 0;
        axes |= 1u << a;
    }
    return axes;
}

/* Planners leave axes of one rank alone; the sign of a norm's only term does not survive there. It
 * goes first, before other terms are filled with what changes nothing: that may be below zero. */
static void prepend_single_rank_norms(struct wf_redist_plan *plan,
                                      const struct wf_redist_problem *p)
{
    unsigned axes = single_rank_norm_axes(p);
    struct wf_redist_step *step = &plan->steps[0];

    if (!axes) return;
    WF_ASSERT(plan->n_steps < WF_REDIST_MAX_STEPS);
    memmove(step + 1, step, (size_t)plan->n_steps * sizeof *step);
    *step = (struct wf_redist_step){.kind = WF_REDIST_MAGNITUDE, .axes = (uint8_t)axes};
    for (int a = 0; a < p->n_axes; a++) {
        step->from[a] = p->from[a];
        step->to[a] = axes >> a & 1 ? p->to[a] : p->from[a];
    }
    plan->n_steps++;
}

struct wf_redist_plan *wf_redist_plan_with_planner(wf_redist_planner *planner,
                                                   struct wf_layout *from, struct wf_layout *to)
{
    struct wf_redist_plan *plan = WF_NEW(struct wf_redist_plan);
    struct wf_redist_problem problem;

    WF_ASSERT(from->mesh == to->mesh && from->desc.dtype == to->desc.dtype && to->desc.contiguous);
    plan->from = wf_layout_retain(from);
    plan->to = wf_layout_retain(to);
    if (from->numel > 0 && from->n_axes > 0) {
        problem = wf_redist_problem(from, to->placements);
        if (!all_ranks_keep_elements(&problem))
            plan->n_steps = planner(plan->steps, &problem, &plan->cost);
        prepend_single_rank_norms(plan, &problem);
    }
    if (check_reduction_dtype(plan) != WEFT_OK) {
        wf_redist_plan_free(plan);
        return NULL;
    }
    /* A rank outside the mesh refuses what the others refuse, but has nothing to do. */
    if (from->mesh && wf_mesh_coordinates(from->mesh)[0] < 0) plan->n_steps = 0;
    if (plan->n_steps > 0) plan->program = wf_redist_program_new(plan);
    if (planner == wf_redist_find_steps) wf_redist_hint_flatten_mesh(plan);
    return plan;
}

struct wf_redist_plan *wf_redist_plan_new(struct wf_layout *from, struct wf_layout *to)
{
    return wf_redist_plan_with_planner(wf_redist_find_steps, from, to);
}

void wf_redist_plan_free(struct wf_redist_plan *plan)
{
    if (!plan) return;
    wf_redist_program_free(plan->program);
    wf_layout_release(plan->from);
    wf_layout_release(plan->to);
    wf_free(plan);
}

/* ---- cost ---- */

int64_t wf_redist_bytes_sent(const struct wf_redist_plan *plan)
{
    int64_t sum = 0;

    for (int i = 0; i < plan->n_steps; i++) sum += plan->steps[i].bytes;
    return sum;
}

double wf_redist_estimated_time(const struct wf_layout *from, const weft_placement *to)
{
    struct wf_redist_problem problem = wf_redist_problem(from, to);
    struct wf_redist_step steps[WF_REDIST_MAX_STEPS];
    double cost;

    for (int a = 0; a < problem.n_axes; a++)
        if (weft_is_partial(to[a]) && !weft_is_replicate(from->placements[a]) &&
            !weft_placement_equal(from->placements[a], to[a]))
            return INFINITY;
    wf_redist_find_steps(steps, &problem, &cost);
    return cost;
}

static double bytes_per_shard(const struct wf_layout *layout, const weft_placement *placements)
{
    double bytes = (double)layout->numel * (double)weft_dtype_size((weft_dtype)layout->desc.dtype);

    for (int a = 0; a < layout->n_axes; a++)
        if (wf_is_shard_or_strided(placements[a])) bytes /= weft_mesh_axis_size(layout->mesh, a);
    return bytes;
}

double wf_redist_step_bytes(const struct wf_layout *layout, const struct wf_redist_step *step)
{
    double ranks = 1;

    for (int a = 0; a < layout->n_axes; a++)
        if (step->axes >> a & 1) ranks *= weft_mesh_axis_size(layout->mesh, a);
    return wf_redist_kind_bytes((enum wf_redist_kind)step->kind, ranks,
                                bytes_per_shard(layout, step->from),
                                bytes_per_shard(layout, step->to));
}

int64_t wf_redist_axis_bytes(const struct wf_layout *layout, int axis, weft_placement from,
                             weft_placement to)
{
    const int *sizes = wf_mesh_sizes(layout->mesh);
    int64_t ways = 1, bytes;

    if (sizes[axis] == 1 || weft_placement_equal(from, to)) return 0;
    if (wf_is_shard_or_strided(from) && weft_is_partial(to)) return WF_REDIST_NEVER;
    for (int a = 0; a < layout->n_axes; a++)
        if (a != axis && wf_is_shard_or_strided(layout->placements[a])) ways *= sizes[a];
    bytes = (layout->numel * (int64_t)weft_dtype_size((weft_dtype)layout->desc.dtype) + ways - 1) /
            ways;
    return wf_redist_axis_change_bytes(from, to, sizes[axis], bytes);
}
