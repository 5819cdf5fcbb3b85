/* trace.c: records what this rank does. Text is made while recording, because plans may be evicted
 * from the cache.
 */
#include "debug/trace.h"

#include <math.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "device/timeline.h"
#include "dtensor/dispatch/slow_path.h"
#include "nn/module.h"
#include "redistribute/redistribute.h"

/* The lines of an op's redistributions: "input 0 implicit: tp: S(0)->R all-gather". */
static char *describe_redistributions(const struct wf_op_plan *plan)
{
    const char *who = plan->slow_path & WF_SLOW_EXPLICIT_MOVE ? "explicit" : "implicit";
    char *lines = NULL;

    for (int i = 0; i < plan->n_in; i++) {
        char steps[512], *more;

        if (!plan->move[i] || plan->move[i]->n_steps == 0) continue;
        wf_redist_print(plan->move[i], steps, sizeof steps);
        more =
            wf_format("%s%sinput %d %s: %s", lines ? lines : "", lines ? "\n" : "", i, who, steps);
        wf_free(lines);
        lines = more;
    }
    return lines;
}

static char *describe_event(const struct wf_event *event)
{
    char text[1000];

    if (event->kind == WF_EVENT_LEAVE) {
        const weft_module *m = event->subject;

        return wf_format("%s%s%s", m->path, m->path[0] ? " " : "", m->kind->type);
    }
    if (event->kind == WF_EVENT_COLL) return wf_strdup(event->name);
    wf_op_plan_print(event->subject, text, sizeof text);
    return wf_strdup(text);
}

static void append_trace_record(weft_trace *trace, struct wf_trace_record r)
{
    if (trace->n_records == trace->room) {
        size_t room = trace->room ? 2 * (size_t)trace->room : 256;

        trace->records = wf_realloc(trace->records, room * sizeof *trace->records);
        trace->open = wf_realloc(trace->open, room * sizeof *trace->open);
        trace->room = (int)room;
    }
    trace->records[trace->n_records++] = r;
}

/*
 * Something ends after what happened inside it: those are the last records that are still at top
 * level and ended after it began. A collective contains nothing, however long it was in flight.
 */
static void nest_trace_record(weft_trace *trace, int index)
{
    const struct wf_trace_record *r = &trace->records[index];
    int *n = &trace->n_open;

    while (r->kind != WF_EVENT_COLL && *n && trace->records[trace->open[*n - 1]].ended > r->began)
        trace->records[trace->open[--*n]].parent = index;
    trace->open[(*n)++] = index;
}

/* This rank's elements as numbers, so that layouts of memory do not matter. */
static void hash_op_result(struct wf_trace_record *r, const weft_tensor *t)
{
    int64_t n = t ? weft_local_numel(t) : 0;
    double *values = wf_malloc((size_t)n * sizeof *values);

    if (t && weft_tensor_device(t) != WEFT_META && weft_read_f64(t, values, n) == WEFT_OK) {
        r->hash = wf_hash_bytes(values, (size_t)n * sizeof *values);
        for (int64_t i = 0; i < n; i++) r->norm += values[i] * values[i];
        r->norm = sqrt(r->norm);
    }
    wf_free(values);
}

/* Hashing may wait for a collective in flight, which adds another record first. */
static void record_trace_event(const struct wf_event *event, void *payload)
{
    weft_trace *trace = payload;
    struct wf_trace_record r = {
        .kind = event->kind,
        .phase = event->where.phase,
        .text = describe_event(event),
        .module = wf_strdup(event->where.module ? event->where.module : ""),
        .moves = event->kind == WF_EVENT_OP ? describe_redistributions(event->subject) : NULL,
        .axis = wf_strdup(event->axis),
        .bytes = event->bytes,
        .sent = event->sent,
        .began = event->began,
        .ended = wf_monotonic_seconds(),
        .parent = -1};

    if (trace->hashes && event->kind == WF_EVENT_OP) hash_op_result(&r, event->result);
    append_trace_record(trace, r);
    nest_trace_record(trace, trace->n_records - 1);
}

/* Ranks' clocks may differ: each counts from here. */
static void barrier_over_world(void)
{
    struct wf_coll coll = {.kind = WEFT_COLL_BARRIER, .comm = wf_comm_world()};
    unsigned observed = wf_observed_events;

    wf_observed_events = 0;
    wf_comm_run(&coll);
    wf_observed_events = observed;
}

static _Thread_local weft_trace *open_traces;

weft_trace *weft_trace_open(const char *path)
{
    weft_trace *trace = WF_NEW(weft_trace);

    if (path) barrier_over_world();
    trace->path = path ? wf_strdup(path) : NULL;
    trace->began = wf_monotonic_seconds();
    trace->first_span = wf_timeline_start();
    trace->end_span = -1;
    trace->next = open_traces;
    open_traces = trace;
    trace->observer =
        wf_observer_add(WF_EVENT_OP | WF_EVENT_COLL | WF_EVENT_LEAVE, record_trace_event, trace);
    return trace;
}

void weft_trace_hash_results(weft_trace *trace)
{
    WF_NEED_VOID(trace, WEFT_ERR_ARG, "trace hash results: no trace");
    trace->hashes = true;
}

void weft_trace_stop(weft_trace *trace)
{
    WF_NEED_VOID(trace, WEFT_ERR_ARG, "trace stop: no trace");
    if (trace->observer < 0) return;
    wf_observer_remove(trace->observer);
    trace->observer = -1;
    trace->end_span = wf_timeline_length();
}

weft_status weft_trace_close(weft_trace *trace)
{
    weft_status status = WEFT_OK;
    weft_trace **at = &open_traces;

    if (!trace) return WEFT_OK;
    while (*at && *at != trace) at = &(*at)->next;
    WF_NEED(*at, WEFT_ERR_STATE,
            "trace_close: the trace was closed before, or is another thread's");
    *at = trace->next;
    weft_trace_stop(trace);
    if (trace->path) status = wf_trace_write_file(trace);
    wf_timeline_stop();
    for (int i = 0; i < trace->n_records; i++) {
        wf_free(trace->records[i].text);
        wf_free(trace->records[i].module);
        wf_free(trace->records[i].moves);
        wf_free(trace->records[i].axis);
    }
    wf_free(trace->records);
    wf_free(trace->open);
    wf_free(trace->path);
    wf_free(trace);
    return status;
}
