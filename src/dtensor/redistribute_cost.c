/*
 * redistribute_cost.c: the links of this thread, by axis name, and the time of one collective.
 * Names rather than meshes: a slice of a mesh has the links of its parent.
 */
#include "dtensor/redistribute_cost.h"

#include <string.h>

#include "base/error.h"
#include "base/knob.h"
#include "base/mem.h"
#include "dtensor/plan.h"
#include <weft/dtensor.h>

struct entry {
    struct entry *next;
    char *axis; /* NULL: all that have no entry of their own */
    struct wf_link link;
};

static _Thread_local struct entry *entries;

static struct entry *find(const char *axis)
{
    struct entry *e;

    for (e = entries; e; e = e->next)
        if (axis ? e->axis && strcmp(e->axis, axis) == 0 : !e->axis) return e;
    return NULL;
}

struct wf_link wf_link_of(const char *axis)
{
    const struct entry *e = entries ? find(axis) : NULL;

    if (!e && entries) e = find(NULL);
    if (e) return e->link;
    return (struct wf_link){(double)wf_knobs.latency_ns / 1000, (double)wf_knobs.bandwidth_mbs};
}

struct wf_link wf_link_worst(const struct wf_link *links, unsigned axes)
{
    struct wf_link worst = {0, 0};

    for (int a = 0; axes >> a; a++) {
        if (!(axes >> a & 1)) continue;
        if (links[a].latency > worst.latency) worst.latency = links[a].latency;
        if (worst.bandwidth == 0 || links[a].bandwidth < worst.bandwidth)
            worst.bandwidth = links[a].bandwidth;
    }
    return worst;
}

double wf_link_time(struct wf_link link, int hops, double bytes)
{
    return link.latency * (1 + (double)hops / WF_START_IN_HOPS) + bytes / link.bandwidth;
}

weft_status weft_link_set(const char *axis, double latency_us, double megabytes_per_s)
{
    struct entry *e = find(axis);

    WF_NEED(latency_us >= 0 && megabytes_per_s > 0, WEFT_ERR_ARG,
            "weft_link_set: axis %s: a latency of %g us and a bandwidth of %g MB/s",
            axis ? axis : "(all)", latency_us, megabytes_per_s);
    if (!e) {
        e = WF_NEW(struct entry);
        e->axis = axis ? wf_strdup(axis) : NULL;
        e->next = entries;
        entries = e;
    }
    e->link = (struct wf_link){latency_us, megabytes_per_s};
    wf_plan_forget_all();
    return WEFT_OK;
}

void weft_link(const char *axis, double *latency_us, double *megabytes_per_s)
{
    struct wf_link link = wf_link_of(axis);

    if (latency_us) *latency_us = link.latency;
    if (megabytes_per_s) *megabytes_per_s = link.bandwidth;
}

void wf_link_finalize(void)
{
    while (entries) {
        struct entry *e = entries;

        entries = e->next;
        wf_free(e->axis);
        wf_free(e);
    }
}
