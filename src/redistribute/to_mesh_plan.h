/*
 * to_mesh_plan.h: from a layout on one mesh to a layout on another: who sends which
 * elements to whom, found by intersecting shards, and the one exchange that does it.
 */
#pragma once

#include "placement/layout.h"

struct wf_redist_program;

enum wf_to_mesh_action { WF_TO_MESH_COPY_OWN, WF_TO_MESH_PACK, WF_TO_MESH_UNPACK };

struct wf_to_mesh_plan {
    bool moves;  /* some rank, be it another one, needs elements that it has not */
    bool stays;  /* every rank that is to have elements had just those, and needs no copy */
    int me;      /* this rank's number in the world, or the simulated one's */
    int n_ranks; /* of both meshes together; 0: this rank is in neither */
    int *ranks;  /* their world numbers, ascending */
    weft_dtype dtype;
    weft_device device;                /* of the elements, before and after */
    size_t *send_counts, *recv_counts; /* per such rank */
    struct wf_redist_program *program; /* copies: source to result, source to packed, packed to
                                          result */
};

/**
 * Neither layout is partial; both have the same shape and dtype. `from` may be strided, `to` is
 * row-major. Pure: every rank of the two meshes comes to the same exchange.
 * Both meshes have ranks behind them or neither has.
 *
 * A rank keeps what it has. Of the ranks that hold an element alike, the one with least to send so
 * far sends it, once per receiver. gives: wf_to_mesh_plan_free
 */
struct wf_to_mesh_plan *wf_to_mesh_plan_new(const struct wf_layout *from,
                                            const struct wf_layout *to);
void wf_to_mesh_plan_free(void *plan);

/** This rank's shard by `to` into `dst`. Collective over the ranks of both meshes when something
 *  moves; ranks in neither are not in it. */
void wf_to_mesh_run(const struct wf_to_mesh_plan *plan, void *dst, const void *src);

/** Tell observers of the exchange that would be run. */
void wf_to_mesh_simulate(const struct wf_to_mesh_plan *plan);
