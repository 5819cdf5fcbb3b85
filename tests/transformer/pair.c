/* pair.c: a model on one device and spread, step by step. */
#include "transformer/pair.h"

#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"

struct pair pair_open(weft_module *one, weft_module *many, weft_dtype dtype)
{
    struct pair p = {.one = wt_own(one),
                     .many = wt_own(many),
                     .ledger = wt_own(weft_ledger_open()),
                     .dtype = dtype,
                     .near = WT_WITHIN(dtype == WEFT_F64 ? 1e-12 : 1e-5)};

    /* parallelizing moves the other */
    WT_EQ(weft_module_to_device(one, wt_device()), WEFT_OK);
    return p;
}

void pair_optimize(struct pair *p, weft_optim *(*make)(weft_module *m))
{
    p->optim_one = wt_own(make(p->one));
    p->optim_many = wt_own(make(p->many));
    WT_ALL(p->optim_one && p->optim_many);
}

/* ---- parameters ---- */

static weft_status freeze(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    char path[96];
    bool wanted = false;

    snprintf(path, sizeof path, "%s.%s", weft_module_path(m), name);
    for (const char *const *want = payload; *want; want++)
        wanted |= strncmp(path, *want, strlen(*want)) == 0;
    return weft_set_requires_grad(parameter, wanted) ? WEFT_OK : weft_error_status();
}

void pair_train_only(weft_module *m, const char *const *names)
{
    WT_EQ(weft_module_each_parameter(m, freeze, (void *)(uintptr_t)names), WEFT_OK);
}

/* A walk over all parameters, with one verdict at its end: every verdict is a collective. */
struct walk {
    const struct pair *p;
    bool good;
    char first_bad[96];
};

static void judge(struct walk *walk, const weft_module *m, const char *name, bool good)
{
    if (good || !walk->good) return;
    walk->good = false;
    snprintf(walk->first_bad, sizeof walk->first_bad, "%s.%s", weft_module_path(m), name);
}

static void walk_all(struct pair *p, weft_parameter_visitor *visit)
{
    struct walk walk = {.p = p, .good = true};

    WT_EQ(weft_module_each_parameter(p->many, visit, &walk), WEFT_OK);
    if (!walk.good) wt_note("%s", walk.first_bad);
    WT_ALL(walk.good);
}

static weft_tensor *other(const struct walk *walk, weft_module *m, const char *name)
{
    return weft_module_parameter(weft_module_child(walk->p->one, weft_module_path(m)), name);
}

/* A gradient lies as its parameter does: an optimizer has nothing to move. */
static bool lies_as(const weft_tensor *grad, const weft_tensor *parameter)
{
    return !weft_tensor_mesh(parameter) ||
           weft_placement_equal(weft_tensor_placement(grad, 0),
                                weft_tensor_placement(parameter, 0));
}

static weft_status same_gradient(weft_module *m, const char *name, weft_tensor *parameter,
                                 void *payload)
{
    struct walk *walk = payload;
    weft_tensor *want = weft_grad(other(walk, m, name)), *got = weft_grad(parameter);

    judge(walk, m, name, !want == !got);
    if (want && got)
        judge(walk, m, name, lies_as(got, parameter) && wt_near_tensors(got, want, walk->p->near));
    return WEFT_OK;
}

static weft_status drop_gradient(weft_module *m, const char *name, weft_tensor *parameter,
                                 void *payload)
{
    (void)m;
    (void)name;
    (void)payload;
    weft_zero_grad(parameter);
    return WEFT_OK;
}

void pair_gradients(struct pair *p)
{
    walk_all(p, same_gradient);
    WT_EQ(weft_module_each_parameter(p->one, drop_gradient, NULL), WEFT_OK);
    WT_EQ(weft_module_each_parameter(p->many, drop_gradient, NULL), WEFT_OK);
}

static weft_status same_value(weft_module *m, const char *name, weft_tensor *parameter,
                              void *payload)
{
    struct walk *walk = payload;

    judge(walk, m, name, wt_near_tensors(parameter, other(walk, m, name), walk->p->near));
    return WEFT_OK;
}

static weft_status count_partial(weft_module *m, const char *name, weft_tensor *parameter,
                                 void *payload)
{
    (void)m;
    (void)name;
    /* weft_grad would reduce it, so look at what the leaf holds */
    *(int *)payload += parameter->grad && parameter->grad->layout->partial;
    return WEFT_OK;
}

/* ---- steps ---- */

/* What was sent since the last time, in one direction and no other. */
static void check_sent(struct pair *p, weft_direction direction, struct pair_count count)
{
    const int wanted[] = {[WEFT_COLL_ALL_REDUCE] = count.all_reduce,
                          [WEFT_COLL_ALL_GATHER] = count.all_gather,
                          [WEFT_COLL_REDUCE_SCATTER] = count.reduce_scatter,
                          [WEFT_COLL_ALL_TO_ALL] = count.all_to_all};
    int64_t sum = 0;
    bool good = true;

    for (int kind = 0; kind <= WEFT_COLL_ALL_TO_ALL; kind++) {
        int64_t sent = weft_ledger_count(p->ledger, (weft_coll)kind, direction, NULL);

        if (good && sent != (wt_ranks() > 1 ? wanted[kind] : 0)) {
            wt_note("direction %d: %lld of kind %d, not %d", (int)direction, (long long)sent, kind,
                    wanted[kind]);
            good = false;
        }
        sum += sent;
    }
    WT_ALL(good);
    WT_EQ(weft_ledger_count(p->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), sum);
    weft_ledger_reset(p->ledger);
}

weft_tensor *pair_forward(struct pair *p, weft_tensor *x, weft_tensor **one,
                          struct pair_count count)
{
    weft_tensor *many;

    *one = weft_call(p->one, weft_to_device(x, wt_device()));
    weft_ledger_reset(p->ledger);
    many = weft_call(p->many, x);
    WT_ALL(many != NULL);
    check_sent(p, WEFT_DIRECTION_FORWARD, count);
    WT_ALL(wt_near_tensors(many, *one, p->near));
    return many;
}

/* A sum in which every element counts differently. */
static weft_tensor *weighted(weft_tensor *y)
{
    weft_tensor *weights = weft_reshape(
        weft_make_linspace((weft_spec){.dtype = WEFT_F64, .ndim = 1, .shape = {weft_numel(y)}}, -1,
                           1.5),
        y->layout->desc.global, weft_ndim(y));

    weights = weft_cast(weights, weft_tensor_dtype(y));
    if (weft_tensor_mesh(y))
        weights = weft_distribute_tensor(weights, weft_tensor_mesh(y), NULL, -1);
    return weft_sum_all(weft_mul(y, weights));
}

void pair_backward(struct pair *p, weft_tensor *one, weft_tensor *many, struct pair_count count,
                   int partial)
{
    weft_tensor *loss = weighted(many);
    int left = 0;

    WT_EQ(weft_backward(weighted(one)), WEFT_OK);
    weft_ledger_reset(p->ledger);
    WT_EQ(weft_backward(loss), WEFT_OK);
    check_sent(p, WEFT_DIRECTION_BACKWARD, count);
    WT_EQ(weft_module_each_parameter(p->many, count_partial, &left), WEFT_OK);
    WT_EQ(left, wt_ranks() > 1 ? partial : left);
}

void pair_step(struct pair *p, int partial)
{
    WT_EQ(weft_step(p->optim_one), WEFT_OK);
    weft_ledger_reset(p->ledger);
    WT_EQ(weft_step(p->optim_many), WEFT_OK);
    p->near = WT_WITHIN(p->dtype == WEFT_F64 ? 1e-8 : 1e-4);
    check_sent(p, WEFT_DIRECTION_OPTIM, (struct pair_count){.all_reduce = partial > 0});
    walk_all(p, same_value);
}
