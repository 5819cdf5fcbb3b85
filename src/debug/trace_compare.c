/* trace_compare.c: where two runs diverge: op by op, in the order in which they ended. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "debug/trace.h"

/* The next op at or after `index`; NULL at the end. */
static const struct wf_trace_record *next_op_record(const weft_trace *trace, int *index)
{
    while (*index < trace->n_records && trace->records[*index].kind != WF_EVENT_OP) ++*index;
    return *index < trace->n_records ? &trace->records[(*index)++] : NULL;
}

int weft_trace_difference_print(const weft_trace *a, const weft_trace *b, FILE *out)
{
    int at_a = 0, at_b = 0, differences = 0;

    if (!a || !b || !out) {
        WF_FAIL(WEFT_ERR_ARG, "trace compare: no %s", a && b ? "file" : "trace");
        return -1;
    }
    for (int op = 0;; op++) {
        const struct wf_trace_record *x = next_op_record(a, &at_a), *y = next_op_record(b, &at_b);
        double largest;

        if (!x && !y) return differences;
        if (!x || !y || strcmp(x->text, y->text) != 0) {
            fprintf(out, "op %d: %s, against %s\n", op, x ? x->text : "none", y ? y->text : "none");
            return differences + 1;
        }
        if (x->hash == y->hash) continue;
        largest = fmax(fabs(x->norm), fabs(y->norm));
        fprintf(out, "op %d: %s: norms %.9g and %.9g, relative difference %.3g\n", op, x->text,
                x->norm, y->norm, largest > 0 ? fabs(x->norm - y->norm) / largest : 0);
        differences++;
    }
}
