/*
 * test_calls.c: every public function gives what it gives on one device, values, shape and
 * gradients, in every layout that its operands may have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "support/worlds.h"
#include "sweep/calls.h"

struct reference {
    struct wt_sampled sampled;
    double *y, *grad[WF_MAX_IN];
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    bool has_gradient;
};

/* ---- one call ---- */

static void open_reference(struct reference *ref, const struct wt_call *s)
{
    weft_tensor *in[WF_MAX_IN] = {0}, *y;

    *ref = (struct reference){.ndim = -1};
    wt_sampled_open(&ref->sampled, &s->sample);
    for (int i = 0; i < ref->sampled.n_in; i++) {
        in[i] = wt_sampled_plain(&ref->sampled, i);
        if (wt_wants_gradient(&ref->sampled.operand[i])) weft_set_requires_grad(in[i], true);
    }
    y = wt_call_run(s, in);
    if (!y) return;
    ref->ndim = weft_ndim(y);
    for (int d = 0; d < ref->ndim; d++) ref->shape[d] = weft_size(y, d);
    ref->y = wt_values(y);
    ref->has_gradient = weft_requires_grad(y);
    if (!ref->has_gradient || !wt_differentiate(y, NULL)) return;
    for (int i = 0; i < ref->sampled.n_in; i++)
        if (in[i] && weft_grad(in[i])) ref->grad[i] = wt_values(weft_grad(in[i]));
}

static void close_reference(struct reference *ref)
{
    free(ref->y);
    for (int i = 0; i < WF_MAX_IN; i++) free(ref->grad[i]);
    wt_sampled_close(&ref->sampled);
}

static bool same_shape(const weft_tensor *y, const struct reference *ref)
{
    bool same = weft_ndim(y) == ref->ndim;

    for (int d = 0; d < ref->ndim && same; d++) same = weft_size(y, d) == ref->shape[d];
    return same;
}

static bool same_gradients(weft_tensor *const *in, const struct reference *ref)
{
    for (int i = 0; i < ref->sampled.n_in; i++)
        if (ref->grad[i] && !wt_near_full(weft_grad(in[i]), ref->grad[i], WT_WITHIN(1e-9)))
            return false;
    return true;
}

/* ---- layouts ---- */

struct layout {
    weft_placement axis[2];
};

static void report(const struct wt_call *s, const struct reference *ref, const struct layout *at,
                   const weft_mesh *mesh)
{
    fprintf(stderr, "%s (%s) with", s->name, s->sample.operands);
    for (int i = 0; i < ref->sampled.n_in; i++) {
        char text[64];

        weft_placements_format(at[i].axis, weft_mesh_ndim(mesh), text, sizeof text);
        fprintf(stderr, " [%s]", text);
    }
    fprintf(stderr, ": %s\n", weft_error_message());
}

static bool holds(const struct wt_call *s, const struct reference *ref, weft_mesh *mesh,
                  const struct layout *at)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[WF_MAX_IN] = {0}, *y;
    bool good;

    for (int i = 0; i < ref->sampled.n_in; i++) {
        if (!ref->sampled.operand[i].present) continue;
        in[i] = weft_distribute_tensor(wt_sampled_plain(&ref->sampled, i), mesh, at[i].axis, -1);
        if (wt_wants_gradient(&ref->sampled.operand[i])) weft_set_requires_grad(in[i], true);
    }
    y = wt_call_run(s, in);
    good = y && same_shape(y, ref) && weft_requires_grad(y) == ref->has_gradient &&
           wt_near_full(weft_detach(y), ref->y, WT_WITHIN(1e-10));
    if (good && ref->has_gradient) good = wt_differentiate(y, mesh) && same_gradients(in, ref);
    if (!good) report(s, ref, at, mesh);
    weft_scope_close(scope);
    return good;
}

/* Number `index` of the placements on an axis: replicated, or a dim that splits evenly over it. */
static bool numbered(const struct wt_operand *o, int index, int ranks, weft_placement *p)
{
    *p = index ? weft_shard(index - 1) : weft_replicate();
    if (index == 0) return true;
    return o->dtype != WEFT_BOOL && o->shape[index - 1] > 1 && o->shape[index - 1] % ranks == 0;
}

static int layouts_of(const struct wt_operand *o, int axes)
{
    int n = o->present ? o->ndim + 1 : 1;

    return axes == 2 ? n * n : n;
}

static bool numbered_layout(const struct wt_operand *o, int index, const weft_mesh *mesh,
                            struct layout *at)
{
    int n = o->present ? o->ndim + 1 : 1, ways = 1;

    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        int which = a ? index / n : index % n;

        if (which && a && index % n == which) ways = weft_mesh_axis_size(mesh, 0);
        if (!numbered(o, which, ways * weft_mesh_axis_size(mesh, a), &at->axis[a])) return false;
    }
    return true;
}

/* All layouts of all operands. */
static void try_all(const struct wt_call *s, const struct reference *ref, weft_mesh *mesh)
{
    int index[WF_MAX_IN] = {0}, i, n = ref->sampled.n_in, axes = weft_mesh_ndim(mesh);

    do {
        struct layout at[WF_MAX_IN];
        bool there = true;

        for (i = 0; i < n && there; i++)
            there = numbered_layout(&ref->sampled.operand[i], index[i], mesh, &at[i]);
        if (there) WT_ALL(holds(s, ref, mesh, at));
        for (i = 0; i < n && ++index[i] == layouts_of(&ref->sampled.operand[i], axes); i++)
            index[i] = 0;
    } while (i < n);
}

static void sweep(weft_mesh *mesh, bool two_axes)
{
    for (int k = 0; k < wt_call_count; k++) {
        weft_scope *scope = weft_scope_open();
        struct reference ref;

        if (two_axes && !wt_calls[k].two_axes) {
            weft_scope_close(scope);
            continue;
        }
        open_reference(&ref, &wt_calls[k]);
        if (ref.ndim < 0) fprintf(stderr, "%s: %s\n", wt_calls[k].name, weft_error_message());
        WT_ALL(ref.ndim >= 0);
        try_all(&wt_calls[k], &ref, mesh);
        close_reference(&ref);
        weft_scope_close(scope);
    }
}

/* OPDB-01, OPDB-02 */
WT_TEST(sweep__every_layout_of_one_axis)
{
    struct wt_world w = wt_world_open();

    sweep(w.mesh, false);
    wt_world_close(&w);
}

/* OPDB-07 */
WT_TEST(sweep__every_layout_of_two_axes)
{
    struct wt_world w = wt_world_open_two_axes();

    if (wt_ranks() % 2 == 0) sweep(w.mesh, true);
    wt_world_close(&w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "sweep"); }
