/*
 * redistribute_measure.c: what collectives take on this machine. Only when a program asks: a plan
 * must not depend on what a clock happened to say.
 */
#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "device/pool.h"
#include "dtensor/redistribute_cost.h"
#include "mesh/mesh.h"
#include <weft/dtensor.h>

enum { SMALL = 1, LARGE = 1 << 18, ROUNDS = 7 }; /* elements that each rank sends */

static double smaller(double a, double b) { return a < b ? a : b; }

/* The best of some all-reduces of two values per rank: as many hops, as little to add. */
static double best_time(struct wf_comm *comm, struct wf_block *block, size_t count)
{
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = comm,
                           .reduce = WEFT_MAX,
                           .count = count,
                           .send = block->data,
                           .recv = block->data};
    double best = 1;

    for (int i = 0; i < ROUNDS; i++) {
        double began = wf_now();

        wf_comm_run(&coll);
        best = smaller(best, wf_now() - began);
    }
    return best;
}

static struct wf_link measure(struct wf_comm *comm, struct wf_block *block)
{
    int ways = wf_comm_size(comm), hops = 2 * (ways - 1);
    double sent = 2.0 * (ways - 1) / ways * LARGE * sizeof(float);
    double small = best_time(comm, block, SMALL) * 1e6, large = best_time(comm, block, LARGE) * 1e6;

    return (struct wf_link){.latency = small / (1 + (double)hops / WF_START_IN_HOPS),
                            .bandwidth = sent / (large > small ? large - small : small)};
}

/* The largest latency and the smallest bandwidth of all ranks, so that all plan alike. */
static void agree(weft_mesh *mesh, struct wf_link *link)
{
    double worst[2] = {link->latency, -link->bandwidth};

    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                               .comm = wf_mesh_comm(mesh, a),
                               .dtype = WEFT_F64,
                               .reduce = WEFT_MAX,
                               .count = 2,
                               .send = worst,
                               .recv = worst};

        wf_comm_run(&coll);
    }
    *link = (struct wf_link){worst[0], -worst[1]};
}

weft_status weft_link_measure(weft_mesh *mesh)
{
    struct wf_block *block;
    weft_status status = WEFT_OK;

    if (!mesh) return WF_FAIL(WEFT_ERR_ARG, "link_measure: no mesh");
    WF_NEED(weft_mesh_is_member(mesh) && !weft_mesh_is_fake(mesh), WEFT_ERR_COMM,
            "link_measure: this rank is not in the mesh, or there are no ranks behind it");
    block = wf_block_new(LARGE * sizeof(float), WF_MEM_COMM);
    if (!block) WF_DIE("link_measure: %s", weft_error_message());
    memset(block->data, 0, LARGE * sizeof(float));
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        struct wf_link link;

        if (weft_mesh_axis_size(mesh, a) == 1) continue;
        link = measure(wf_mesh_comm(mesh, a), block);
        agree(mesh, &link);
        if (status == WEFT_OK)
            status = weft_link_set(wf_mesh_line_name(mesh, 1u << a), link.latency, link.bandwidth);
    }
    wf_block_release(block);
    return status;
}
