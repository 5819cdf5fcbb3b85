/*
 * plan.h: what is remembered of a call (design D4): its key, and everything that follows from it.
 *
 * Made by dtensor/plan_make.c, used by the door on every hit and by gradients, which read the
 * layouts of the forward's inputs from it.
 */
#pragma once

#include "ops/table.h"

struct wf_redist_plan;
/** How a plan is carried out. */
enum wf_way { WF_WAY_KERNEL, WF_WAY_VIEW, WF_WAY_META };

/** What is wrong with the types of a plan's inputs (dtensor/types.h); NULL reasons: nothing. */
struct wf_trouble {
    const char *wrong, *share;
    uint8_t wrong_input, wrong_axis;
    uint8_t no_gradient, share_axis; /* bits of inputs of which no gradient may be wanted */
};

struct wf_plan {
    /* key */
    uint64_t hash;
    uint16_t op;
    uint8_t n_in, n_attr;
    struct wf_layout *in[WF_MAX_IN];
    struct wf_layout *want;
    int64_t attr[WF_MAX_ATTR];
    const char *name; /* the op's, for messages; lives as long as the library */
    /* what follows */
    uint8_t n_out;
    uint8_t way;            /* enum wf_way */
    bool meta;              /* shapes only: no kernel, nothing is sent */
    uint8_t care;           /* what keeps it from being simply carried out: dtensor/care.h */
    bool warned;            /* the guard has logged it */
    bool absent[WF_MAX_IN]; /* an addend that another rank counts */
    struct wf_layout *used[WF_MAX_IN];      /* what the kernel gets */
    struct wf_redist_plan *move[WF_MAX_IN]; /* NULL: in[i] is used as it is */
    struct wf_layout *out[WF_MAX_OUT];      /* NULL: not made */
    size_t out_bytes[WF_MAX_OUT];
    uint8_t out_category[WF_MAX_OUT];
    int64_t view_offset, view_step; /* bytes */
    struct wf_kcall kernel;
    struct wf_trouble trouble;
    /* cache */
    int32_t refs;
    uint64_t stamp; /* when it was last hit */
};

/** The plan behind a recorded node. */
static inline const struct wf_plan *wf_node_plan(const struct wf_node *node)
{
    return node->context;
}

/** Layout of the forward's input i, for gradients that should come in it. */
static inline struct wf_layout *wf_node_in(const struct wf_node *node, int i)
{
    return wf_node_plan(node)->in[i];
}
