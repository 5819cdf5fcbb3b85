/*
 * redistribute_between.h: from a layout on one mesh to a layout on another: who sends which
 * elements to whom, found by meeting parts, and the one exchange that carries it out.
 */
#pragma once

#include "placement/layout.h"

struct wf_redist_program;

enum wf_between_action { WF_BETWEEN_OWN, WF_BETWEEN_PACK, WF_BETWEEN_UNPACK };

struct wf_between {
    bool moves;  /* some rank, be it another one, needs elements that it has not */
    bool stays;  /* every rank that is to have elements had just those, and needs no copy */
    int me;      /* this rank's number in the world, or the one that is played */
    int n_ranks; /* of both meshes together; 0: this rank is in neither */
    int *ranks;  /* their world numbers, ascending */
    weft_dtype dtype;
    size_t *send_counts, *recv_counts; /* per such rank */
    struct wf_redist_program *program; /* copies: source to result, source to packed, packed to
                                          result */
};

/**
 * Neither layout is pending; both have the same shape and dtype. `from` may be strided, `to` is
 * row-major. Pure: every rank of the two meshes comes to the same exchange.
 * Both meshes have ranks behind them or neither has.
 *
 * A rank keeps what it has. Of the ranks that hold an element alike, the one with least to send so
 * far sends it, once per receiver. gives: wf_between_free
 */
struct wf_between *wf_between_new(const struct wf_layout *from, const struct wf_layout *to);
void wf_between_free(void *between);

/** This rank's part by `to` into `dst`. Collective over the ranks of both meshes when something
 *  moves; ranks in neither take no part. */
void wf_between_run(const struct wf_between *between, void *dst, const void *src);

/** Tell observers of the exchange that would be run. */
void wf_between_pretend(const struct wf_between *between);
