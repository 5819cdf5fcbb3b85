/*
 * trace_chrome.c: traces in the JSON that Chrome's and Perfetto's viewers read: one process, a
 * thread per rank, complete events ("X") in microseconds since the trace was opened. A rank with a
 * device has two threads more, for what its streams ran.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/observers.h"
#include "base/text/json_writer.h"
#include "comm/comm.h"
#include "debug/ledger.h"
#include "debug/trace.h"
#include "device/timeline.h"

static int row_of_rank(void) { return wf_comm_rank(wf_comm_world()); }

/* Below those of all ranks. */
static int row_of_stream(enum wf_stream stream)
{
    return wf_comm_size(wf_comm_world()) + WF_STREAMS * row_of_rank() + (int)stream;
}

static void begin_chrome_event(struct wf_json_writer *json, int row, const char *name,
                               const char *category, const char *kind, double at)
{
    wf_json_begin_container(json, NULL, '{');
    wf_json_write_string(json, "name", name);
    wf_json_write_string(json, "cat", category);
    wf_json_write_string(json, "ph", kind);
    wf_json_write_real(json, "ts", 1e6 * at);
    wf_json_write_int(json, "pid", 0);
    wf_json_write_int(json, "tid", row);
}

static void begin_complete_event_in(struct wf_json_writer *json, int row, const char *name,
                                    const char *category, double from, double to)
{
    begin_chrome_event(json, row, name, category, "X", from);
    wf_json_write_real(json, "dur", 1e6 * (to - from));
}

static void begin_complete_event(struct wf_json_writer *json, const char *name,
                                 const char *category, double from, double to)
{
    begin_complete_event_in(json, row_of_rank(), name, category, from, to);
}

static void write_thread_name(struct wf_json_writer *json, int row, const char *suffix)
{
    char *name = wf_format("rank %d%s", wf_comm_rank(wf_comm_world()), suffix);

    begin_chrome_event(json, row, "thread_name", "__metadata", "M", 0);
    wf_json_begin_container(json, "args", '{');
    wf_json_write_string(json, "name", name);
    wf_json_end_container(json, '}');
    wf_json_end_container(json, '}');
    wf_free(name);
}

static void write_op_event(struct wf_json_writer *json, const struct wf_trace_record *r,
                           double zero)
{
    /* "linear(f32[8,16] ..." -> "linear" */
    char *name = wf_format("%.*s", (int)strcspn(r->text, "("), r->text);

    begin_complete_event(json, name, "op", r->began - zero, r->ended - zero);
    wf_json_begin_container(json, "args", '{');
    wf_json_write_string(json, "plan", r->text);
    wf_json_write_string(json, "module", r->module);
    wf_json_write_string(json, "direction", wf_phase_name(r->phase));
    if (r->moves) wf_json_write_string(json, "redistribute", r->moves);
    wf_json_end_container(json, '}');
    wf_json_end_container(json, '}');
    wf_free(name);
}

static void write_collective_args(struct wf_json_writer *json, const struct wf_trace_record *r)
{
    wf_json_begin_container(json, "args", '{');
    wf_json_write_string(json, "axis", r->axis);
    wf_json_write_int(json, "bytes", (int64_t)r->bytes);
    wf_json_write_int(json, "sent", (int64_t)r->sent);
    wf_json_write_string(json, "module", r->module);
    wf_json_write_string(json, "direction", wf_phase_name(r->phase));
    wf_json_end_container(json, '}');
    wf_json_end_container(json, '}');
}

/* Ranges of one row must nest. A collective that was in flight meanwhile does not, and becomes a
 * pair of asynchronous events. */
static void write_collective_event(struct wf_json_writer *json, const weft_trace *trace, int index)
{
    const struct wf_trace_record *r = &trace->records[index];
    const struct wf_trace_record *up = r->parent < 0 ? NULL : &trace->records[r->parent];
    bool overlaps = index && r[-1].ended > r->began;

    if (!overlaps && (!up || up->began <= r->began)) {
        begin_complete_event(json, r->text, "collective", r->began - trace->began,
                             r->ended - trace->began);
        write_collective_args(json, r);
        return;
    }
    for (int end = 0; end < 2; end++) {
        begin_chrome_event(json, row_of_rank(), r->text, "collective", end ? "e" : "b",
                           (end ? r->ended : r->began) - trace->began);
        wf_json_write_int(json, "id", index);
        write_collective_args(json, r);
    }
}

static void write_record_event(struct wf_json_writer *json, const weft_trace *trace, int index)
{
    const struct wf_trace_record *r = &trace->records[index];

    if (r->kind == WF_EVENT_OP) {
        write_op_event(json, r, trace->began);
    } else if (r->kind == WF_EVENT_COLL) {
        write_collective_event(json, trace, index);
    } else {
        begin_complete_event(json, r->text, "module", r->began - trace->began,
                             r->ended - trace->began);
        wf_json_end_container(json, '}');
    }
}

/* Outside forward no module is called: consecutive records of one module make its range. */
static void write_phase_events(struct wf_json_writer *json, const weft_trace *trace)
{
    const struct wf_trace_record *first = NULL, *last = NULL;

    for (int i = 0; i <= trace->n_records; i++) {
        const struct wf_trace_record *r = i < trace->n_records ? &trace->records[i] : NULL;
        bool joins = r && first && r->phase == first->phase && !strcmp(r->module, first->module);
        char *name;

        if (r && r->parent >= 0) continue;
        if (joins && r->began >= last->ended) {
            last = r;
            continue;
        }
        if (first) {
            name = wf_format("%s%s%s", wf_phase_name(first->phase), first->module[0] ? " " : "",
                             first->module);
            begin_complete_event(json, name, "module", first->began - trace->began,
                                 last->ended - trace->began);
            wf_json_end_container(json, '}');
            wf_free(name);
        }
        first = last = r && r->phase != WF_FORWARD ? r : NULL;
    }
}

/* ---- what the device ran ---- */

static void write_span_event(struct wf_json_writer *json, const weft_trace *trace,
                             const struct wf_span *span, const struct wf_span *all, int n)
{
    begin_complete_event_in(json, row_of_stream(span->stream), span->name, "gpu",
                            span->began - trace->began, span->ended - trace->began);
    if (span->stream == WF_STREAM_COMM) {
        wf_json_begin_container(json, "args", '{');
        wf_json_write_real(json, "exposed", 1e6 * wf_span_exposed(span, all, n));
        wf_json_end_container(json, '}');
    }
    wf_json_end_container(json, '}');
}

static void write_stream_events(struct wf_json_writer *json, const weft_trace *trace)
{
    int n, first = trace->first_span;
    const struct wf_span *spans = wf_timeline_read(&n);

    if (trace->end_span >= 0) n = trace->end_span;
    if (n == first) return;
    write_thread_name(json, row_of_stream(WF_STREAM_COMPUTE), ", compute stream");
    write_thread_name(json, row_of_stream(WF_STREAM_COMM), ", communication stream");
    for (int i = first; i < n; i++)
        write_span_event(json, trace, &spans[i], spans + first, n - first);
}

void wf_trace_write_events(const weft_trace *trace, FILE *out)
{
    struct wf_json_writer json = {.out = out,
                                  .depth = 1}; /* inside the list of all ranks' events */

    write_thread_name(&json, row_of_rank(), "");
    write_phase_events(&json, trace);
    for (int i = 0; i < trace->n_records; i++) write_record_event(&json, trace, i);
    write_stream_events(&json, trace);
}

/* ---- all ranks ---- */

static weft_status write_trace_file(const char *path, const char *text, const size_t *lengths,
                                    int ranks)
{
    FILE *file = fopen(path, "w");
    bool good;

    if (!file) return WEFT_ERR_IO;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", file);
    for (int r = 0; r < ranks; text += lengths[r++]) {
        if (r) fputc(',', file);
        fwrite(text, 1, lengths[r], file);
    }
    fputs("]}\n", file);
    good = !ferror(file);
    return fclose(file) == 0 && good ? WEFT_OK : WEFT_ERR_IO;
}

/* All ranks' texts, one after another, on the first. gives: wf_free; NULL elsewhere */
static char *gather_rank_texts(const char *text, size_t length, size_t *lengths)
{
    struct wf_comm *world = wf_comm_world();
    int ranks = wf_comm_size(world), rank = wf_comm_rank(world);
    size_t *ones = wf_malloc((size_t)ranks * sizeof *ones), total = 0;
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_GATHER,
                           .comm = world,
                           .dtype = WEFT_I64,
                           .recv_counts = ones,
                           .send = &length,
                           .recv = lengths};
    char *all = NULL;

    for (int r = 0; r < ranks; r++) ones[r] = 1;
    wf_comm_run(&coll);
    for (int r = 0; r < ranks; r++) total += lengths[r];
    if (rank == 0) all = wf_malloc(total);
    coll = (struct wf_coll){.kind = WEFT_COLL_GATHER,
                            .comm = world,
                            .dtype = WEFT_U8,
                            .recv_counts = lengths,
                            .send = text,
                            .recv = all};
    wf_comm_run(&coll);
    wf_free(ones);
    return all;
}

/* The first rank's status is broadcast to all. */
static weft_status broadcast_status(weft_status status)
{
    int32_t word = (int32_t)status, agreed = 0;
    struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                           .comm = wf_comm_world(),
                           .dtype = WEFT_I32,
                           .count = 1,
                           .send = &word,
                           .recv = &agreed};

    wf_comm_run(&coll);
    return (weft_status)agreed;
}

weft_status wf_trace_write_file(const weft_trace *trace)
{
    int ranks = wf_comm_size(wf_comm_world());
    size_t *lengths = wf_calloc((size_t)ranks, sizeof *lengths), length = 0;
    unsigned observed = wf_observed_events;
    weft_status status = WEFT_OK;
    char *text = NULL, *all;
    FILE *memory = open_memstream(&text, &length);

    if (!memory) WF_DIE("trace: no memory for its text");
    wf_trace_write_events(trace, memory);
    fclose(memory);
    wf_observed_events = 0; /* the events that follow are not the program's */
    all = gather_rank_texts(text, length, lengths);
    if (all) status = write_trace_file(trace->path, all, lengths, ranks);
    status = broadcast_status(status);
    wf_observed_events = observed;
    wf_free(text);
    wf_free(all);
    wf_free(lengths);
    WF_NEED(status == WEFT_OK, WEFT_ERR_IO, "trace: cannot write %s", trace->path);
    return WEFT_OK;
}
