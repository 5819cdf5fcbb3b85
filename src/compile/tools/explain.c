/* explain.c: one call of a function, told as the lists that it falls into and what lies between. */
#include <weft/compile.h>

#include "base/error.h"
#include "base/mem.h"
#include "compile/passes/passes.h"
#include "compile/record/guards.h"
#include "compile/replay/fused_steps.h"
#include "redistribute/in_flight.h"
#include "tensor/tensor.h"

/* What computes, sends or updates; views, fills and copies of bytes do not count. */
static bool is_op(const struct wf_list_node *node)
{
    return node->kind == WF_LIST_KERNEL || node->kind == WF_LIST_MOVE ||
           node->kind == WF_LIST_UPDATE;
}

static int count_ops(const struct wf_op_list *list, int begin, int end)
{
    int n = 0;

    for (int i = begin; i < end; i++) n += is_op(&list->nodes[i]);
    return n;
}

static const char *op_before(const struct wf_op_list *list, int node)
{
    while (node > 0 && !is_op(&list->nodes[node - 1])) node--;
    return node > 0 ? list->nodes[node - 1].name : NULL;
}

static const char *plural(int n) { return n == 1 ? "" : "s"; }

static void print_graph(const struct wf_op_list *list, int begin, int end, int number, FILE *out)
{
    int n = count_ops(list, begin, end);
    const char *separator = "";

    fprintf(out, "graph %d: %d op%s: ", number, n, plural(n));
    for (int i = begin; i < end; i++) {
        if (!is_op(&list->nodes[i])) continue;
        fprintf(out, "%s%s", separator, list->nodes[i].name);
        separator = ", ";
    }
    fprintf(out, "\n");
}

static void print_break(const struct wf_op_list *list, const struct wf_list_break *at, int number,
                        FILE *out)
{
    const char *op = op_before(list, at->node);

    fprintf(out, "break %d, %s %s%s%s: %s\n", number, op ? "after" : "before", op ? op : "any op",
            at->module && at->module[0] ? " in " : "", at->module ? at->module : "", at->reason);
}

/* ---- chains that a break cuts ---- */

/* Ops of chains that have some on both sides of a break. */
struct cut_chains {
    int before, after;
};

/* The fused node's steps by the side of the break on which the list has them. */
static void count_cut_steps(const struct wf_fused *fused, const bool *made_before,
                            struct cut_chains *cut)
{
    int before = 0;

    for (int s = 0; s < fused->n; s++) {
        const struct wf_fused_operand *out = fused->steps[s].of.out;
        int j = 0;

        while (out[j].storage < 0) j++; /* a step has a result */
        before += made_before[out[j].storage];
    }
    if (before == 0 || before == fused->n) return;
    cut->before += before;
    cut->after += fused->n - before;
}

/* Fuse the two graphs around `at` as if they were one. Values that the program reads in between
 * would be written all the same, so nothing but the break keeps them apart. */
static struct cut_chains find_cut_chains(const struct wf_op_list *list, int begin, int at, int end)
{
    bool *none = wf_calloc((size_t)list->n_storages + 1, sizeof *none);
    bool *made_before = wf_calloc((size_t)list->n_storages + 1, sizeof *made_before);
    struct wf_op_list *both = wf_op_list_cut(list, begin, end, none);
    struct cut_chains cut = {0};

    for (int i = begin; i < at; i++)
        for (int j = 0; j < list->nodes[i].n_out; j++)
            if (list->nodes[i].out[j].storage >= 0)
                made_before[list->nodes[i].out[j].storage] = true;
    wf_pass_fuse(both);
    for (int i = 0; i < both->n_nodes; i++)
        if (both->nodes[i].kind == WF_LIST_FUSED)
            count_cut_steps(both->nodes[i].fused, made_before, &cut);
    wf_op_list_free(both);
    wf_free(made_before);
    wf_free(none);
    return cut;
}

static void print_lost_fusion(const struct wf_list_recorder *r, int b, FILE *out)
{
    int begin = b > 0 ? r->breaks[b - 1].node : 0;
    int end = b + 1 < r->n_breaks ? r->breaks[b + 1].node : r->list->n_nodes;
    struct cut_chains cut = find_cut_chains(r->list, begin, r->breaks[b].node, end);

    if (cut.after == 0) return;
    fprintf(out, "  it cuts a fused chain: %d op%s before it, %d behind it\n", cut.before,
            plural(cut.before), cut.after);
}

/* ---- the report ---- */

static void print_report(const struct wf_list_recorder *r, FILE *out)
{
    const struct wf_op_list *list = r->list;
    int graphs = 0, begin = 0, number = 0, ops = count_ops(list, 0, list->n_nodes);

    for (int b = 0; b <= r->n_breaks; b++) {
        int end = b < r->n_breaks ? r->breaks[b].node : list->n_nodes;

        graphs += count_ops(list, begin, end) > 0;
        begin = end;
    }
    fprintf(out, "%d graph%s with %d graph break%s and %d op%s\n", graphs, plural(graphs),
            r->n_breaks, plural(r->n_breaks), ops, plural(ops));
    begin = 0;
    for (int b = 0; b <= r->n_breaks; b++) {
        int end = b < r->n_breaks ? r->breaks[b].node : list->n_nodes;

        if (count_ops(list, begin, end) > 0) print_graph(list, begin, end, ++number, out);
        if (b < r->n_breaks) {
            print_break(list, &r->breaks[b], b + 1, out);
            print_lost_fusion(r, b, out);
        }
        begin = end;
    }
}

weft_status weft_compile_explain_print(weft_compiled_function *function, void *state,
                                       weft_tensor *const *in, int n_in, int n_results, FILE *out)
{
    struct wf_list_recorder recorder;
    weft_tensor **results;
    weft_scope *scope;
    weft_status status;

    WF_NEED(function && out && n_in >= 0 && n_in <= WF_COMPILED_INPUTS && (in || !n_in) &&
                n_results >= 0 && n_results <= WF_COMPILED_INPUTS,
            WEFT_ERR_ARG, "compile explain: no function or no file, or %d inputs without a list",
            n_in);
    WF_NEED(!wf_recorder, WEFT_ERR_STATE, "compile explain: within a compiled function");
    for (int i = 0; i < n_in; i++) WF_TRY(wf_tensor_check_alive(in[i], "compile explain"));
    wf_redist_wait_all();
    results = wf_calloc((size_t)n_results + 1, sizeof(weft_tensor *));
    scope = weft_scope_open();
    wf_recording_begin(&recorder);
    recorder.base.hears_meta = true;
    for (int i = 0; i < n_in; i++)
        if (in[i]) wf_recording_add_input(&recorder, in[i], i);
    status = function(in, n_in, results, n_results, state);
    wf_recording_end(&recorder);
    weft_scope_close(scope);
    if (status == WEFT_OK) print_report(&recorder, out);
    wf_recording_free(&recorder);
    wf_free(results);
    return status;
}
