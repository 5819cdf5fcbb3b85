/*
 * list_graph.c: the capture of a list and its launches. What the library does for a whole step of a
 * program is step_graph's; here all that is read and written is known, so nothing else is kept.
 */
#include "compile/replay/list_graph.h"

#include <stdio.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "device/device.h"
#include "mesh/mesh.h"

enum { WHY_BYTES = 256, ALIGNED_TO = 256 };

/* What nodes reach of a storage, in bytes from its base on. */
struct reach {
    int64_t first, end; /* equal: nothing */
    bool used, written;
};

/* A call that is given anew in each launch: it draws, or is the step of an optimizer. */
struct changing_call {
    struct wf_list_graph *graph;
    int number;
};

struct wf_list_graph {
    const struct wf_program *program;
    const struct wf_op_list *list;
    bool has_run;
    int64_t launches;
    char why[WHY_BYTES]; /* it will have no graph; empty: it may */
    struct reach *reach; /* by storage */
    int rounds;          /* of agreement; 0: not known yet */
    struct wf_block *places;
    char **base;                    /* by storage: where the captured calls have it */
    struct changing_call *changing; /* by call */
    struct wf_graph *captured;
};

struct wf_list_graph *wf_list_graph_new(const struct wf_program *program,
                                        const struct wf_op_list *list)
{
    struct wf_list_graph *graph = WF_NEW(struct wf_list_graph);

    graph->program = program;
    graph->list = list;
    return graph;
}

static void free_capture(struct wf_list_graph *graph)
{
    wf_graph_free(graph->captured);
    graph->captured = NULL;
    if (graph->places) wf_block_release(graph->places);
    graph->places = NULL;
    wf_free(graph->reach);
    wf_free(graph->base);
    wf_free(graph->changing);
    graph->reach = NULL;
    graph->base = NULL;
    graph->changing = NULL;
}

void wf_list_graph_free(struct wf_list_graph *graph)
{
    if (!graph) return;
    free_capture(graph);
    wf_free(graph);
}

int64_t wf_list_graph_launch_count(const struct wf_list_graph *graph) { return graph->launches; }

static void give_up(struct wf_list_graph *graph, const char *why)
{
    if (!graph->why[0]) snprintf(graph->why, sizeof graph->why, "%s", why);
    free_capture(graph);
    if (wf_log_rank() <= 0)
        WF_LOG(WF_LOG_WARN, "compile", "a list is not launched as a graph: %s", graph->why);
}

/* ---- what the nodes reach ---- */

/* Bytes of one side of a copy, from its first element on. */
static int64_t copied_bytes(const struct wf_strided_copy *copy, const int64_t *step, int64_t offset)
{
    int64_t last = offset;

    for (int l = 0; l < copy->loops; l++) last += (copy->count[l] - 1) * step[l];
    return copy->run ? last + (int64_t)copy->run : 0;
}

/* Bytes behind an operand that has no layout, of a node of the lower level; -1: it is not known. */
static int64_t bytes_without_layout(const struct wf_list_node *node, const struct wf_operand *o)
{
    bool out = o == &node->out[0];
    int64_t bytes = 0;

    if (node->kind != WF_LIST_COPY) return -1;
    for (int i = 0; i < node->n_copies; i++) {
        const struct wf_strided_copy *copy = &node->copies[i];
        int64_t end = out ? copied_bytes(copy, copy->dst_step, copy->dst_offset)
                          : copied_bytes(copy, copy->src_step, copy->src_offset);

        if (end > bytes) bytes = end;
    }
    return bytes;
}

/* A collective reads the packed elements of its move's source. */
static int64_t bytes_of_operand(const struct wf_list_node *node, const struct wf_operand *o)
{
    if (o->layout) return wf_operand_bytes(o);
    if (node->kind == WF_LIST_START && o == &node->in[0])
        return node->piece ? -1
                           : node->move->from->desc.numel *
                                     (int64_t)wf_dtypes[node->move->from->desc.dtype].size -
                                 node->action->src_offset;
    return bytes_without_layout(node, o);
}

/* false: it is not on the GPU, or not known how far it reaches. */
static bool note_reach(struct wf_list_graph *graph, const struct wf_operand *o, int64_t bytes,
                       bool write)
{
    const struct wf_storage *storage;
    struct reach *reach;

    if (o->storage < 0) return true;
    storage = &graph->list->storages[o->storage];
    reach = &graph->reach[o->storage];
    if (storage->device != WEFT_CUDA && storage->bytes) return false;
    reach->used = true;
    reach->written |= write;
    if (storage->kind == WF_STORAGE_MADE) reach->end = storage->bytes;
    if (storage->kind == WF_STORAGE_MADE || storage->keeps_address || bytes == 0) return true;
    if (bytes < 0) return false;
    if (reach->end == reach->first) reach->first = reach->end = o->offset;
    if (o->offset < reach->first) reach->first = o->offset;
    if (o->offset + bytes > reach->end) reach->end = o->offset + bytes;
    return true;
}

/* An optimizer writes to its parameter's own address. */
static bool note_reach_of_update(struct wf_list_graph *graph, const struct wf_list_node *node)
{
    bool known = true;

    for (int i = 0; i < node->n_items; i++) {
        const struct wf_optimizer_step_arrays *arrays = &node->items[i].arrays;
        int64_t bytes = arrays->count * (int64_t)wf_dtypes[arrays->grad_dtype].size;
        int parameter = node->arrays[2 * i].storage;

        known &= parameter >= 0 && graph->list->storages[parameter].keeps_address;
        if (parameter >= 0) graph->reach[parameter].used = graph->reach[parameter].written = true;
        known &= note_reach(graph, &node->arrays[2 * i + 1], bytes, false);
    }
    return known;
}

static bool note_reach_of_node(struct wf_list_graph *graph, const struct wf_list_node *node)
{
    bool known = note_reach_of_update(graph, node);

    for (int i = 0; i < node->n_in; i++)
        known &= note_reach(graph, &node->in[i], bytes_of_operand(node, &node->in[i]), false);
    for (int j = 0; j < node->n_out; j++)
        known &= note_reach(graph, &node->out[j], bytes_of_operand(node, &node->out[j]), true);
    return known;
}

/* A result that another stands for has no bytes of its own. */
static bool has_place(const struct wf_list_graph *graph, int s)
{
    const struct wf_storage *storage = &graph->list->storages[s];
    const struct reach *reach = &graph->reach[s];

    if (storage->keeps_address) return false;
    if (storage->kind == WF_STORAGE_MADE && (!storage->kept || storage->same_as)) return false;
    return reach->end > reach->first;
}

/* A place begins as far behind a multiple of ALIGNED_TO as what it is a place for: kernels choose
 * by alignment. */
static int64_t place_behind(int64_t at, const char *like)
{
    return (at + ALIGNED_TO - 1) / ALIGNED_TO * ALIGNED_TO +
           (int64_t)((uintptr_t)like % ALIGNED_TO);
}

/* Bytes of all places; with `base`, set there where each storage begins. */
static int64_t lay_out(const struct wf_list_graph *graph, const struct wf_program_run *run,
                       char *places, char **base)
{
    int64_t at = 0;

    for (int s = 0; s < graph->list->n_storages; s++) {
        const struct reach *reach = &graph->reach[s];

        if (base) base[s] = run->base[s];
        if (!has_place(graph, s)) continue;
        at = place_behind(at, run->base[s] + reach->first);
        if (base) base[s] = places + at - reach->first;
        at += reach->end - reach->first;
    }
    return at;
}

/* Addresses of the captured calls: the run's, but for what lies elsewhere in each run. */
static bool allocate_places(struct wf_list_graph *graph, const struct wf_program_run *run)
{
    const struct wf_op_list *list = graph->list;
    bool no_error = weft_error_status() == WEFT_OK;
    int64_t bytes = lay_out(graph, run, NULL, NULL);

    if (bytes) graph->places = wf_block_new_on(WEFT_CUDA, (size_t)bytes, WF_MEM_ACTIVATIONS);
    if (bytes && !graph->places) {
        if (no_error) weft_error_clear(); /* it runs without a graph */
        return false;
    }
    lay_out(graph, run, graph->places ? graph->places->data : NULL, graph->base);
    for (int s = 0; s < list->n_storages; s++)
        if (list->storages[s].same_as) graph->base[s] = graph->base[list->storages[s].same_as - 1];
    return true;
}

static bool find_places(struct wf_list_graph *graph, const struct wf_program_run *run)
{
    const struct wf_op_list *list = graph->list;
    int n = wf_program_call_count(graph->program);

    graph->reach = wf_calloc((size_t)list->n_storages + 1, sizeof *graph->reach);
    graph->base = wf_calloc((size_t)list->n_storages + 1, sizeof *graph->base);
    graph->changing = wf_calloc((size_t)n + 1, sizeof *graph->changing);
    for (int i = 0; i < n && !graph->why[0]; i++) {
        const struct wf_list_node *node = wf_program_node(graph->program, i);

        if (!note_reach_of_node(graph, node))
            snprintf(graph->why, sizeof graph->why,
                     "%s uses what is not on the GPU, or is an input and a parameter, or has no "
                     "layout",
                     node->name);
    }
    if (!graph->why[0] && !allocate_places(graph, run))
        snprintf(graph->why, sizeof graph->why, "there is no memory for its inputs and results");
    return !graph->why[0];
}

/* ---- before and after a launch ---- */

static void copy_inputs_in(const struct wf_list_graph *graph, const struct wf_program_run *run)
{
    for (int s = 0; s < graph->list->n_storages; s++) {
        const struct reach *reach = &graph->reach[s];

        if (has_place(graph, s) && graph->list->storages[s].kind != WF_STORAGE_MADE)
            wf_device_copy(WEFT_CUDA, graph->base[s] + reach->first, run->base[s] + reach->first,
                           (size_t)(reach->end - reach->first));
    }
}

static void copy_results_out(const struct wf_list_graph *graph, const struct wf_program_run *run)
{
    for (int s = 0; s < graph->list->n_storages; s++) {
        const struct reach *reach = &graph->reach[s];

        if (has_place(graph, s) && reach->written)
            wf_device_copy(WEFT_CUDA, run->base[s] + reach->first, graph->base[s] + reach->first,
                           (size_t)(reach->end - reach->first));
    }
}

/* What stays is where it was when the graph was captured. */
static bool fixed_addresses_are_unchanged(const struct wf_list_graph *graph,
                                          const struct wf_program_run *run)
{
    for (int s = 0; s < graph->list->n_storages; s++)
        if (graph->list->storages[s].keeps_address && run->base[s] != graph->base[s]) return false;
    return true;
}

/* Of what has no bytes, the first one: so ranks without elements come to the same. */
static void range_of(const struct wf_list_graph *graph, const struct wf_program_run *run, int s,
                     const char **first, const char **end)
{
    const struct wf_storage *storage = &graph->list->storages[s];
    const struct reach *reach = &graph->reach[s];

    *first = run->base[s] + (storage->keeps_address ? 0 : reach->first);
    *end = run->base[s] + (storage->keeps_address ? storage->bytes : reach->end);
    if (*end == *first) (*end)++;
}

/* Two storages that come from outside share memory in this run, an input and a parameter say, and
 * one of them is written: with a copy of one of them, the other would not see it. Alike on all
 * ranks, as tensors are given alike. */
static bool storages_meet(const struct wf_list_graph *graph, const struct wf_program_run *run)
{
    const struct wf_op_list *list = graph->list;

    for (int a = 0; a < list->n_storages; a++) {
        const char *first, *end, *other_first, *other_end;

        if (list->storages[a].kind == WF_STORAGE_MADE || list->storages[a].keeps_address ||
            !graph->reach[a].used)
            continue;
        range_of(graph, run, a, &first, &end);
        for (int b = 0; b < list->n_storages; b++) {
            if (a == b || list->storages[b].kind == WF_STORAGE_MADE || !graph->reach[b].used ||
                !(graph->reach[a].written || graph->reach[b].written))
                continue;
            range_of(graph, run, b, &other_first, &other_end);
            if (first < other_end && other_first < end) return true;
        }
    }
    return false;
}

/* ---- capture ---- */

/* The addresses that the captured calls have. */
static struct wf_program_run captured_addresses(const struct wf_list_graph *graph)
{
    return (struct wf_program_run){.base = graph->base};
}

static void advance(void *self, int by)
{
    const struct changing_call *call = self;
    const struct wf_list_node *node = wf_program_node(call->graph->program, call->number);

    node->call.advance(node->call.self, by);
}

static void give(void *self)
{
    const struct changing_call *call = self;
    struct wf_program_run run = captured_addresses(call->graph);

    wf_program_give_call(call->graph->program, call->number, &run);
}

static void capture_calls(struct wf_list_graph *graph)
{
    struct wf_program_run run = captured_addresses(graph);

    for (int i = 0; i < wf_program_call_count(graph->program); i++) {
        const struct wf_list_node *node = wf_program_node(graph->program, i);
        bool update = node->kind == WF_LIST_UPDATE;

        graph->changing[i] = (struct changing_call){graph, i};
        if (update) node->call.advance(node->call.self, 1); /* a capture does not */
        if ((update || node->draws) && wf_capture_of_thread)
            wf_capture_add_call(
                (struct wf_changing_call){.advance = update ? advance : NULL,
                                          .give = update && !node->n_items ? NULL : give,
                                          .self = &graph->changing[i]});
        else
            wf_program_give_call(graph->program, i, &run);
    }
}

/* Of this collective's mesh no earlier one is. */
static bool is_first_of_mesh(const struct wf_op_list *list, int node)
{
    if (list->nodes[node].kind != WF_LIST_START) return false;
    for (int i = 0; i < node; i++)
        if (list->nodes[i].kind == WF_LIST_START &&
            list->nodes[i].move->from->mesh == list->nodes[node].move->from->mesh)
            return false;
    return true;
}

/* The least of what the ranks of each mesh of the list say, mesh by mesh, of which each rank takes
 * what it has heard from the last one to the next. */
static int least_of_meshes(const struct wf_op_list *list, int mine)
{
    for (int i = 0; i < list->n_nodes; i++) {
        if (!is_first_of_mesh(list, i)) continue;
        mine = wf_comm_least(wf_mesh_all_axes_comm(list->nodes[i].move->from->mesh), mine);
    }
    return mine;
}

/*
 * How often the ranks have to ask one another until each has heard of all. Once where they share
 * one mesh. Meshes that overlap in a chain ({0,1}, {1,2}, ...) hand on what they hear by one mesh
 * or more each time, and have fewer links than the world has ranks; a rank that knows one of them
 * alone shares it with one that knows two, so all of a chain come to the same number.
 */
static int count_agreement_rounds(const struct wf_op_list *list)
{
    int meshes = 0;

    for (int i = 0; i < list->n_nodes; i++) meshes += is_first_of_mesh(list, i);
    return -least_of_meshes(list, -meshes) > 1 ? weft_world_size() : 1;
}

/* What a rank says before a capture, and after it; the least of all ranks holds. */
enum verdict { NEVER, NOT_NOW, READY };

/* Of all who take part in the list's collectives. */
static enum verdict agree_on_verdict(struct wf_list_graph *graph, enum verdict verdict)
{
    if (!graph->rounds) graph->rounds = count_agreement_rounds(graph->list);
    for (int i = 0; i < graph->rounds; i++)
        verdict = (enum verdict)least_of_meshes(graph->list, (int)verdict);
    return verdict;
}

static enum verdict prepare(struct wf_list_graph *graph, const struct wf_program_run *run)
{
    /* A capture that lacks memory cannot be left on one rank. Where something is in flight, what is
     * idle stays. */
    wf_comm_trim_device();
    if (!find_places(graph, run)) return NEVER;
    return storages_meet(graph, run) ? NOT_NOW : READY;
}

/* gives: false: nothing has happened */
static bool capture(struct wf_list_graph *graph, const struct wf_program_run *run)
{
    enum verdict verdict = agree_on_verdict(graph, prepare(graph, run));
    const char *why;

    if (verdict == NOT_NOW) free_capture(graph);
    if (verdict == NEVER) give_up(graph, "another rank can make no graph of it");
    if (verdict != READY) return false;
    copy_inputs_in(graph, run);
    wf_comm_order_in_flight(); /* what began before the list does not end in it */
    why = wf_capture_begin(false);
    if (why) snprintf(graph->why, sizeof graph->why, "%s", why);
    capture_calls(graph);
    if (!why) graph->captured = wf_capture_end(graph->why, sizeof graph->why);
    copy_results_out(graph, run);
    if (agree_on_verdict(graph, graph->captured ? READY : NEVER) == NEVER)
        give_up(graph, "another rank has no graph of it");
    return true;
}

bool wf_list_graph_run(struct wf_list_graph *graph, const struct wf_program_run *run)
{
    if (graph->why[0] || wf_capture_is_open()) return false;
    if (!graph->has_run) {
        graph->has_run = true;
        return false;
    }
    if (!graph->captured) return capture(graph, run);
    if (wf_graph_is_closed(graph->captured)) {
        give_up(graph, "weft_finalize came after its capture");
        return false;
    }
    if (!fixed_addresses_are_unchanged(graph, run) || storages_meet(graph, run)) return false;
    copy_inputs_in(graph, run);
    if (!wf_graph_launch(graph->captured)) {
        give_up(graph, "an optimizer or a draw takes other kernels than when it was captured");
        return false;
    }
    copy_results_out(graph, run);
    graph->launches++;
    return true;
}
