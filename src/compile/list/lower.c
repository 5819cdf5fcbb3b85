/* lower.c: moves become the actions of their plans, whose buffers are storages of the list. */
#include "compile/list/lower.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"

static const enum wf_list_node_kind kind_of_act[] = {[WF_ACT_COPY] = WF_LIST_COPY,
                                                     [WF_ACT_FILL] = WF_LIST_FILL,
                                                     [WF_ACT_COLL] = WF_LIST_START,
                                                     [WF_ACT_DIVIDE] = WF_LIST_DIVIDE,
                                                     [WF_ACT_POWER] = WF_LIST_POWER};

static struct wf_operand bytes_at(int storage, int64_t offset)
{
    return (struct wf_operand){.storage = storage, .offset = offset};
}

/* The storages of a move's buffers: the source, the result, and new ones. */
static void map_buffers(struct wf_op_list *list, const struct wf_list_node *move,
                        struct wf_operand *buffers)
{
    const struct wf_redist_program *program = move->move->program;
    int64_t element = (int64_t)wf_dtypes[move->move->from->desc.dtype].size;

    buffers[0] = bytes_at(move->in[0].storage, move->in[0].offset);
    for (int b = 1; b < program->n_buffers; b++) {
        const struct wf_redist_buffer *buffer = &program->buffers[b];

        if (b == program->result) {
            buffers[b] = bytes_at(move->out[0].storage, move->out[0].offset);
            continue;
        }
        buffers[b] = bytes_at(
            wf_op_list_add_storage(
                list, (struct wf_storage){.kind = WF_STORAGE_MADE,
                                          .category = (uint8_t)buffer->category,
                                          .device = list->storages[move->in[0].storage].device,
                                          .written = true,
                                          .bytes = buffer->elements * element}),
            0);
    }
    if (program->result != 0) /* peers read it while the collectives run */
        list->storages[move->out[0].storage].category =
            (uint8_t)program->buffers[program->result].category;
}

static void add_action(struct wf_op_list *list, const struct wf_list_node *move,
                       const struct wf_redist_action *action, const struct wf_operand *buffers)
{
    struct wf_list_node *node = wf_op_list_add_node(list, kind_of_act[action->act]);

    node->name = move->name;
    node->module = move->module;
    node->phase = move->phase;
    node->plan = move->plan;
    node->plan->refs++;
    node->move = move->move;
    node->action = action;
    node->n_out = 1;
    node->out[0] = buffers[action->dst];
    node->in_place = !action->makes;
    if (action->act != WF_ACT_COPY && action->act != WF_ACT_COLL) return;
    node->n_in = 1;
    node->in[0] = buffers[action->src];
    node->in[0].offset += action->src_offset;
    node->copies = action->copies;
    node->n_copies = action->n_copies;
    if (action->act != WF_ACT_COLL) return;
    node = wf_op_list_add_node(list, WF_LIST_WAIT);
    node->name = move->name;
    node->module = move->module;
    node->phase = move->phase;
    node->started = list->n_nodes - 2;
}

static void lower_move(struct wf_op_list *list, struct wf_list_node *move)
{
    struct wf_operand buffers[WF_REDIST_MAX_BUFFERS];
    const struct wf_redist_program *program = move->move->program;

    map_buffers(list, move, buffers);
    for (int i = 0; i < program->n_actions; i++)
        add_action(list, move, &program->actions[i], buffers);
}

/* What the moves held; the other nodes are in the list. */
static void free_moves(const struct wf_list_node *nodes, int n)
{
    struct wf_op_list *moves = wf_op_list_new();

    for (int i = 0; i < n; i++)
        if (nodes[i].dead) *wf_op_list_add_node(moves, WF_LIST_MOVE) = nodes[i];
    wf_op_list_free(moves);
}

void wf_op_list_lower(struct wf_op_list *list)
{
    struct wf_list_node *old = list->nodes;
    int n = list->n_nodes, *number = wf_calloc((size_t)n + 1, sizeof *number);

    list->nodes = NULL;
    list->n_nodes = 0;
    for (int i = 0; i < n; i++) {
        number[i] = list->n_nodes;
        if (old[i].kind == WF_LIST_MOVE) {
            lower_move(list, &old[i]);
            old[i].dead = true;
        } else {
            struct wf_list_node *node = wf_op_list_add_node(list, WF_LIST_KERNEL);

            *node = old[i];
            if (node->started >= 0) node->started = number[node->started];
        }
    }
    list->lowered = true;
    free_moves(old, n);
    wf_free(old);
    wf_free(number);
}
