/* plan_print.c: plans as text, and the hint about meshes that might be flattened. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/text/text_line.h"
#include "mesh/mesh.h"
#include "redistribute/redistribute.h"

/* ---- text ---- */

/* The placements of a step's axes. */
static void append_placements(struct wf_text_line *line, const struct wf_redist_step *step,
                              const weft_placement *placements)
{
    weft_placement some[WEFT_MAX_AXES];
    char text[WF_PLACEMENTS_TEXT];
    int n = 0;

    for (unsigned left = step->axes; left; left &= left - 1)
        some[n++] = placements[__builtin_ctz(left)];
    weft_placements_format(some, n, text, sizeof text);
    wf_text_line_append(line, "%s", text);
}

/* Turns are printed where they are not left to right. */
static void drop_default_shard_order(weft_placement *placements, int n)
{
    bool plain = true;

    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            if (wf_is_shard_or_strided(placements[a]) &&
                weft_shards(placements[b], placements[a].dim))
                plain &= placements[b].order < placements[a].order;
    for (int a = 0; plain && a < n; a++) placements[a].order = 0;
}

int wf_redist_print(const struct wf_redist_plan *plan, char *text, size_t bytes)
{
    struct wf_text_line line = wf_text_line_begin(text, bytes);

    for (int i = 0; i < plan->n_steps; i++) {
        struct wf_redist_step step = plan->steps[i];

        drop_default_shard_order(step.from, plan->from->n_axes);
        drop_default_shard_order(step.to, plan->from->n_axes);
        wf_text_line_append(&line, "%s%s: ", i ? "; " : "",
                            wf_mesh_axes_label(plan->from->mesh, step.axes));
        append_placements(&line, &step, step.from);
        wf_text_line_append(&line, "->");
        append_placements(&line, &step, step.to);
        wf_text_line_append(&line, " %s", wf_redist_kinds[step.kind].name);
        if (step.bytes) wf_text_line_append(&line, " %lld B", (long long)step.bytes);
    }
    return line.length;
}

/* ---- the hint about flattened meshes ---- */

/* Two steps of one kind that differ only in their axes. */
static bool are_steps_mergeable(const struct wf_redist_step *s, const struct wf_redist_step *t)
{
    weft_placement from = s->from[__builtin_ctz(s->axes)], to = s->to[__builtin_ctz(s->axes)],
                   other_from = t->from[__builtin_ctz(t->axes)],
                   other_to = t->to[__builtin_ctz(t->axes)];

    if (s->kind != t->kind || to.kind != other_to.kind || to.dim != other_to.dim) return false;
    if (weft_is_partial(from))
        return weft_placement_equal(from, other_from) || wf_partials_add_terms(from, other_from);
    return from.kind == other_from.kind && from.dim == other_from.dim;
}

/* The axes of the steps from `first` on that would be one if they were flattened. */
static unsigned find_mergeable_axes(const struct wf_redist_plan *plan, int first, int *count)
{
    const struct wf_redist_step *s = &plan->steps[first];
    unsigned axes = s->axes;

    *count = 1;
    if (!wf_redist_kinds[s->kind].merges) return axes;
    while (first + *count < plan->n_steps && are_steps_mergeable(s, &plan->steps[first + *count]))
        axes |= plan->steps[first + (*count)++].axes;
    return axes;
}

/* The whole tensor is asked for, to print or to save it: that is done once, not in every step. */
static bool is_full_gather(const struct wf_redist_plan *plan)
{
    for (int a = 0; a < plan->to->n_axes; a++)
        if (!weft_is_replicate(plan->to->placements[a]) ||
            weft_is_partial(plan->from->placements[a]))
            return false;
    return true;
}

static void log_flatten_hint(const struct wf_redist_plan *plan, const struct wf_redist_step *step,
                             unsigned axes, int count)
{
    const weft_mesh *mesh = plan->from->mesh;
    char names[WEFT_MAX_AXES * 40] = "";
    int length = 0;

    for (int a = 0; a < plan->from->n_axes; a++)
        if (axes >> a & 1)
            length += snprintf(names + length, sizeof names - (size_t)length, "%s\"%s\"",
                               length ? ", " : "", wf_mesh_axes_label(mesh, 1u << a));
    WF_LOG(is_full_gather(plan) ? WF_LOG_INFO : WF_LOG_WARN, "redistribute",
           "%d sequential %s operations over the mesh axes %s are suboptimal: with a mesh of them "
           "made by weft_mesh_flatten they would be one",
           count, wf_redist_kinds[step->kind].name, names);
}

/* Hints given on this thread: their hashes. When all are taken there are no more hints. */
static _Thread_local uint64_t given_hints[64];

static bool is_new_hint(uint64_t hash)
{
    for (int i = 0; i < (int)(sizeof given_hints / sizeof *given_hints); i++) {
        if (given_hints[i] == hash) return false;
        if (given_hints[i]) continue;
        given_hints[i] = hash;
        return true;
    }
    return false;
}

/* All ranks of the mesh would say the same: the first one does. */
static bool is_first_rank_of_mesh(const weft_mesh *mesh)
{
    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        if (weft_mesh_coordinate(mesh, a) != 0) return false;
    return true;
}

void wf_redist_hint_flatten_mesh(const struct wf_redist_plan *plan)
{
    int count;

    if (plan->n_steps < 2 || !is_first_rank_of_mesh(plan->from->mesh)) return;

    for (int i = 0; i < plan->n_steps; i += count) {
        unsigned axes = find_mergeable_axes(plan, i, &count);
        char mesh[256];
        uint64_t hash;

        if (count < 2) continue;
        weft_mesh_format(plan->from->mesh, mesh, sizeof mesh);
        hash =
            wf_hash_mix(wf_hash_mix(wf_hash_bytes(mesh, strlen(mesh)), axes), plan->steps[i].kind) |
            1;
        if (is_new_hint(hash)) log_flatten_hint(plan, &plan->steps[i], axes, count);
    }
}
