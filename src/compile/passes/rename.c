/* rename.c: what passes ask about storages, and giving their readers others. */
#include "compile/passes/rename.h"

#include "base/mem.h"

static void count_write(int storage, bool write, void *count) { ((int *)count)[storage] += write; }

int *wf_list_count_writers(const struct wf_op_list *list)
{
    int *count = wf_calloc((size_t)list->n_storages + 1, sizeof *count);

    for (int i = 0; i < list->n_nodes; i++)
        if (list->nodes[i].kind != WF_LIST_WAIT)
            wf_list_node_visit_storages(list, &list->nodes[i], count_write, count);
    return count;
}

struct last {
    int *of, node;
};

static void note_use(int storage, bool write, void *payload)
{
    struct last *last = payload;

    (void)write;
    last->of[storage] = last->node;
}

static void note_write(int storage, bool write, void *payload)
{
    if (write) note_use(storage, write, payload);
}

static int *last_nodes(const struct wf_op_list *list, wf_storage_visitor *note)
{
    struct last last = {wf_malloc(((size_t)list->n_storages + 1) * sizeof(int)), 0};

    for (int s = 0; s < list->n_storages; s++) last.of[s] = -1;
    for (last.node = 0; last.node < list->n_nodes; last.node++)
        wf_list_node_visit_storages(list, &list->nodes[last.node], note, &last);
    return last.of;
}

int *wf_list_last_writers(const struct wf_op_list *list) { return last_nodes(list, note_write); }

int *wf_list_last_uses(const struct wf_op_list *list) { return last_nodes(list, note_use); }

static void rename_operand(struct wf_operand *operand, const int *to, const int64_t *by)
{
    int storage = operand->storage;

    if (storage < 0) return;
    operand->storage = to[storage];
    if (by) operand->offset += by[storage];
}

void wf_list_rename(struct wf_op_list *list, const int *to, const int64_t *by)
{
    for (int i = 0; i < list->n_nodes; i++) {
        struct wf_list_node *node = &list->nodes[i];

        if (node->dead) continue;
        for (int k = 0; k < node->n_in; k++) rename_operand(&node->in[k], to, by);
        for (int k = 0; k < node->n_out; k++) rename_operand(&node->out[k], to, by);
        for (int k = 0; k < 2 * node->n_items; k++) rename_operand(&node->arrays[k], to, by);
    }
    for (int i = 0; i < list->n_results; i++) rename_operand(&list->results[i].at, to, by);
    for (int i = 0; i < list->n_gradients; i++) rename_operand(&list->gradients[i].at, to, by);
}

bool wf_storages_may_meet(const struct wf_op_list *list, int a, int b)
{
    return a == b ||
           (list->storages[a].kind != WF_STORAGE_MADE && list->storages[b].kind != WF_STORAGE_MADE);
}
