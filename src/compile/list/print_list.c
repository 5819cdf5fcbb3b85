/*
 * print_list.c: a line per node: "%3 = matmul(%1, w2)   [8,4] S(0)". Numbers are storages; inputs
 * are in0, in1, ..., what was there before w0, w1, ..., what the forward list made f0, f1, ...
 */
#include "compile/list/print_list.h"

#include "base/mem.h"
#include "comm/comm.h"
#include "compile/replay/fused.h"
#include "mesh/mesh.h"

struct names {
    const struct wf_op_list *list;
    int *number; /* of each storage among those of its kind */
};

static struct names number_storages(const struct wf_op_list *list)
{
    struct names names = {list, wf_calloc((size_t)list->n_storages + 1, sizeof(int))};
    int count[WF_STORAGE_MADE + 1] = {0};

    for (int s = 0; s < list->n_storages; s++) names.number[s] = -1;
    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];

        for (int k = 0; k < node->n_in + node->n_out; k++) {
            int s = k < node->n_in ? node->in[k].storage : node->out[k - node->n_in].storage;

            if (s >= 0 && names.number[s] < 0) names.number[s] = count[list->storages[s].kind]++;
        }
    }
    return names;
}

static void print_operand(const struct names *names, const struct wf_operand *operand, FILE *out)
{
    static const char *const prefix[] = {[WF_STORAGE_INPUT] = "in",
                                         [WF_STORAGE_EXTERNAL] = "w",
                                         [WF_STORAGE_GRADIENT] = "g",
                                         [WF_STORAGE_FORWARD] = "f",
                                         [WF_STORAGE_MADE] = "%"};
    const struct wf_storage *storage;

    if (operand->storage < 0) {
        fprintf(out, "-");
        return;
    }
    storage = &names->list->storages[operand->storage];
    fprintf(out, "%s%d", prefix[storage->kind],
            storage->kind == WF_STORAGE_INPUT ? storage->index : names->number[operand->storage]);
    if (operand->offset) fprintf(out, "+%lld", (long long)operand->offset);
}

static void print_layout(const struct wf_layout *layout, FILE *out)
{
    char text[256];

    if (!layout) return;
    wf_layout_print(layout, text, sizeof text);
    fprintf(out, "   %s", text);
}

static const char *name_of(const struct wf_list_node *node)
{
    static const char *const names[] = {
        [WF_LIST_COPY] = "copy",         [WF_LIST_FILL] = "fill",      [WF_LIST_WAIT] = "wait",
        [WF_LIST_DIVIDE] = "divide",     [WF_LIST_POWER] = "power",    [WF_LIST_UPDATE] = "update",
        [WF_LIST_MOVE] = "redistribute", [WF_LIST_DELIVER] = "deliver"};

    static _Thread_local char text[200];

    if (node->fused) {
        wf_fused_print(node->fused, text, sizeof text);
        return text;
    }
    if (node->kind == WF_LIST_START) return wf_coll_name(node->action->coll);
    return node->kind < sizeof names / sizeof names[0] && names[node->kind] ? names[node->kind]
                                                                            : node->name;
}

static void print_node(const struct names *names, const struct wf_list_node *node, FILE *out)
{
    fprintf(out, "  ");
    for (int j = 0; j < node->n_out; j++) {
        if (node->out[j].storage < 0) continue;
        print_operand(names, &node->out[j], out);
        fprintf(out, node->in_place ? " <- " : " = ");
    }
    fprintf(out, "%s%s(", node->kind == WF_LIST_START ? "start " : "", name_of(node));
    if (node->kind == WF_LIST_WAIT)
        print_operand(names, &names->list->nodes[node->started].out[0], out);
    for (int i = 0; i < node->n_in; i++) {
        if (i) fprintf(out, ", ");
        print_operand(names, &node->in[i], out);
    }
    fprintf(out, ")");
    print_layout(node->out[0].layout, out);
    if (node->module && node->module[0]) fprintf(out, "   # %s", node->module);
    fprintf(out, "\n");
}

void wf_op_list_print(const struct wf_op_list *list, FILE *out)
{
    struct names names = number_storages(list);

    for (int i = 0; i < list->n_nodes; i++) print_node(&names, &list->nodes[i], out);
    for (int i = 0; i < list->n_results; i++) {
        fprintf(out, "  result %d: ", i);
        if (list->results[i].same_as_input >= 0)
            fprintf(out, "in%d", list->results[i].same_as_input);
        else if (list->results[i].same_as_result >= 0)
            fprintf(out, "result %d", list->results[i].same_as_result);
        else
            print_operand(&names, &list->results[i].at, out);
        fprintf(out, "\n");
    }
    wf_free(names.number);
}
