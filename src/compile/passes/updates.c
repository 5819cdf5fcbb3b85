/*
 * updates.c: the step of an optimizer, which is one node for all parameters, becomes one for each,
 * as soon as nothing reads the parameter or writes its gradient any more. So the memory of a
 * gradient is free for what comes next, and parameters change while the gradients of others are
 * on their way. On a GPU the step stays one: there launches count.
 *
 * An input may be a parameter or a state in some call, which is known in that call alone. Inputs
 * that are read by nodes which a step has passed are marked, and copied then (input_copies.h).
 */
#include "base/array_grow.h"
#include "base/mem.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"

/* ---- how far up a parameter's step may go ---- */

static bool blocks_overlap(const struct wf_storage *a, const struct wf_storage *b)
{
    return a->block == b->block || wf_block_overlaps(a->block, b->block->data, b->block->bytes);
}

struct use {
    const struct wf_op_list *list;
    int parameter, gradient;
    bool conflict;
};

static bool is_parameter(const struct wf_op_list *list, int storage, int parameter)
{
    return storage == parameter ||
           (list->storages[storage].kind == WF_STORAGE_EXTERNAL &&
            blocks_overlap(&list->storages[storage], &list->storages[parameter]));
}

static void check_conflict(int storage, bool write, void *payload)
{
    struct use *use = payload;

    use->conflict |= is_parameter(use->list, storage, use->parameter) ||
                     (write && wf_storages_may_meet(use->list, storage, use->gradient));
}

/* Other nodes could read the optimizer's own tensors, which the step does not name. */
static bool list_names_states(const struct wf_op_list *list, const struct wf_list_node *update,
                              int item)
{
    for (int s = 0; s < list->n_storages; s++)
        if (list->storages[s].kind == WF_STORAGE_EXTERNAL &&
            s != update->arrays[2 * item].storage &&
            wf_optimizer_item_changes(&update->items[item], list->storages[s].block))
            return true;
    return false;
}

/* Steps of the same bytes keep their order. */
static bool shares_bytes_with_other_item(const struct wf_op_list *list,
                                         const struct wf_list_node *update, int item)
{
    for (int i = 0; i < update->n_items; i++)
        if (i != item &&
            is_parameter(list, update->arrays[2 * i].storage, update->arrays[2 * item].storage))
            return true;
    return false;
}

static void note_write(int storage, bool write, void *payload)
{
    ((bool *)payload)[storage] |= write;
}

/* Of each storage: a node before the step, which is none itself, writes it. */
static bool *find_written_storages(const struct wf_op_list *list, int update)
{
    bool *written = wf_calloc((size_t)list->n_storages + 1, sizeof *written);

    for (int i = 0; i < update; i++)
        if (list->nodes[i].kind != WF_LIST_UPDATE)
            wf_list_node_visit_storages(list, &list->nodes[i], note_write, written);
    return written;
}

/* An input that is written may be the parameter, of which a copy would not be seen. */
static bool is_parameter_written(const struct wf_op_list *list, const bool *written, int parameter)
{
    for (int s = 0; s < list->n_storages; s++)
        if (written[s] &&
            (list->storages[s].kind == WF_STORAGE_INPUT || is_parameter(list, s, parameter)))
            return true;
    return false;
}

/* The node after which the item's step comes. */
static int find_earliest_place(const struct wf_op_list *list, int update, int item,
                               const bool *written)
{
    const struct wf_list_node *node = &list->nodes[update];
    struct use use = {list, node->arrays[2 * item].storage, node->arrays[2 * item + 1].storage,
                      false};
    int after = update - 1;

    if (list->storages[use.parameter].kind != WF_STORAGE_EXTERNAL ||
        list_names_states(list, node, item) || shares_bytes_with_other_item(list, node, item) ||
        is_parameter_written(list, written, use.parameter))
        return after;
    for (; after >= 0 && !wf_list_node_is_fixed(&list->nodes[after]); after--) {
        wf_list_node_visit_storages(list, &list->nodes[after], check_conflict, &use);
        if (use.conflict) break;
    }
    return after;
}

static void mark_passed_input(int storage, bool write, void *payload)
{
    struct wf_storage *of = &((struct wf_op_list *)payload)->storages[storage];

    (void)write;
    of->step_passes |= of->kind == WF_STORAGE_INPUT;
}

/* ---- the new list ---- */

struct walk {
    struct wf_op_list *list;
    struct wf_list_node *old;
    int n_old;
    int *first, *next;       /* of the old nodes: the steps after each, a chain; -1: its end */
    struct wf_list_node *of; /* by step: its node */
    int n_steps;
};

static void append_steps_after(struct walk *walk, int after)
{
    for (int i = walk->first[after + 1]; i >= 0; i = walk->next[i])
        *wf_op_list_add_node(walk->list, WF_LIST_UPDATE) = walk->of[i];
}

static bool can_be_split(const struct wf_op_list *list, const struct wf_list_node *node)
{
    return node->kind == WF_LIST_UPDATE && node->call.give_item && node->item < 0 &&
           node->n_items > 1 && list->storages[node->arrays[0].storage].device != WEFT_CUDA;
}

static struct wf_list_node step_of_item(const struct wf_list_node *update, int item)
{
    struct wf_list_node step = *update;

    step.call =
        (struct wf_changing_call){.give_item = update->call.give_item, .self = update->call.self};
    step.items = &update->items[item];
    step.n_items = 1;
    step.item = item;
    step.arrays = wf_malloc(2 * sizeof *step.arrays);
    step.arrays[0] = update->arrays[2 * item];
    step.arrays[1] = update->arrays[2 * item + 1];
    return step;
}

/* The step that comes first counts for all of them; that of the first item frees what they share.
 */
static void split(struct walk *walk, int update)
{
    struct wf_list_node *whole = &walk->old[update];
    int begin = walk->n_steps, earliest = update, first = begin;
    bool *written = find_written_storages(walk->list, update);
    struct wf_op_list *list = walk->list;

    for (int i = 0; i < whole->n_items; i++) {
        int after = find_earliest_place(list, update, i, written), step = walk->n_steps++,
            *end = &walk->first[after + 1];

        walk->of[step] = step_of_item(whole, i);
        if (after < earliest) {
            earliest = after;
            first = step;
        }
        while (*end >= 0) end = &walk->next[*end];
        *end = step;
    }
    for (int i = earliest + 1; i < update; i++)
        wf_list_node_visit_storages(list, &list->nodes[i], mark_passed_input, list);
    walk->of[first].call.advance = whole->call.advance;
    walk->of[begin].call.release = whole->call.release;
    list->split_steps =
        wf_array_grow(list->split_steps, list->n_split_steps, sizeof *list->split_steps);
    list->split_steps[list->n_split_steps++] = (struct wf_split_step){whole->items, whole->n_items};
    wf_free(written);
    wf_free(whole->arrays);
    whole->dead = true;
}

static void put_in_order(struct walk *walk)
{
    struct wf_op_list *list = walk->list;
    int *number = wf_malloc(((size_t)walk->n_old + 1) * sizeof *number);

    list->nodes = NULL;
    list->n_nodes = 0;
    append_steps_after(walk, -1);
    for (int i = 0; i < walk->n_old; i++) {
        number[i] = list->n_nodes;
        if (!walk->old[i].dead) {
            struct wf_list_node *node = wf_op_list_add_node(list, WF_LIST_KERNEL);

            *node = walk->old[i];
            if (node->started >= 0) node->started = number[node->started];
        }
        append_steps_after(walk, i);
    }
    wf_free(number);
    wf_free(walk->old);
}

static int count_items(const struct wf_op_list *list)
{
    int n = 0;

    for (int i = 0; i < list->n_nodes; i++)
        if (can_be_split(list, &list->nodes[i])) n += list->nodes[i].n_items;
    return n;
}

int wf_pass_updates(struct wf_op_list *list)
{
    int n = count_items(list);
    struct walk walk = {.list = list, .old = list->nodes, .n_old = list->n_nodes};

    if (n == 0) return 0;
    walk.first = wf_malloc(((size_t)list->n_nodes + 1) * sizeof *walk.first);
    walk.next = wf_malloc((size_t)n * sizeof *walk.next);
    walk.of = wf_malloc((size_t)n * sizeof *walk.of);
    for (int i = 0; i <= list->n_nodes; i++) walk.first[i] = -1;
    for (int i = 0; i < n; i++) walk.next[i] = -1;
    for (int i = 0; i < list->n_nodes; i++)
        if (can_be_split(list, &list->nodes[i])) split(&walk, i);
    put_in_order(&walk);
    wf_free(walk.first);
    wf_free(walk.next);
    wf_free(walk.of);
    return n;
}
