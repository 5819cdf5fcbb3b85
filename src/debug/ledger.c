/* ledger.c: what was communicated: one line per kind, axis, direction and module. */
#include <weft/debug.h>

#include <string.h>

#include "base/mem.h"
#include "base/observe.h"
#include "comm/comm.h"

struct line {
    const char *kind, *axis, *module; /* kind and axis are borrowed from comm and the mesh */
    enum wf_phase phase;
    int64_t count, bytes;
    double seconds;
};

struct weft_ledger {
    struct line *lines;
    size_t n_lines;
    int observer;
};

static bool same(const struct line *line, const struct wf_event *event, const char *module)
{
    return strcmp(line->kind, event->name) == 0 && strcmp(line->axis, event->axis) == 0 &&
           line->phase == event->where.phase && strcmp(line->module, module) == 0;
}

static struct line *find(weft_ledger *ledger, const struct wf_event *event)
{
    const char *module = event->where.module ? event->where.module : "";

    for (size_t i = 0; i < ledger->n_lines; i++)
        if (same(&ledger->lines[i], event, module)) return &ledger->lines[i];
    ledger->lines = wf_realloc(ledger->lines, (ledger->n_lines + 1) * sizeof *ledger->lines);
    ledger->lines[ledger->n_lines] = (struct line){wf_strdup(event->name),
                                                   wf_strdup(event->axis),
                                                   wf_strdup(module),
                                                   event->where.phase,
                                                   0,
                                                   0,
                                                   0};
    return &ledger->lines[ledger->n_lines++];
}

static void record(const struct wf_event *event, void *payload)
{
    struct line *line = find(payload, event);

    line->count++;
    line->bytes += (int64_t)event->bytes;
    line->seconds += event->seconds;
}

weft_ledger *weft_ledger_open(void)
{
    weft_ledger *ledger = WF_NEW(weft_ledger);

    ledger->observer = wf_observe_add(WF_EVENT_COLL, record, ledger);
    return ledger;
}

void weft_ledger_reset(weft_ledger *ledger)
{
    for (size_t i = 0; i < ledger->n_lines; i++) {
        wf_free((void *)ledger->lines[i].kind);
        wf_free((void *)ledger->lines[i].axis);
        wf_free((void *)ledger->lines[i].module);
    }
    wf_free(ledger->lines);
    ledger->lines = NULL;
    ledger->n_lines = 0;
}

void weft_ledger_close(weft_ledger *ledger)
{
    if (!ledger) return;
    wf_observe_remove(ledger->observer);
    weft_ledger_reset(ledger);
    wf_free(ledger);
}

static bool counts(const struct line *line, weft_coll kind, weft_direction direction,
                   const char *module)
{
    return (kind == WEFT_COLL_COUNT || strcmp(line->kind, wf_coll_name(kind)) == 0) &&
           (direction == WEFT_DIRECTION_ANY || (int)direction == (int)line->phase) &&
           (!module || strcmp(module, line->module) == 0);
}

int64_t weft_ledger_count(const weft_ledger *ledger, weft_coll kind, weft_direction direction,
                          const char *module)
{
    int64_t total = 0;

    for (size_t i = 0; i < ledger->n_lines; i++)
        if (counts(&ledger->lines[i], kind, direction, module)) total += ledger->lines[i].count;
    return total;
}

int64_t weft_ledger_bytes(const weft_ledger *ledger, weft_coll kind, weft_direction direction,
                          const char *module)
{
    int64_t total = 0;

    for (size_t i = 0; i < ledger->n_lines; i++)
        if (counts(&ledger->lines[i], kind, direction, module)) total += ledger->lines[i].bytes;
    return total;
}

double weft_ledger_seconds(const weft_ledger *ledger)
{
    double total = 0;

    for (size_t i = 0; i < ledger->n_lines; i++) total += ledger->lines[i].seconds;
    return total;
}

void weft_ledger_print(const weft_ledger *ledger, FILE *out)
{
    static const char *const directions[] = {"forward", "backward", "optim"};

    fprintf(out, "%-16s %-6s %-9s %8s %14s %9s  %s\n", "collective", "axis", "direction", "calls",
            "bytes", "ms", "module");
    for (size_t i = 0; i < ledger->n_lines; i++) {
        const struct line *line = &ledger->lines[i];

        fprintf(out, "%-16s %-6s %-9s %8lld %14lld %9.2f  %s\n", line->kind, line->axis,
                directions[line->phase], (long long)line->count, (long long)line->bytes,
                1e3 * line->seconds, line->module);
    }
}
