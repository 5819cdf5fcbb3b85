/*
 * check_list.c: what must hold of every list: nodes read what was written before, waits follow
 * their starts, and each start has its wait.
 */
#include <stdio.h>

#include "base/mem.h"
#include "compile/passes/passes.h"

struct walk {
    const struct wf_op_list *list;
    bool *written; /* made storages that an earlier node has written */
    int bad;       /* a storage that is read before that; -1: none */
};

static void visit(int storage, bool write, void *payload)
{
    struct walk *walk = payload;
    const struct wf_storage *of = &walk->list->storages[storage];

    if (write)
        walk->written[storage] = true;
    else if (of->kind == WF_STORAGE_MADE && of->bytes > 0 && !walk->written[storage])
        walk->bad = storage;
}

const char *wf_op_list_check(const struct wf_op_list *list)
{
    static _Thread_local char text[200];
    struct walk walk = {list, wf_calloc((size_t)list->n_storages + 1, sizeof(bool)), -1};
    int *waits = wf_calloc((size_t)list->n_nodes + 1, sizeof *waits);

    text[0] = 0;
    for (int i = 0; i < list->n_nodes && !text[0]; i++) {
        const struct wf_list_node *node = &list->nodes[i];

        if (node->kind == WF_LIST_WAIT) {
            if (node->started < 0 || node->started >= i ||
                list->nodes[node->started].kind != WF_LIST_START || waits[node->started]++)
                snprintf(text, sizeof text, "node %d waits for no collective", i);
        }
        if (!text[0]) wf_list_node_visit_storages(list, node, visit, &walk);
        if (walk.bad >= 0)
            snprintf(text, sizeof text, "node %d (%s) reads storage %d before it is written", i,
                     node->name, walk.bad);
    }
    for (int i = 0; i < list->n_nodes && !text[0]; i++)
        if (list->nodes[i].kind == WF_LIST_START && waits[i] != 1)
            snprintf(text, sizeof text, "the collective of node %d is never waited for", i);
    wf_free(walk.written);
    wf_free(waits);
    return text[0] ? text : NULL;
}
