/*
 * capture.c: captures and graphs of this thread, on the driver's (device_driver.h). It decides when
 * a capture ends, what a launch does on the host, and when a graph leaves the device; which memory
 * is the graph's is pool_reserve.c's.
 */
#include "device/capture.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "device/device.h"
#include "device/pool_reserve.h"

enum { WHY_BYTES = 256 };

struct call {
    struct wf_changing_call is;
    int part; /* -1: without kernels */
};

struct wf_graph {
    struct wf_graph *next, **link;     /* in the list of those that are on the device */
    struct wf_device_graph *of_device; /* NULL: not yet, or no longer */
    struct wf_reserve *reserve;
    struct call *calls;
    int n_calls, n_parts;
    bool has_collectives;
};

struct wf_capture {
    struct wf_graph *graph;
    unsigned number;
    char why[WHY_BYTES];          /* the graph has no use; empty: it has */
    char local_reason[WHY_BYTES]; /* why this rank has left it, and others may not have; empty: it
                                   * has not
                                   */
};

_Thread_local struct wf_capture *wf_capture_of_thread;
static _Thread_local struct wf_capture begun; /* until wf_capture_end, also when it was left */
static _Thread_local struct wf_graph *on_device;

unsigned wf_capture_number(void) { return wf_capture_of_thread ? begun.number : 0; }

bool wf_capture_is_open(void) { return begun.graph != NULL; }

const char *wf_capture_begin(bool keeps)
{
    if (begun.graph) return "another step is being captured";
    if (!wf_device_driver) return "this rank has no GPU";
    if (!wf_device_driver->graphs) return "the device has no graphs";
    begun.why[0] = 0;
    begun.local_reason[0] = 0;
    begun.number++;
    begun.graph = WF_NEW(struct wf_graph);
    begun.graph->reserve = wf_reserve_open(keeps);
    wf_device_driver->graphs->begin();
    wf_capture_of_thread = &begun;
    return NULL;
}

/* ---- during a capture ---- */

void wf_capture_add_call(struct wf_changing_call call)
{
    const struct wf_device_graphs *graphs = wf_device_driver->graphs;
    struct wf_graph *graph = begun.graph;
    int part = call.give ? graph->n_parts++ : -1;

    if (call.give) {
        graphs->part_begin();
        call.give(call.self);
        if (wf_capture_of_thread) graphs->part_end(); /* else the call has left the capture */
    }
    graph->calls = wf_array_grow(graph->calls, graph->n_calls, sizeof *graph->calls);
    graph->calls[graph->n_calls++] = (struct call){call, part};
}

static void call_around_launch(struct wf_graph *graph, bool after)
{
    for (int i = 0; i < graph->n_calls; i++)
        if (graph->calls[i].is.around_launch)
            graph->calls[i].is.around_launch(graph->calls[i].is.self, after);
}

static void launch(struct wf_graph *graph)
{
    call_around_launch(graph, false);
    wf_device_driver->graphs->launch(graph->of_device);
    call_around_launch(graph, true);
}

/* ---- on the device ---- */

static void add_to_device(struct wf_graph *graph)
{
    graph->of_device = wf_device_driver->graphs->end();
    graph->next = on_device;
    graph->link = &on_device;
    if (on_device) on_device->link = &graph->next;
    on_device = graph;
}

static void free_device_graph(struct wf_graph *graph)
{
    wf_device_driver->graphs->free(graph->of_device);
    wf_reserve_free(graph->reserve);
    graph->of_device = NULL;
    graph->reserve = NULL;
    *graph->link = graph->next;
    if (graph->next) graph->next->link = graph->link;
}

void wf_graphs_close(void)
{
    while (on_device) free_device_graph(on_device);
}

bool wf_graph_is_closed(const struct wf_graph *graph) { return !graph->of_device; }

static void run_captured(void)
{
    wf_capture_of_thread = NULL;
    if (wf_reserve_close(begun.graph->reserve) && !begun.why[0])
        snprintf(begun.why, sizeof begun.why,
                 "it releases a tensor on the GPU that was made before it");
    add_to_device(begun.graph);
    launch(begun.graph);
}

#define KEEP_FIRST_REASON(text, format)                                                            \
    do {                                                                                           \
        va_list args;                                                                              \
                                                                                                   \
        va_start(args, format);                                                                    \
        if (!(text)[0]) vsnprintf((text), WHY_BYTES, format, args);                                \
        va_end(args);                                                                              \
    } while (0)

void wf_capture_leave(const char *format, ...)
{
    if (!wf_capture_of_thread) return;
    KEEP_FIRST_REASON(begun.why, format);
    run_captured();
}

static _Noreturn void die_for_local_reason(void)
{
    WF_DIE("this rank cannot capture the step, whose collectives other ranks may capture: %s; "
           "leave more memory free, or run the step without a graph on all ranks",
           begun.local_reason);
}

void wf_capture_leave_for_local_reason(const char *format, ...)
{
    if (!wf_capture_of_thread) return;
    KEEP_FIRST_REASON(begun.local_reason, format);
    if (begun.graph->has_collectives) die_for_local_reason();
    wf_capture_leave("%s", begun.local_reason);
}

void wf_capture_note_collective(void)
{
    if (!begun.graph) return;
    if (begun.local_reason[0]) die_for_local_reason();
    if (wf_capture_of_thread) begun.graph->has_collectives = true;
}

void wf_capture_forbid(const char *format, ...)
{
    if (!wf_capture_of_thread) return;
    KEEP_FIRST_REASON(begun.why, format);
}

struct wf_graph *wf_capture_end(char *why, size_t room)
{
    struct wf_graph *graph = begun.graph;

    if (wf_capture_of_thread) run_captured();
    begun.graph = NULL;
    if (!begun.why[0]) return graph;
    snprintf(why, room, "%s", begun.why);
    wf_graph_free(graph);
    return NULL;
}

/* ---- launches ---- */

static void advance(const struct call *call, int by)
{
    if (call->is.advance) call->is.advance(call->is.self, by);
}

static bool give_again(struct wf_graph *graph, const struct call *call)
{
    const struct wf_device_graphs *graphs = wf_device_driver->graphs;

    advance(call, 1);
    if (!call->is.give) return true;
    graphs->update_begin(graph->of_device, call->part);
    call->is.give(call->is.self);
    return graphs->update_end();
}

bool wf_graph_launch(struct wf_graph *graph)
{
    int i = 0;

    while (i < graph->n_calls && give_again(graph, &graph->calls[i])) i++;
    if (i < graph->n_calls) {
        if (graph->has_collectives)
            WF_DIE("this rank cannot launch the graph of a step, whose collectives other ranks may "
                   "launch: an optimizer or a draw takes other kernels than when it was captured");
        for (; i >= 0; i--) advance(&graph->calls[i], -1);
        return false;
    }
    wf_reserve_record_writes(graph->reserve);
    launch(graph);
    return true;
}

bool wf_graph_has_collectives(const struct wf_graph *graph) { return graph->has_collectives; }

void wf_graph_free(struct wf_graph *graph)
{
    if (!graph) return;
    for (int i = 0; i < graph->n_calls; i++)
        if (graph->calls[i].is.release) graph->calls[i].is.release(graph->calls[i].is.self);
    if (graph->of_device) free_device_graph(graph);
    wf_free(graph->calls);
    wf_free(graph);
}
