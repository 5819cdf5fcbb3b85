/*
 * test_distributed_gradients.c: outputs and gradients of distributed calls equal those of plain
 * ones, for every sample whose row has a gradient and inputs that are replicated, sharded or
 * pending sums.
 */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "grad/sampled.h"
#include "support/mpi_check.h"
#include "support/near.h"

static const double bound = 1e-10;

struct reference {
    double *loss, *grad[WF_MAX_IN];
};

/* ---- operands ---- */

/* The term of rank r in a pending sum: noise that cancels, and the value on the last rank. */
static weft_tensor *pending(const struct wt_sampled *s, int i, weft_mesh *mesh)
{
    weft_placement p = weft_partial(WEFT_SUM);
    weft_tensor *term = wt_sampled_plain(s, i);
    double *data = weft_data(term);

    for (int64_t e = 0; e < weft_numel(term); e++) {
        double sum = 0, mine = wt_noise((uint64_t)i + 50, (uint64_t)e, (uint64_t)wt_rank());

        for (int r = 0; r < wt_ranks() - 1; r++)
            sum += wt_noise((uint64_t)i + 50, (uint64_t)e, (uint64_t)r);
        data[e] = wt_rank() < wt_ranks() - 1 ? mine : data[e] - sum;
    }
    return weft_from_local(term, mesh, &p, NULL);
}

static weft_tensor *placed(const struct wt_sampled *s, int i, weft_mesh *mesh, weft_placement p)
{
    weft_tensor *t;

    if (!s->operand[i].present) return NULL;
    t = p.kind == WEFT_KIND_PARTIAL ? pending(s, i, mesh)
                                    : weft_distribute_tensor(wt_sampled_plain(s, i), mesh, &p, -1);
    return wt_sampled_has_gradient(s, i) ? weft_set_requires_grad(t, true) : t;
}

static weft_tensor *loss_of(const struct wt_sampled *s, weft_tensor *const *in, weft_mesh *mesh)
{
    weft_placement p = weft_replicate();
    weft_tensor *y = wt_sampled_call(s, in), *weights;

    if (!y) return NULL;
    weights = wt_weights_like(y);
    return weft_sum_all(
        weft_mul(y, mesh ? weft_distribute_tensor(weights, mesh, &p, -1) : weights));
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

static bool check_placed(const struct wt_sampled *s, const struct reference *ref, weft_mesh *mesh,
                         const weft_placement *p)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[WF_MAX_IN] = {0}, *loss;
    char text[64];
    bool good;

    for (int i = 0; i < s->n_in; i++) in[i] = placed(s, i, mesh, p[i]);
    loss = loss_of(s, in, mesh);
    good =
        loss && weft_backward(loss) == WEFT_OK && wt_near_full(loss, ref->loss, WT_WITHIN(bound));
    for (int i = 0; i < s->n_in && good; i++) {
        if (!weft_requires_grad(in[i])) continue;
        good = wt_near_full(weft_grad(in[i]), ref->grad[i], WT_WITHIN(bound));
    }
    if (!good) {
        weft_placements_print(p, s->n_in, text, sizeof text);
        fprintf(stderr, "%s with %s: %s\n", wt_op_case_text(s->sample, WEFT_F64), text,
                weft_error_message());
    }
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
    if (index == 0) return weft_replicate();
    return index <= o->ndim ? weft_shard(index - 1) : weft_partial(WEFT_SUM);
}

/* Inputs one at a time, then all alike: together these reach every column of the rules. */
static void check_sample(const struct wt_op_case *sample, weft_mesh *mesh)
{
    weft_placement p[WF_MAX_IN] = {{0}};
    weft_scope *scope = weft_scope_open();
    struct wt_sampled s;
    struct reference ref;

    wt_sampled_open(&s, sample);
    ref = plain_reference(&s);
    WT_ALL(check_placed(&s, &ref, mesh, p));
    for (int i = 0; i < s.n_in; i++) {
        for (int index = 1; index < placements_of(&s.operand[i]); index++) {
            p[i] = numbered(&s.operand[i], index);
            WT_ALL(check_placed(&s, &ref, mesh, p));
        }
        p[i] = weft_replicate();
    }
    for (int index = 1; s.n_in > 1 && index < WEFT_MAX_DIMS; index++) {
        for (int i = 0; i < s.n_in; i++)
            p[i] = index < placements_of(&s.operand[i]) ? numbered(&s.operand[i], index)
                                                        : weft_replicate();
        WT_ALL(check_placed(&s, &ref, mesh, p));
    }
    for (int i = 0; i < WF_MAX_IN; i++) free(ref.grad[i]);
    free(ref.loss);
    wt_sampled_close(&s);
    weft_scope_close(scope);
}

WT_TEST(gradients__of_distributed_calls_equal_those_of_plain_ones)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());

    for (int c = 0; c < wt_op_case_count; c++) {
        const struct wt_op_case *sample = &wt_op_cases[c];

        if (sample->op == WF_OP_cast && sample->attr[0] != WEFT_F64) continue;
        if (wf_ops[sample->op].vjp && sample->dtypes >> WEFT_F64 & 1) check_sample(sample, mesh);
    }
    weft_mesh_release(mesh);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(gradients__of_distributed_calls_equal_those_of_plain_ones),
        WT_END,
    };

    return wt_main(argc, argv, "distributed gradients", cases);
}
