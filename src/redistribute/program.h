/*
 * program.h: the actions of a plan on this rank: copies, fills, collectives over
 * numbered buffers. Buffer 0 is the source; the others are blocks that live while they are used.
 */
#pragma once

#include "base/elements/strided_copy.h"
#include "redistribute/redistribute.h"
#include <weft/types.h>

enum wf_redist_act {
    WF_ACT_COPY,   /* all copies, from buffer src to buffer dst */
    WF_ACT_FILL,   /* dst = the element that the reduction leaves unchanged */
    WF_ACT_COLL,   /* a collective over `axes`, from src (at src_offset) to dst */
    WF_ACT_DIVIDE, /* dst / divisor: the end of an average */
    WF_ACT_POWER,  /* |dst| ^ power: before a norm's terms are summed, and 1 / power after it */
};

struct wf_redist_action {
    uint8_t act;
    uint8_t src, dst;
    uint8_t axes;
    bool makes;                /* dst is a new block */
    bool drops_src, drops_dst; /* no later action uses it, and it is not the source; both never name
                                  one buffer */
    int64_t src_offset;        /* bytes */
    /* WF_ACT_COPY */
    int n_copies;
    struct wf_strided_copy *copies;
    /* WF_ACT_FILL */
    unsigned char element[8];
    /* WF_ACT_COLL */
    weft_coll coll;
    weft_reduce reduce;
    size_t count;
    size_t *send_counts, *recv_counts; /* NULL where the collective has none */
    /* WF_ACT_DIVIDE, WF_ACT_POWER */
    int divisor;
    double power;
};

struct wf_redist_buffer {
    int64_t elements;
    enum wf_category category;
};

/** Per step a buffer of its own, a packed, a received and an unpacked one; source and result. */
enum { WF_REDIST_MAX_BUFFERS = 4 * WF_REDIST_MAX_STEPS + 2 };

_Static_assert(WF_REDIST_MAX_BUFFERS <= UINT8_MAX, "an action numbers buffers with a byte");

struct wf_redist_program {
    int n_actions, n_buffers;
    int result; /* buffer */
    struct wf_redist_action *actions;
    struct wf_redist_buffer buffers[WF_REDIST_MAX_BUFFERS];
};

/** The program of a plan whose steps and layouts are filled in; writes what each step sends to the
 *  steps. gives: wf_redist_program_free */
struct wf_redist_program *wf_redist_program_new(struct wf_redist_plan *plan);
void wf_redist_program_free(struct wf_redist_program *program);
