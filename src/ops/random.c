/*
 * random.c: random ops. A draw is numbered by the thread's generator, an element by its global
 * index, so every rank gets its part of the same numbers and all generators stay in step.
 */
#include "ops/random.h"

#include <weft/ops.h>
#include <weft/random.h>

#include <string.h>

#include "base/error.h"
#include "ops/families.h"
#include "ops/plan.h"

_Thread_local struct wf_generator wf_generator;

void weft_manual_seed(uint64_t seed) { wf_generator = (struct wf_generator){.seed = seed}; }

/* Ops without inputs take everything from the wanted layout. */
weft_status wf_shape_want(struct wf_infer *call)
{
    wf_infer_like(call, 0, call->want);
    return WEFT_OK;
}

static weft_status fill_in_place(enum wf_op op, weft_tensor *t, double first, double second)
{
    struct wf_args args = {.scalars.s = {first, second}};

    if (!t)
        return weft_error_status() ? weft_error_status()
                                   : WF_FAIL(WEFT_ERR_ARG, "%s: no tensor", wf_ops[op].name);
    WF_NEED(!t->node, WEFT_ERR_STATE, "%s: values on the tape cannot change in place",
            wf_ops[op].name);
    WF_NEED(t->layout->desc.contiguous, WEFT_ERR_STATE, "%s: the tensor is a strided view",
            wf_ops[op].name);
    WF_NEED(op == WF_OP_fill || !t->layout->partial, WEFT_ERR_LAYOUT,
            "%s: the terms of a pending sum would not add up to random numbers", wf_ops[op].name);
    args.scalars.v[0] = (int64_t)wf_generator.seed;
    args.scalars.v[1] = (int64_t)wf_generator.draw;
    args.want = t->layout;
    args.into = t;
    if (!wf_call(op, 0, NULL, &args)) return weft_error_status();
    if (op != WF_OP_fill) wf_generator.draw++;
    return WEFT_OK;
}

weft_status weft_uniform_(weft_tensor *t, double low, double high)
{
    return fill_in_place(WF_OP_uniform, t, low, high);
}

weft_status weft_normal_(weft_tensor *t, double mean, double std)
{
    return fill_in_place(WF_OP_normal, t, mean, std);
}

weft_status weft_fill_(weft_tensor *t, double value)
{
    return fill_in_place(WF_OP_fill, t, value, 0);
}

void wf_vjp_dropout(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_args args = {.scalars.s = {n->s[0]}, .scalars.v = {n->v[0], n->v[1]}};

    in[0] = wf_call(WF_OP_dropout, 1, &g, &args);
}

weft_tensor *weft_dropout(weft_tensor *x, double p)
{
    struct wf_args args = {.scalars.s = {p}};

    if (!x) return NULL;
    WF_NEED_PTR(p >= 0 && p <= 1, WEFT_ERR_ARG, "dropout: probability %g", p);
    args.scalars.v[0] = (int64_t)wf_generator.seed;
    args.scalars.v[1] = (int64_t)wf_generator.draw++;
    return wf_call(WF_OP_dropout, 1, &x, &args);
}
