/*
 * link_settings.c: the latency and the bandwidth of an axis as the program sets or measures them.
 * Measured only when it asks: a plan must not depend on what a clock happened to say.
 */
#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "device/pool.h"
#include "dtensor/dispatch/plan_cache.h"
#include "mesh/mesh.h"
#include "redistribute/link_cost.h"
#include <weft/extend/redistribution.h>

weft_status weft_link_set(const char *axis, double latency_us, double megabytes_per_s)
{
    WF_NEED(latency_us >= 0 && megabytes_per_s > 0, WEFT_ERR_ARG,
            "weft_link_set: axis %s: a latency of %g us and a bandwidth of %g MB/s",
            axis ? axis : "(all)", latency_us, megabytes_per_s);
    wf_link_set(axis, (struct wf_link){latency_us, megabytes_per_s});
    wf_plan_cache_evict_all();
    return WEFT_OK;
}

void weft_link(const char *axis, double *latency_us, double *megabytes_per_s)
{
    struct wf_link link = wf_link_of_axis(axis);

    if (latency_us) *latency_us = link.latency;
    if (megabytes_per_s) *megabytes_per_s = link.bandwidth;
}

enum { SMALL = 1, LARGE = 1 << 18, ROUNDS = 7 }; /* elements that each rank sends */

static double min_double(double a, double b) { return a < b ? a : b; }

/* The best of some all-reduces of two values per rank: as many hops, as little to add. */
static double best_all_reduce_time(struct wf_comm *comm, struct wf_block *block, size_t count)
{
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = comm,
                           .reduce = WEFT_MAX,
                           .count = count,
                           .send = block->data,
                           .recv = block->data};
    double best = 1;

    for (int i = 0; i < ROUNDS; i++) {
        double began = wf_monotonic_seconds();

        wf_comm_run(&coll);
        best = min_double(best, wf_monotonic_seconds() - began);
    }
    return best;
}

static struct wf_link measure_link(struct wf_comm *comm, struct wf_block *block)
{
    int ways = wf_comm_size(comm), hops = 2 * (ways - 1);
    double sent = 2.0 * (ways - 1) / ways * (double)(LARGE * sizeof(float));
    double small = best_all_reduce_time(comm, block, SMALL) * 1e6,
           large = best_all_reduce_time(comm, block, LARGE) * 1e6;

    return (struct wf_link){.latency = small / (1 + hops / wf_start_in_hops),
                            .bandwidth = sent / (large > small ? large - small : small)};
}

/* The largest latency and the smallest bandwidth of all ranks, so that all plan alike. */
static void all_reduce_worst_link(weft_mesh *mesh, struct wf_link *link)
{
    double worst[2] = {link->latency, -link->bandwidth};

    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                               .comm = wf_mesh_axis_comm(mesh, a),
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
        link = measure_link(wf_mesh_axis_comm(mesh, a), block);
        all_reduce_worst_link(mesh, &link);
        if (status == WEFT_OK)
            status = weft_link_set(wf_mesh_axes_label(mesh, 1u << a), link.latency, link.bandwidth);
    }
    wf_block_release(block);
    return status;
}
