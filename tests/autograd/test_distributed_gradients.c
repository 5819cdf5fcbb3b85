/*
 * test_distributed_gradients.c: outputs and gradients of distributed calls equal those of plain
 * ones, for every sample whose row has a gradient and inputs that are replicated, sharded or
 * partial sums.
 */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "autograd/sampled.h"
#include "support/mpi_check.h"
#include "support/near.h"

static const double bound = 1e-10;

struct reference {
    double *loss, *grad[WF_MAX_IN];
};

/* One placement per mesh axis; meshes with one axis use the first. */
struct spot {
    weft_placement axis[2];
};

/* ---- operands ---- */

/* Ranks that add up to one value, and this rank's number among them. */
static void terms(weft_mesh *mesh, const struct spot *spot, int *count, int *mine)
{
    *count = 1;
    *mine = 0;
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        if (spot->axis[a].kind != WEFT_KIND_PARTIAL) continue;
        *mine = *mine * weft_mesh_axis_size(mesh, a) + weft_mesh_coordinate(mesh, a);
        *count *= weft_mesh_axis_size(mesh, a);
    }
}

/* This rank's term, whole: noise, and what makes it the value on the last rank. */
static weft_tensor *term_of(const struct wt_sampled *s, int i, int count, int mine)
{
    weft_tensor *term = wt_sampled_plain(s, i);
    double *data = weft_data(term);

    for (int64_t e = 0; count > 1 && e < weft_numel(term); e++) {
        double sum = 0;

        for (int r = 0; r < count - 1; r++)
            sum += wt_noise((uint64_t)i + 50, (uint64_t)e, (uint64_t)r);
        data[e] = mine == count - 1 ? data[e] - sum
                                    : wt_noise((uint64_t)i + 50, (uint64_t)e, (uint64_t)mine);
    }
    return term;
}

static weft_tensor *placed(const struct wt_sampled *s, int i, weft_mesh *mesh,
                           const struct spot *spot)
{
    struct spot whole = *spot;
    weft_tensor *t;
    int count, mine;

    if (!s->operand[i].present) return NULL;
    terms(mesh, spot, &count, &mine);
    for (int a = 0; a < 2; a++)
        if (whole.axis[a].kind == WEFT_KIND_PARTIAL) whole.axis[a] = weft_replicate();
    t = weft_distribute_tensor(term_of(s, i, count, mine), mesh, whole.axis, -1);
    t = weft_from_local(weft_drop_grad_types(weft_to_local(t, NULL)), mesh, spot->axis,
                        s->operand[i].shape);
    return wt_sampled_has_gradient(s, i) ? weft_set_requires_grad(t, true) : t;
}

static weft_tensor *loss_of(const struct wt_sampled *s, weft_tensor *const *in, weft_mesh *mesh)
{
    static const struct spot replicated;
    weft_tensor *y = wt_sampled_call(s, in), *weights;

    if (!y) return NULL;
    weights = wt_weights_like(y);
    if (mesh) weights = weft_distribute_tensor(weights, mesh, replicated.axis, -1);
    return weft_sum_all(weft_mul(y, weights));
}

static struct reference plain_reference(const struct wt_sampled *s)
{
    struct reference ref = {0};
    weft_tensor *in[WF_MAX_IN] = {0}, *loss;

    for (int i = 0; i < s->n_in; i++) {
        in[i] = wt_sampled_plain(s, i);
        if (wt_sampled_has_gradient(s, i)) weft_set_requires_grad(in[i], true);
    }
    loss = loss_of(s, in, NULL);
    weft_backward(loss);
    ref.loss = wt_values(loss);
    for (int i = 0; i < s->n_in; i++)
        if (weft_requires_grad(in[i])) ref.grad[i] = wt_values(weft_grad(in[i]));
    return ref;
}

/* ---- one placement of all inputs ---- */

static void report(const struct wt_sampled *s, const struct spot *spots, weft_mesh *mesh)
{
    fprintf(stderr, "%s with", wt_op_case_text(s->sample, WEFT_F64));
    for (int i = 0; i < s->n_in; i++) {
        char text[32];

        weft_placements_format(spots[i].axis, weft_mesh_ndim(mesh), text, sizeof text);
        fprintf(stderr, " [%s]", text);
    }
    fprintf(stderr, ": %s\n", weft_error_message());
}

static bool check_placed(const struct wt_sampled *s, const struct reference *ref, weft_mesh *mesh,
                         const struct spot *spots)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[WF_MAX_IN] = {0}, *loss;
    bool good;

    for (int i = 0; i < s->n_in; i++) in[i] = placed(s, i, mesh, &spots[i]);
    loss = loss_of(s, in, mesh);
    good =
        loss && weft_backward(loss) == WEFT_OK && wt_near_full(loss, ref->loss, WT_WITHIN(bound));
    for (int i = 0; i < s->n_in && good; i++) {
        if (!weft_requires_grad(in[i])) continue;
        good = wt_near_full(weft_grad(in[i]), ref->grad[i], WT_WITHIN(bound));
    }
    if (!good) report(s, spots, mesh);
    weft_scope_close(scope);
    return good;
}

static int placements_of(const struct wt_operand *o)
{
    if (!o->present) return 1;
    return weft_dtype_is_float(o->dtype) ? o->ndim + 2 : o->ndim + 1;
}

static weft_placement numbered(const struct wt_operand *o, int index)
{
    if (index == 0 || index >= placements_of(o)) return weft_replicate();
    return index <= o->ndim ? weft_shard(index - 1) : weft_partial(WEFT_SUM);
}

/* Placements number `first` and `second` on the two axes. */
static struct spot numbered_spot(const struct wt_operand *o, int first, int second)
{
    return (struct spot){{numbered(o, first), numbered(o, second)}};
}

/* Inputs one at a time, then all alike: together these reach every column of the rules. */
static void try_placements(const struct wt_sampled *s, const struct reference *ref, weft_mesh *mesh)
{
    struct spot spots[WF_MAX_IN] = {0};
    int most = 0, seconds = weft_mesh_ndim(mesh) - 1;

    WT_ALL(check_placed(s, ref, mesh, spots));
    for (int i = 0; i < s->n_in; i++) {
        int n = placements_of(&s->operand[i]);

        if (n > most) most = n;
        for (int first = 0; first < n; first++)
            for (int second = 0; second < (seconds ? n : 1); second++) {
                spots[i] = numbered_spot(&s->operand[i], first, second);
                WT_ALL(check_placed(s, ref, mesh, spots));
            }
        spots[i] = (struct spot){0};
    }
    for (int first = 1; s->n_in > 1 && first < most; first++)
        for (int second = 0; second < (seconds ? most : 1); second++) {
            for (int i = 0; i < s->n_in; i++)
                spots[i] = numbered_spot(&s->operand[i], first, second);
            WT_ALL(check_placed(s, ref, mesh, spots));
        }
}

static void check_sample(const struct wt_op_case *sample, weft_mesh *mesh)
{
    weft_scope *scope = weft_scope_open();
    struct wt_sampled s;
    struct reference ref;

    wt_sampled_open(&s, sample);
    ref = plain_reference(&s);
    try_placements(&s, &ref, mesh);
    for (int i = 0; i < WF_MAX_IN; i++) free(ref.grad[i]);
    free(ref.loss);
    wt_sampled_close(&s);
    weft_scope_close(scope);
}

static void check_all(weft_mesh *mesh)
{
    for (int c = 0; c < wt_op_case_count; c++) {
        const struct wt_op_case *sample = &wt_op_cases[c];

        if (sample->op == WF_OP_cast && sample->attrs.cast.dtype != WEFT_F64) continue;
        if (wf_ops[sample->op].vjp && sample->dtypes >> WEFT_F64 & 1) check_sample(sample, mesh);
    }
    weft_mesh_release(mesh);
}

WT_TEST(gradients__of_distributed_calls_equal_those_of_plain_ones)
{
    check_all(weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks()));
}

WT_TEST(gradients__on_two_axes_equal_those_of_plain_calls)
{
    if (wt_ranks() == 4) check_all(weft_mesh_new(WEFT_CPU, "dp=2,tp=2"));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "distributed gradients"); }
