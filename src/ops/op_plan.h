/*
 * op_plan.h: the cached plan of an op's call (docs/concepts/dispatch.md): the key, and all that was
 * derived from it.
 *
 * Made by dtensor/dispatch/plan_make.c; used by dispatch on every hit, and by gradients, which read
 * the layouts of the forward's inputs from it.
 */
#pragma once

#include "ops/op_table.h"

struct wf_redist_plan;
/** How a plan is carried out, once its inputs are where it wants them. */
enum wf_plan_execution {
    WF_EXECUTE_KERNEL,         /* outputs are made on the CPU, a kernel fills them */
    WF_EXECUTE_ON_DEVICE,      /* the same on this rank's device */
    WF_EXECUTE_VIEW,           /* another handle to the first input's bytes */
    WF_EXECUTE_REDISTRIBUTION, /* the input that was moved is the result */
    WF_EXECUTE_META            /* handles and counted bytes: nothing is computed */
};

/** What is wrong with the types of a plan's inputs (dtensor/dispatch/grad_types.h); NULL reasons:
 * nothing. */
struct wf_grad_type_problem {
    const char *wrong, *share;
    bool entering; /* the plain input becomes a distributed tensor: from_local */
    uint8_t wrong_input, wrong_axis;
    uint8_t no_gradient, share_axis; /* bits of inputs of which no gradient may be wanted */
};

struct wf_op_plan {
    /* key */
    uint64_t hash;
    uint16_t op;
    uint8_t n_in, attr_words;
    struct wf_layout *in[WF_MAX_IN];
    struct wf_layout *want;
    bool in_place; /* `want` is that of the tensor which the result is written over */
    bool depends_on_requires_grad; /* the layouts depend on requires_grad */
    bool requires_grad; /* some input does: part of the key where depends_on_requires_grad is set */
    union wf_op_attrs attrs; /* zeros after attr_words */
    const char *name;        /* the op's, for messages; lives as long as the library */
    /* what follows */
    uint8_t n_out;
    uint8_t way;                            /* enum wf_plan_execution */
    uint8_t device;                         /* weft_device of its outputs */
    bool meta;                              /* WEFT_META: shapes only: no kernel, nothing is sent */
    uint16_t slow_path;                     /* bits WF_SLOW_..: what the slow path has to check
                                               (dtensor/dispatch/slow_path.h) */
    bool warned;                            /* the guard has logged it */
    uint8_t cast, cast_to;                  /* inputs that are cast first, bits, and their dtype */
    bool absent[WF_MAX_IN];                 /* an addend that another rank counts */
    struct wf_layout *used[WF_MAX_IN];      /* what the kernel gets */
    struct wf_redist_plan *move[WF_MAX_IN]; /* NULL: in[i] is used as it is */
    struct wf_layout *out[WF_MAX_OUT];      /* NULL: not made */
    size_t out_bytes[WF_MAX_OUT];
    uint8_t out_category[WF_MAX_OUT];
    int64_t view_offset, view_step; /* bytes */
    struct wf_kernel_call kernel;
    struct wf_grad_type_problem grad_type_problem;
    /* cache */
    int32_t refs;
    uint64_t stamp; /* when it was last hit */
};

/** The plan behind a recorded node. */
static inline const struct wf_op_plan *wf_tape_node_op_plan(const struct wf_tape_node *node)
{
    return node->context;
}

/** What the row's column `saves` names: the forward's inputs as its kernel got them, and outputs.
 */
static inline weft_tensor *wf_saved_input(const struct wf_tape_node *node, int i)
{
    return node->saved[i];
}

static inline weft_tensor *wf_saved_output(const struct wf_tape_node *node, int j)
{
    return node->saved[WF_MAX_IN + j];
}

/** Layout of the forward's input i, for gradients that should come in it. */
static inline struct wf_layout *wf_tape_node_input_layout(const struct wf_tape_node *node, int i)
{
    return wf_tape_node_op_plan(node)->in[i];
}
