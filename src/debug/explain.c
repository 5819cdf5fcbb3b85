/* explain.c: how a result was computed, read from its tape. */
#include <weft/extend/explain.h>

#include "autograd/tape.h"
#include "base/error.h"
#include "dtensor/dispatch/slow_path.h"
#include "redistribute/redistribute.h"

static void print_layout(const char *role, const struct wf_layout *layout, int indent, FILE *out)
{
    char text[400];

    wf_layout_print(layout, text, sizeof text);
    fprintf(out, "%*s%s: %s\n", indent, "", role, text);
}

static void print_redistribution(const struct wf_redist_plan *move, int indent, FILE *out)
{
    char placements[WF_PLACEMENTS_TEXT], steps[1000];

    weft_placements_format(move->to->placements, move->to->n_axes, placements, sizeof placements);
    fprintf(out, "%*sto [%s], ", indent, "", placements);
    if (move->n_steps == 0) {
        fprintf(out, "nothing moves\n");
        return;
    }
    wf_redist_print(move, steps, sizeof steps);
    fprintf(out, "%lld bytes sent, %.1f us estimated: %s\n", (long long)wf_redist_bytes_sent(move),
            move->cost, steps);
}

static void print_op_plan(const struct wf_op_plan *plan, int indent, FILE *out)
{
    for (int i = 0; i < plan->n_in; i++) {
        if (!plan->in[i]) continue;
        print_layout("in", plan->in[i], indent, out);
        if (plan->absent[i]) fprintf(out, "%*scounted by the first rank only\n", indent + 2, "");
        if (plan->move[i]) print_redistribution(plan->move[i], indent + 2, out);
    }
    if (plan->slow_path & WF_SLOW_ROW_MAJOR_COPY)
        fprintf(out, "%*sinput 0 is made row-major first\n", indent, "");
    for (int j = 0; j < plan->n_out; j++)
        if (plan->out[j]) print_layout("out", plan->out[j], indent, out);
}

static void print_tape_node(const struct wf_tape_node *node, int depth, int indent, FILE *out)
{
    fprintf(out, "%*s%s%s%s\n", indent, "", node->name,
            node->module && node->module[0] ? " in " : "", node->module ? node->module : "");
    if (node->release_context == wf_op_plan_release_context) /* other nodes keep other things */
        print_op_plan(node->context, indent + 2, out);
    for (int i = 0; depth > 0 && i < node->n_in; i++)
        if (node->producers[i]) print_tape_node(node->producers[i], depth - 1, indent + 4, out);
}

weft_status weft_explain_print(const weft_tensor *t, int depth, FILE *out)
{
    WF_NEED_GIVEN(t, "explain: no tensor");
    WF_TRY(wf_tensor_need_alive(t, "explain"));
    WF_NEED(t->node, WEFT_ERR_STATE,
            "explain: no recorded op made this tensor (it needs an input that wants a gradient)");
    WF_NEED(out, WEFT_ERR_ARG, "explain: no file");
    print_tape_node(t->node, depth, 0, out);
    return WEFT_OK;
}
