/*
 * graphs.c: graphs of the test driver: a list of what was given, each with a copy of its arguments,
 * in the order in which it was given. A launch runs it at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "device/device_driver.h"
#include "driver.h"

struct work {
    test_work *run;
    void *arguments;
    size_t bytes;
};

struct part {
    int first, end;
};

struct wf_device_graph {
    struct work *work;
    struct part *parts;
    int n_work, n_parts;
};

static _Thread_local struct {
    struct wf_device_graph *capturing, *updating;
    int captures, at, end;
    bool differs;
} state;

int test_graphs_capture(void) { return state.capturing ? state.captures : 0; }

bool test_graphs_take_work(void) { return state.capturing || state.updating; }

static void update_next(test_work *run, const void *arguments, size_t bytes)
{
    struct work *work = &state.updating->work[state.at];

    if (state.at == state.end || work->run != run || work->bytes != bytes) {
        state.differs = true;
        return;
    }
    memcpy(work->arguments, arguments, bytes);
    state.at++;
}

void test_graphs_add(test_work *run, const void *arguments, size_t bytes)
{
    struct wf_device_graph *g = state.capturing;

    if (state.updating) {
        update_next(run, arguments, bytes);
        return;
    }
    g->work = wf_array_grow(g->work, g->n_work, sizeof *g->work);
    g->work[g->n_work] = (struct work){run, wf_malloc(bytes), bytes};
    memcpy(g->work[g->n_work++].arguments, arguments, bytes);
}

static void begin(void)
{
    if (state.capturing) WF_DIE("test driver: a capture begins in another");
    state.capturing = WF_NEW(struct wf_device_graph);
    state.captures++;
}

static struct wf_device_graph *end(void)
{
    struct wf_device_graph *g = state.capturing;

    if (!g) WF_DIE("test driver: the end of no capture");
    state.capturing = NULL;
    return g;
}

static void part_begin(void)
{
    struct wf_device_graph *g = state.capturing;

    g->parts = wf_array_grow(g->parts, g->n_parts, sizeof *g->parts);
    g->parts[g->n_parts++] = (struct part){g->n_work, -1};
}

static void part_end(void)
{
    state.capturing->parts[state.capturing->n_parts - 1].end = state.capturing->n_work;
}

static void launch(struct wf_device_graph *g)
{
    if (test_graphs_take_work()) WF_DIE("test driver: a graph is launched in a capture");
    test_driver_run_all();
    for (int i = 0; i < g->n_work; i++) g->work[i].run(g->work[i].arguments);
}

static void update_begin(struct wf_device_graph *g, int part)
{
    state.updating = g;
    state.at = g->parts[part].first;
    state.end = g->parts[part].end;
    state.differs = false;
}

static bool update_end(void)
{
    state.updating = NULL;
    return !state.differs && state.at == state.end;
}

static void free_graph(struct wf_device_graph *g)
{
    for (int i = 0; i < g->n_work; i++) wf_free(g->work[i].arguments);
    wf_free(g->work);
    wf_free(g->parts);
    wf_free(g);
}

const struct wf_device_graphs test_graphs = {
    .begin = begin,
    .end = end,
    .part_begin = part_begin,
    .part_end = part_end,
    .launch = launch,
    .update_begin = update_begin,
    .update_end = update_end,
    .free = free_graph,
};
