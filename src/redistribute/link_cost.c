/*
 * link_cost.c: the links of this thread, by axis name, and the time of one collective.
 * Names rather than meshes: a slice of a mesh has the links of its parent.
 */
#include "redistribute/link_cost.h"

#include <string.h>

#include "base/mem.h"
#include "base/settings/knob.h"

struct link_entry {
    struct link_entry *next;
    char *axis; /* NULL: all that have no entry of their own */
    struct wf_link link;
};

static _Thread_local struct link_entry *link_entries;

static struct link_entry *find_link(const char *axis)
{
    struct link_entry *e;

    for (e = link_entries; e; e = e->next)
        if (axis ? e->axis && strcmp(e->axis, axis) == 0 : !e->axis) return e;
    return NULL;
}

struct wf_link wf_link_of_axis(const char *axis)
{
    const struct link_entry *e = link_entries ? find_link(axis) : NULL;

    if (!e && link_entries) e = find_link(NULL);
    if (e) return e->link;
    return (struct wf_link){(double)wf_knobs.latency_ns / 1000, (double)wf_knobs.bandwidth_mbs};
}

struct wf_link wf_link_slowest(const struct wf_link *links, unsigned axes)
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

double wf_collective_time(struct wf_link link, int hops, double bytes)
{
    return link.latency * (1 + hops / wf_start_in_hops) + bytes / link.bandwidth;
}

void wf_link_set(const char *axis, struct wf_link link)
{
    struct link_entry *e = find_link(axis);

    if (!e) {
        e = WF_NEW(struct link_entry);
        e->axis = axis ? wf_strdup(axis) : NULL;
        e->next = link_entries;
        link_entries = e;
    }
    e->link = link;
}

void wf_link_finalize(void)
{
    while (link_entries) {
        struct link_entry *e = link_entries;

        link_entries = e->next;
        wf_free(e->axis);
        wf_free(e);
    }
}
