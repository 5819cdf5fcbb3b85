/* trace_print.c: a trace as indented text, in the order in which things began. */
#include <string.h>

#include "base/error.h"
#include "debug/ledger.h"
#include "debug/trace.h"

static void print_trace_record(const struct wf_trace_record *r, int indent, FILE *out)
{
    const char *phase = r->phase == WF_FORWARD ? "" : wf_phase_name(r->phase), *moves = r->moves;

    fprintf(out, "%*s", indent, "");
    if (indent == 0 && phase[0])
        fprintf(out, "%s%s%s: ", phase, r->module[0] ? " " : "", r->module);
    if (r->kind == WF_EVENT_COLL)
        fprintf(out, "%s%s%s: %zu bytes, %zu sent\n", r->text, r->axis[0] ? " " : "", r->axis,
                r->bytes, r->sent);
    else
        fprintf(out, "%s%s\n", r->kind == WF_EVENT_LEAVE ? "module " : "", r->text);
    while (moves) {
        size_t length = strcspn(moves, "\n");

        fprintf(out, "%*sredistribute %.*s\n", indent + 2, "", (int)length, moves);
        moves = moves[length] ? moves + length + 1 : NULL;
    }
}

/* Records below `parent`: they are all before it and, because they end in order, in order. */
static void print_records_below(const weft_trace *trace, int parent, int first, int indent,
                                FILE *out)
{
    int end = parent < 0 ? trace->n_records : parent;
    int from = first;

    for (int i = first; i < end; i++) {
        if (trace->records[i].parent != parent) continue;
        print_trace_record(&trace->records[i], indent, out);
        print_records_below(trace, i, from, indent + 2, out);
        from = i + 1;
    }
}

void weft_trace_print(const weft_trace *trace, FILE *out)
{
    WF_NEED_VOID(trace && out, WEFT_ERR_ARG, "trace print: no %s", trace ? "file" : "trace");
    print_records_below(trace, -1, 0, 0, out);
}
