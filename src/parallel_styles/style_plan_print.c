/*
 * style_plan_print.c: a plan for people: every parameter with its layout and bytes on this rank,
 * and the collectives that a step issues. The plan is applied to parameters without elements, and
 * taken back; the collectives follow from the rows alone: nothing runs.
 */
#include <weft/autograd.h>
#include <weft/types.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "parallel_styles/style.h"
#include "redistribute/transitions.h"

enum { FORWARD = 0, BACKWARD = 1 };

struct printer {
    FILE *out;
    int ways;                      /* ranks of the mesh's axis */
    int moves[2][WF_REDIST_KINDS]; /* of each kind */
    int64_t bytes, whole;          /* of parameters: on this rank, and all */
    int waiting;                   /* parameters whose gradient waits for weft_reduce_gradients */
    const weft_tensor **seen;      /* parameters, so that a shared one is counted once */
    int n_seen;
};

/* ---- collectives ---- */

static void print_redistribution(struct printer *p, int direction, const char *what,
                                 weft_placement from, weft_placement to)
{
    enum wf_redist_kind kind = wf_redist_kind_of(from, to);
    char text[2][64];

    weft_placements_format(&from, 1, text[0], sizeof text[0]);
    weft_placements_format(&to, 1, text[1], sizeof text[1]);
    fprintf(p->out, "%s %s -> %s", what, text[0], text[1]);
    if (p->ways == 1 || weft_placement_equal(from, to)) return;
    if (wf_redist_kinds[kind].collective == WEFT_COLL_COUNT) return;
    fprintf(p->out, " %s", wf_redist_kinds[kind].name);
    p->moves[direction][kind]++;
}

static void print_forward_moves(struct printer *p, const struct wf_resolved_style *use)
{
    const char *between = "";
    bool handed = false;
    int n = use->n_inputs ? use->n_inputs : use->kind == WEFT_STYLE_PREPARE ? 0 : 1;

    fprintf(p->out, "    forward: ");
    for (int i = 0; i < n; i++) {
        if (!use->inputs[i].taken || !use->inputs[i].moved) continue;
        fprintf(p->out, "%s", between);
        print_redistribution(p, FORWARD, "input", use->inputs[i].declared, use->inputs[i].wants);
        between = "; ";
    }
    if (use->own == WF_OWN_SUMS && p->ways > 1) {
        fprintf(p->out, "%sthe op 2 all-reduce", between);
        p->moves[FORWARD][WF_REDIST_ALL_REDUCE] += 2;
        between = "; ";
    }
    for (int i = 0; i < use->n_outputs; i++) {
        const struct wf_boundary *output = &use->outputs[i];

        handed |= output->taken && !use->keep_distributed;
        if (!output->taken || !output->moved) continue;
        fprintf(p->out, "%s", between);
        print_redistribution(p, FORWARD, "output", output->declared, output->wants);
        between = "; ";
    }
    fprintf(p->out, "%s\n", handed ? ", handed on as a local shard" : "");
}

/* How many of the module's own parameters wait; where split heads share some, how many of those. */
static int count_trainable_parameters(const weft_module *m)
{
    int n = 0, first = m->features ? m->features->shared_from : 0;

    for (int i = first; i < m->n_parameters; i++) n += weft_requires_grad(m->parameters[i].tensor);
    return n;
}

/* The gradient of the output comes in the layout that was handed on. */
static void print_backward_moves(struct printer *p, const weft_module *m,
                                 const struct wf_resolved_style *use)
{
    weft_placement given = use->outputs[0].declared;

    if (weft_is_partial(given)) given = weft_replicate();
    fprintf(p->out, "    backward: ");
    print_redistribution(p, BACKWARD, "output", use->outputs[0].wants, given);
    if (use->has_gradient) {
        fprintf(p->out, "; ");
        print_redistribution(p, BACKWARD, "input", use->gradient, use->inputs[0].declared);
    }
    if (use->own == WF_OWN_GATHER && p->ways > 1 && count_trainable_parameters(m)) {
        fprintf(p->out, "; the parameter's all-gather");
        p->moves[BACKWARD][WF_REDIST_ALL_GATHER]++;
    }
    fprintf(p->out, "\n");
}

/* ---- parameters ---- */

static bool is_first_visit(struct printer *p, const weft_tensor *t)
{
    for (int i = 0; i < p->n_seen; i++)
        if (p->seen[i] == t) return false;
    p->seen = wf_array_grow(p->seen, p->n_seen, sizeof(void *));
    p->seen[p->n_seen++] = t;
    return true;
}

static const char *layout_text(char *text, size_t bytes, const weft_tensor *t)
{
    weft_placement placements[WEFT_MAX_AXES];
    weft_mesh *mesh = weft_tensor_mesh(t);

    if (!mesh) return "plain";
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) placements[a] = weft_tensor_placement(t, a);
    weft_placements_format(placements, weft_mesh_ndim(mesh), text, bytes);
    return text;
}

static void print_parameter(struct printer *p, const struct wf_parameter *parameter)
{
    const weft_tensor *t = parameter->tensor;
    int64_t element = (int64_t)weft_dtype_size(weft_tensor_dtype(t));
    int64_t bytes = element * weft_local_numel(t);
    char layout[256];

    fprintf(p->out, "    %-8s %s[", parameter->name, weft_dtype_name(weft_tensor_dtype(t)));
    for (int d = 0; d < weft_ndim(t); d++)
        fprintf(p->out, "%s%lld", d ? "," : "", (long long)weft_size(t, d));
    fprintf(p->out, "] %s, %lld B", layout_text(layout, sizeof layout, t), (long long)bytes);
    if (is_first_visit(p, t)) {
        p->bytes += bytes;
        p->whole += element * weft_numel(t);
        fprintf(p->out, "\n");
    } else {
        fprintf(p->out, ", shared\n");
    }
}

static void print_module_plan(struct printer *p, const weft_module *m,
                              const struct wf_style_match *match)
{
    const struct wf_resolved_style *use = match ? &match->use : NULL;

    if (!use && m->n_tensors == 0) return;
    fprintf(p->out, "%-24s %s%s%s\n", m->path[0] ? m->path : ".",
            use ? wf_style_name(match->line->style) : "", use ? " " : "no style, ", m->kind->type);
    for (int i = 0; i < m->n_tensors; i++) print_parameter(p, &m->parameters[i]);
    if (!use) return;
    if (use->kind == WEFT_STYLE_CUSTOM) {
        fprintf(p->out, "    forward, backward: as its functions do\n");
        return;
    }
    print_forward_moves(p, use);
    if (use->kind == WEFT_STYLE_PREPARE) return;
    if (use->own == WF_OWN_LATER) p->waiting += count_trainable_parameters(m);
    print_backward_moves(p, m, use);
}

static void print_collective_counts(const struct printer *p, int direction, const char *name)
{
    static const enum wf_redist_kind order[] = {WF_REDIST_ALL_REDUCE, WF_REDIST_ALL_GATHER,
                                                WF_REDIST_REDUCE_SCATTER, WF_REDIST_ALL_TO_ALL};
    const char *between = "";

    fprintf(p->out, "a %s issues ", name);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        int moves = p->moves[direction][order[i]];

        if (!moves) continue;
        fprintf(p->out, "%s%d %s", between, moves, wf_redist_kinds[order[i]].name);
        between = ", ";
    }
    fprintf(p->out, "%s\n", *between ? "" : "no collective");
}

static void print_plan_totals(const struct printer *p)
{
    fprintf(p->out, "parameters: %lld B on this rank of %lld B\n", (long long)p->bytes,
            (long long)p->whole);
    print_collective_counts(p, FORWARD, "forward");
    print_collective_counts(p, BACKWARD, "backward");
    if (p->waiting && p->ways > 1)
        fprintf(p->out, "gradients of %d parameters wait for one all-reduce per step\n",
                p->waiting);
}

/* ---- the whole ---- */

/* Parameters that were distributed before are printed with their layouts. */
static weft_status apply_to_undistributed(weft_module *root, weft_mesh *mesh,
                                          const struct wf_style_match *matches, int count)
{
    struct wf_style_match *rest = wf_calloc((size_t)count + 1, sizeof *rest);
    weft_status status;
    int n = 0;

    for (int i = 0; i < count; i++)
        if (!wf_module_is_distributed(matches[i].module)) rest[n++] = matches[i];
    status = wf_style_plan_apply(root, mesh, rest, n);
    wf_free(rest);
    return status;
}

static void print_all_modules(struct printer *p, weft_module *root,
                              const struct wf_style_match *matches, int count)
{
    int n;
    weft_module **modules = wf_module_list_tree(root, &n);

    for (int i = 0; i < n; i++) {
        int at = 0;

        while (at < count && matches[at].module != modules[i]) at++;
        print_module_plan(p, modules[i], at < count ? &matches[at] : NULL);
    }
    wf_free(modules);
    print_plan_totals(p);
    wf_free(p->seen);
}

weft_status weft_plan_print(weft_module *module, weft_mesh *mesh, const weft_plan *plan, FILE *out)
{
    struct printer p = {.out = out};
    struct wf_module_snapshot *snapshot;
    struct wf_style_match *matches;
    weft_status status;
    int count;

    WF_NEED(out, WEFT_ERR_ARG, "plan print: no file");
    WF_TRY(wf_check_module_and_mesh(module, &mesh, "plan print"));
    WF_NEED_GIVEN(plan, "plan print: plan is NULL");
    WF_TRY(wf_style_plan_check_mesh(mesh));
    WF_TRY(wf_style_plan_match(&matches, &count, module, plan, true));
    p.ways = weft_mesh_axis_size(mesh, 0);
    snapshot = wf_module_snapshot_take(wf_module_root(module));
    status = wf_style_plan_resolve(matches, count, p.ways);
    if (status == WEFT_OK) status = wf_module_to_meta(module);
    if (status == WEFT_OK) status = apply_to_undistributed(module, mesh, matches, count);
    if (status == WEFT_OK) print_all_modules(&p, module, matches, count);
    wf_module_snapshot_end(snapshot, true);
    wf_free(matches);
    return status;
}
