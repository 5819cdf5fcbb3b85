/*
 * trace_chrome.c: traces in the JSON that Chrome's and Perfetto's viewers read: one process, a
 * thread per rank, complete events ("X") in microseconds since the trace was opened.
 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/observe.h"
#include "comm/comm.h"
#include "debug/ledger.h"
#include "debug/trace.h"

static void begin(struct wf_json *json, const char *name, const char *category, const char *kind,
                  double at)
{
    wf_json_open(json, NULL, '{');
    wf_json_text(json, "name", name);
    wf_json_text(json, "cat", category);
    wf_json_text(json, "ph", kind);
    wf_json_real(json, "ts", 1e6 * at);
    wf_json_int(json, "pid", 0);
    wf_json_int(json, "tid", wf_comm_rank(wf_comm_world()));
}

static void range(struct wf_json *json, const char *name, const char *category, double from,
                  double to)
{
    begin(json, name, category, "X", from);
    wf_json_real(json, "dur", 1e6 * (to - from));
}

static void name_row(struct wf_json *json)
{
    char *name = wf_format("rank %d", wf_comm_rank(wf_comm_world()));

    begin(json, "thread_name", "__metadata", "M", 0);
    wf_json_open(json, "args", '{');
    wf_json_text(json, "name", name);
    wf_json_close(json, '}');
    wf_json_close(json, '}');
    wf_free(name);
}

/* "linear(f32[8,16] ..." -> "linear" */
static char *short_name(const char *text)
{
    return wf_format("%.*s", (int)strcspn(text, "("), text);
}

static void write_op(struct wf_json *json, const struct wf_record *r, double zero)
{
    char *name = short_name(r->text);

    range(json, name, "op", r->began - zero, r->ended - zero);
    wf_json_open(json, "args", '{');
    wf_json_text(json, "plan", r->text);
    wf_json_text(json, "module", r->module);
    wf_json_text(json, "direction", wf_phase_name(r->phase));
    if (r->moves) wf_json_text(json, "redistribute", r->moves);
    wf_json_close(json, '}');
    wf_json_close(json, '}');
    wf_free(name);
}

static void write_coll_args(struct wf_json *json, const struct wf_record *r)
{
    wf_json_open(json, "args", '{');
    wf_json_text(json, "axis", r->axis);
    wf_json_int(json, "bytes", (int64_t)r->bytes);
    wf_json_int(json, "sent", (int64_t)r->sent);
    wf_json_text(json, "module", r->module);
    wf_json_text(json, "direction", wf_phase_name(r->phase));
    wf_json_close(json, '}');
    wf_json_close(json, '}');
}

/* Ranges of one row must nest. A collective that was under way while other things happened does
 * not, and becomes a pair of asynchronous events. */
static void write_coll(struct wf_json *json, const weft_trace *trace, int index)
{
    const struct wf_record *r = &trace->records[index];
    const struct wf_record *up = r->parent < 0 ? NULL : &trace->records[r->parent];
    bool overlaps = index && r[-1].ended > r->began;

    if (!overlaps && (!up || up->began <= r->began)) {
        range(json, r->text, "collective", r->began - trace->began, r->ended - trace->began);
        write_coll_args(json, r);
        return;
    }
    for (int end = 0; end < 2; end++) {
        begin(json, r->text, "collective", end ? "e" : "b",
              (end ? r->ended : r->began) - trace->began);
        wf_json_int(json, "id", index);
        write_coll_args(json, r);
    }
}

static void write_record(struct wf_json *json, const weft_trace *trace, int index)
{
    const struct wf_record *r = &trace->records[index];

    if (r->kind == WF_EVENT_OP) {
        write_op(json, r, trace->began);
    } else if (r->kind == WF_EVENT_COLL) {
        write_coll(json, trace, index);
    } else {
        range(json, r->text, "module", r->began - trace->began, r->ended - trace->began);
        wf_json_close(json, '}');
    }
}

/* Outside forward no module is called: what was done for one, one after another, makes its range.
 */
static void write_phases(struct wf_json *json, const weft_trace *trace)
{
    const struct wf_record *first = NULL, *last = NULL;

    for (int i = 0; i <= trace->n_records; i++) {
        const struct wf_record *r = i < trace->n_records ? &trace->records[i] : NULL;
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
            range(json, name, "module", first->began - trace->began, last->ended - trace->began);
            wf_json_close(json, '}');
            wf_free(name);
        }
        first = last = r && r->phase != WF_FORWARD ? r : NULL;
    }
}

void wf_trace_events(const weft_trace *trace, FILE *out)
{
    struct wf_json json = {.out = out, .depth = 1}; /* inside the list of all ranks' events */

    name_row(&json);
    write_phases(&json, trace);
    for (int i = 0; i < trace->n_records; i++) write_record(&json, trace, i);
}

/* ---- all ranks ---- */

static weft_status write_file(const char *path, const char *text, const size_t *lengths, int ranks)
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
static char *collect(const char *text, size_t length, size_t *lengths)
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

/* What the first rank found is told to all. */
static weft_status agree(weft_status status)
{
    int32_t word = (int32_t)status, told = 0;
    struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                           .comm = wf_comm_world(),
                           .dtype = WEFT_I32,
                           .count = 1,
                           .send = &word,
                           .recv = &told};

    wf_comm_run(&coll);
    return (weft_status)told;
}

weft_status wf_trace_save(const weft_trace *trace)
{
    int ranks = wf_comm_size(wf_comm_world());
    size_t *lengths = wf_calloc((size_t)ranks, sizeof *lengths), length = 0;
    unsigned observed = wf_observed;
    weft_status status = WEFT_OK;
    char *text = NULL, *all;
    FILE *memory = open_memstream(&text, &length);

    if (!memory) WF_DIE("trace: no memory for its text");
    wf_trace_events(trace, memory);
    fclose(memory);
    wf_observed = 0; /* what follows is not the program's */
    all = collect(text, length, lengths);
    if (all) status = write_file(trace->path, all, lengths, ranks);
    status = agree(status);
    wf_observed = observed;
    wf_free(text);
    wf_free(all);
    wf_free(lengths);
    WF_NEED(status == WEFT_OK, WEFT_ERR_IO, "trace: cannot write %s", trace->path);
    return WEFT_OK;
}
