/*
 * redistribute_plan.c: which steps lead from one layout to another, and what they cost. Pure: it
 * looks at placements and sizes only. What a step does to memory is redistribute_program.c's.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/redistribute.h"
#include "dtensor/redistribute_program.h"
#include "mesh/mesh.h"

/*
 * NOTE [order of steps] Axes that shard one dim split it left to right, so an axis works on the
 * piece that the axes before it left. Axis a may change directly when
 *   - no axis after a shards a dim that a leaves or enters (it holds chunks of a's chunks), and
 *   - no axis before a that still has to change touches the dim that a enters (it would re-cut
 *     the piece that a has cut), and
 *   - a does not become pending while another axis has a pending reduction to finish (a sum of
 *     maxima is not a maximum of sums).
 * Of the axes that may change, the one whose step shrinks the data most goes first. When none may,
 * the innermost axis in the way is un-sharded; the second condition keeps it so until the axes
 * before it are done, so this happens once per axis. Where nothing is in the way, the third
 * condition is what the outermost axis waits for: then a pending reduction is finished. So the loop
 * ends.
 */

struct state {
    int n_axes;
    weft_placement now[WEFT_MAX_AXES], to[WEFT_MAX_AXES];
};

static bool shards(weft_placement p, int dim) { return p.kind == WEFT_KIND_SHARD && p.dim == dim; }

static bool done(const struct state *s, int axis)
{
    return weft_placement_equal(s->now[axis], s->to[axis]);
}

/* The innermost axis after `axis` that shards `dim`, -1 when there is none. */
static int inner_shard(const struct state *s, int axis, int dim)
{
    for (int a = s->n_axes - 1; a > axis; a--)
        if (shards(s->now[a], dim)) return a;
    return -1;
}

/* The axis to un-shard before `axis` can change, -1 when none is in the way. */
static int in_the_way(const struct state *s, int axis)
{
    weft_placement now = s->now[axis], to = s->to[axis];
    int leaves = now.kind == WEFT_KIND_SHARD ? inner_shard(s, axis, now.dim) : -1;
    int enters = to.kind == WEFT_KIND_SHARD ? inner_shard(s, axis, to.dim) : -1;

    return leaves > enters ? leaves : enters;
}

/* Kinds are numbered in the order in which steps are preferred. */
static enum wf_redist_kind kind_of(weft_placement from, weft_placement to)
{
    static const uint8_t kinds[3][3] = {
        [WEFT_KIND_REPLICATE] = {WF_REDIST_KINDS, WF_REDIST_CHUNK, WF_REDIST_EMBED},
        [WEFT_KIND_SHARD] = {WF_REDIST_ALL_GATHER, WF_REDIST_ALL_TO_ALL, WF_REDIST_EMBED},
        [WEFT_KIND_PARTIAL] = {WF_REDIST_ALL_REDUCE, WF_REDIST_REDUCE_SCATTER,
                               WF_REDIST_ALL_REDUCE},
    };

    return (enum wf_redist_kind)kinds[from.kind][to.kind];
}

/* Where one step takes an axis: to its target, but one reduction is finished before another
 * begins, and an average of parts padded with zeros would not be exact. */
static weft_placement next_of(weft_placement now, weft_placement to)
{
    if (to.kind != WEFT_KIND_PARTIAL) return to;
    if (now.kind == WEFT_KIND_PARTIAL) return weft_replicate();
    if (now.kind == WEFT_KIND_SHARD && to.reduce == WEFT_AVG) return weft_replicate();
    return to;
}

/* True while an axis before `axis` that touches `dim` still has to change. */
static bool recut_later(const struct state *s, int axis, int dim)
{
    for (int a = 0; a < axis; a++)
        if (!done(s, a) && (shards(s->now[a], dim) || shards(s->to[a], dim))) return true;
    return false;
}

/* An axis other than `axis` with a reduction to finish, -1 when there is none. */
static int unfinished(const struct state *s, int axis)
{
    for (int a = 0; a < s->n_axes; a++)
        if (a != axis && s->now[a].kind == WEFT_KIND_PARTIAL && !done(s, a)) return a;
    return -1;
}

static bool must_wait(const struct state *s, int axis)
{
    weft_placement next = next_of(s->now[axis], s->to[axis]);

    if (next.kind == WEFT_KIND_PARTIAL) return unfinished(s, axis) >= 0;
    return s->to[axis].kind == WEFT_KIND_SHARD && recut_later(s, axis, s->to[axis].dim);
}

/* Equal terms: each rank's copy is a right term as it is. */
static bool moves_nothing(weft_placement from, weft_placement to)
{
    return from.kind == WEFT_KIND_REPLICATE && to.kind == WEFT_KIND_PARTIAL &&
           to.reduce != WEFT_SUM && to.reduce != WEFT_PRODUCT;
}

static struct wf_redist_step step_to(const struct state *s, int axis, weft_placement to)
{
    return (struct wf_redist_step){(uint8_t)kind_of(s->now[axis], to), (int8_t)axis, s->now[axis],
                                   to};
}

/* The preferred step among those allowed now. gives: false when there is none */
static bool choose(const struct state *s, struct wf_redist_step *best)
{
    best->kind = WF_REDIST_KINDS;
    for (int a = 0; a < s->n_axes; a++) {
        struct wf_redist_step step;

        if (done(s, a) || in_the_way(s, a) >= 0 || must_wait(s, a)) continue;
        step = step_to(s, a, next_of(s->now[a], s->to[a]));
        if (step.kind < best->kind) *best = step;
    }
    return best->kind < WF_REDIST_KINDS;
}

static struct wf_redist_step make_way(const struct state *s)
{
    for (int a = 0; a < s->n_axes; a++)
        if (!done(s, a) && in_the_way(s, a) >= 0)
            return step_to(s, in_the_way(s, a), weft_replicate());
    return step_to(s, unfinished(s, -1), weft_replicate());
}

/* An axis of one rank holds everything whatever its placement says: it is left out. */
static void begin(struct state *s, int n_axes, const int *sizes, const weft_placement *from,
                  const weft_placement *to)
{
    s->n_axes = n_axes;
    for (int a = 0; a < n_axes; a++) {
        s->now[a] = sizes[a] > 1 ? from[a] : weft_replicate();
        s->to[a] = sizes[a] > 1 ? to[a] : weft_replicate();
    }
}

static bool all_done(const struct state *s)
{
    for (int a = 0; a < s->n_axes; a++)
        if (!done(s, a)) return false;
    return true;
}

int wf_redist_steps(struct wf_redist_step *steps, int n_axes, const int *sizes,
                    const weft_placement *from, const weft_placement *to)
{
    struct state s;
    int count = 0;

    begin(&s, n_axes, sizes, from, to);
    while (!all_done(&s)) {
        struct wf_redist_step step;

        if (!choose(&s, &step)) step = make_way(&s);
        s.now[step.axis] = step.to;
        if (moves_nothing(step.from, step.to)) continue;
        WF_ASSERT(count < WF_REDIST_MAX_STEPS);
        steps[count++] = step;
    }
    return count;
}

/* ---- plans ---- */

static weft_status check_dtype(const struct wf_redist_plan *plan)
{
    weft_dtype dtype = (weft_dtype)plan->from->desc.dtype;

    for (int i = 0; i < plan->n_steps; i++)
        WF_NEED(plan->steps[i].from.kind != WEFT_KIND_PARTIAL ||
                    (dtype != WEFT_U8 && dtype != WEFT_BOOL),
                WEFT_ERR_DTYPE, "redistribute: a pending reduction of %s cannot be finished",
                weft_dtype_name(dtype));
    return WEFT_OK;
}

struct wf_redist_plan *wf_redist_plan_new(struct wf_layout *from, struct wf_layout *to)
{
    struct wf_redist_plan *plan = WF_NEW(struct wf_redist_plan);

    WF_ASSERT(from->mesh == to->mesh && from->desc.dtype == to->desc.dtype && to->desc.contiguous);
    plan->from = wf_layout_retain(from);
    plan->to = wf_layout_retain(to);
    if (from->numel > 0 && from->n_axes > 0 && wf_mesh_coordinates(from->mesh)[0] >= 0)
        plan->n_steps = wf_redist_steps(plan->steps, from->n_axes, wf_mesh_sizes(from->mesh),
                                        from->placements, to->placements);
    if (check_dtype(plan) != WEFT_OK) {
        wf_redist_plan_free(plan);
        return NULL;
    }
    if (plan->n_steps > 0) plan->program = wf_redist_program_new(plan);
    return plan;
}

void wf_redist_plan_free(struct wf_redist_plan *plan)
{
    if (!plan) return;
    wf_redist_program_free(plan->program);
    wf_layout_release(plan->from);
    wf_layout_release(plan->to);
    wf_free(plan);
}

int wf_redist_print(const struct wf_redist_plan *plan, char *text, size_t bytes)
{
    static const char *const names[WF_REDIST_KINDS] = {"chunk",      "reduce-scatter", "all-to-all",
                                                       "all-reduce", "all-gather",     "embed"};
    char line[WF_REDIST_MAX_STEPS * 96] = "";
    int length = 0;

    for (int i = 0; i < plan->n_steps; i++) {
        const struct wf_redist_step *step = &plan->steps[i];
        char from[16], to[16];

        weft_placements_print(&step->from, 1, from, sizeof from);
        weft_placements_print(&step->to, 1, to, sizeof to);
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%s: %s->%s %s",
                           i ? ", " : "", weft_mesh_axis_name(plan->from->mesh, step->axis), from,
                           to, names[step->kind]);
    }
    return snprintf(text, bytes, "%s", line);
}

/* ---- cost ---- */

int64_t wf_redist_bytes(const struct wf_redist_plan *plan)
{
    return plan->program ? plan->program->bytes_sent : 0;
}

int64_t wf_redist_cost(const struct wf_layout *layout, int axis, weft_placement from,
                       weft_placement to)
{
    const int *sizes = wf_mesh_sizes(layout->mesh);
    int64_t ways = 1, ranks = sizes[axis], bytes, others;
    enum wf_redist_kind kind;

    if (ranks == 1 || weft_placement_equal(from, to)) return 0;
    kind = kind_of(from, next_of(from, to));
    if (kind == WF_REDIST_CHUNK || kind == WF_REDIST_EMBED) return 0;
    for (int a = 0; a < layout->n_axes; a++)
        if (a != axis && layout->placements[a].kind == WEFT_KIND_SHARD) ways *= sizes[a];
    bytes = (layout->numel * (int64_t)weft_dtype_size((weft_dtype)layout->desc.dtype) + ways - 1) /
            ways;
    others = bytes - bytes / ranks; /* (t-1)/t of it */
    if (kind == WF_REDIST_ALL_REDUCE) return 2 * others;
    if (kind == WF_REDIST_ALL_TO_ALL) return (others + ranks - 1) / ranks;
    return others;
}
