/*
 * program.c: runs a list. Addresses are a base per storage plus an offset; bases of what only lives
 * in the run are fixed once, by when each storage is first and last used (memory_plan.c).
 */
#include "compile/replay/program.h"

#include <string.h>

#include "base/call_context.h"
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "compile/replay/fused.h"
#include "compile/replay/list_graph.h"
#include "compile/replay/memory_plan.h"
#include "device/device.h"
#include "mesh/mesh.h"

/* Of the kernels' time, spent on collectives that go over a link. */
static const double progress_share = 1.0 / 16;

struct call {
    const struct wf_list_node *node;
    struct wf_coll *coll; /* of a start and its wait */
};

struct wf_program {
    const struct wf_op_list *list;
    struct call *calls;
    int n_calls;
    struct wf_memory_plan *memory;
    struct wf_coll *colls;
    struct wf_block **kept; /* room for one run */
    char **base;
    weft_list_runner runner;     /* run NULL: calls run in their order */
    struct wf_list_graph *graph; /* NULL: it is launched as none */
};

/* A program is what a backend knows as a list. */
struct weft_list_run {
    const struct wf_program *program;
    const struct wf_program_run *run;
};

struct wf_program *wf_program_new(const struct wf_op_list *list)
{
    struct wf_program *program = WF_NEW(struct wf_program);

    program->list = list;
    program->memory = wf_memory_plan_new(list);
    if (!program->memory) {
        wf_free(program);
        return NULL;
    }
    program->calls = wf_calloc((size_t)list->n_nodes + 1, sizeof *program->calls);
    program->colls = wf_calloc((size_t)list->n_nodes + 1, sizeof *program->colls);
    program->kept = wf_calloc((size_t)list->n_storages + 1, sizeof(struct wf_block *));
    program->base = wf_calloc((size_t)list->n_storages + 1, sizeof(char *));
    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];
        struct call *call = &program->calls[program->n_calls];

        if (node->kind == WF_LIST_VIEW) continue;
        call->node = node;
        if (node->kind == WF_LIST_START) call->coll = &program->colls[i];
        if (node->kind == WF_LIST_WAIT) call->coll = &program->colls[node->started];
        program->n_calls++;
    }
    return program;
}

void wf_program_free(struct wf_program *program)
{
    if (!program) return;
    if (program->runner.release) program->runner.release(program->runner.state);
    wf_list_graph_free(program->graph);
    wf_memory_plan_free(program->memory);
    wf_free(program->calls);
    wf_free(program->colls);
    wf_free(program->kept);
    wf_free(program->base);
    wf_free(program);
}

int64_t wf_program_memory(const struct wf_program *program)
{
    return wf_memory_plan_bytes(program->memory);
}

const struct wf_memory_plan *wf_program_memory_plan(const struct wf_program *program)
{
    return program->memory;
}

int wf_program_call_count(const struct wf_program *program) { return program->n_calls; }

void wf_program_launch_as_graph(struct wf_program *program)
{
    const struct wf_op_list *list = program->list;
    bool on_gpu = false;

    for (int s = 0; s < list->n_storages; s++) on_gpu |= list->storages[s].device == WEFT_CUDA;
    if (on_gpu && program->n_calls > 0) program->graph = wf_list_graph_new(program, list);
}

int64_t wf_program_launch_count(const struct wf_program *program)
{
    return program->graph ? wf_list_graph_launch_count(program->graph) : 0;
}

/* ---- one call ---- */

static void *address_of(const struct wf_program_run *run, const struct wf_operand *operand)
{
    return operand->storage < 0 ? NULL : run->base[operand->storage] + operand->offset;
}

static void run_kernel(const struct wf_op_list *list, const struct wf_list_node *node,
                       const struct wf_program_run *run)
{
    const struct wf_kernel_call *kernel = &node->plan->kernel;
    const void *from[WF_MAX_IN];
    void *to[WF_MAX_OUT];

    for (int i = 0; i < node->n_in; i++)
        from[i] = node->plan->absent[i] ? NULL : address_of(run, &node->in[i]);
    for (int j = 0; j < node->n_out; j++) to[j] = address_of(run, &node->out[j]);
    if (node->draws) {
        struct wf_scalars scalars = node->scalars;
        uint64_t seed, number;

        wf_step_draws_numbers(node->of_forward ? list->forward_draws : list->draws, node->draw,
                              &seed, &number);
        scalars.v[0] = (int64_t)seed;
        scalars.v[1] = (int64_t)number;
        kernel->run(kernel, to, from, &scalars);
        return;
    }
    kernel->run(kernel, to, from, &node->scalars);
}

static weft_device device_of_result(const struct wf_op_list *list, const struct wf_list_node *node)
{
    return (weft_device)list->storages[node->out[0].storage].device;
}

static void run_copy(const struct wf_op_list *list, const struct wf_list_node *node,
                     const struct wf_program_run *run)
{
    weft_device device = device_of_result(list, node);
    void *dst = address_of(run, &node->out[0]);
    const void *src = address_of(run, &node->in[0]);

    for (int i = 0; i < node->n_copies; i++)
        wf_device_strided_copy(device, &node->copies[i], dst, src);
}

/* Elements of a move's buffer. */
static size_t count_elements(const struct wf_op_list *list, const struct wf_list_node *node)
{
    return (size_t)list->storages[node->out[0].storage].bytes /
           wf_dtypes[node->move->from->desc.dtype].size;
}

static void run_fill(const struct wf_op_list *list, const struct wf_list_node *node,
                     const struct wf_program_run *run)
{
    void *dst = address_of(run, &node->out[0]);

    if (node->action)
        wf_device_fill(device_of_result(list, node), dst, node->action->element,
                       wf_dtypes[node->move->from->desc.dtype].size, count_elements(list, node));
    else
        wf_device_fill(device_of_result(list, node), dst, node->element, node->element_bytes,
                       node->count);
}

static void start_collective(const struct wf_op_list *list, const struct wf_list_node *node,
                             const struct wf_program_run *run, struct wf_coll *coll)
{
    const struct wf_redist_action *action = node->action;

    *coll = (struct wf_coll){
        .kind = action->coll,
        .comm = wf_mesh_axes_comm(node->move->from->mesh, action->axes),
        .device = device_of_result(list, node),
        .dtype = (weft_dtype)node->move->from->desc.dtype,
        .reduce = action->reduce,
        .count = action->count,
        .send_counts = action->send_counts,
        .recv_counts = action->recv_counts,
        .send = address_of(run, &node->in[0]),
        .recv = address_of(run, &node->out[0]),
    };
    if (node->piece) {
        coll->peer = node->piece->peer;
        coll->rooted = node->piece->rooted;
    }
    wf_comm_start(coll);
}

/* The addresses are those of this run; `give` has the numbers of this step. */
static void give_update(const struct wf_list_node *node, const struct wf_program_run *run)
{
    for (int i = 0; i < node->n_items; i++) {
        struct wf_optimizer_step_arrays *arrays = &node->items[i].arrays;

        arrays->g = address_of(run, &node->arrays[2 * i + 1]);
    }
    if (node->item >= 0)
        node->call.give_item(node->call.self, node->item);
    else if (node->n_items)
        node->call.give(node->call.self);
}

/* What the host counts beside a call has been counted. */
static void run_call(const struct wf_op_list *list, const struct call *call,
                     const struct wf_program_run *run)
{
    const struct wf_list_node *node = call->node;
    weft_dtype dtype;

    switch ((enum wf_list_node_kind)node->kind) {
    case WF_LIST_KERNEL:
        run_kernel(list, node, run);
        return;
    case WF_LIST_FUSED:
        wf_fused_run(list, node, run);
        return;
    case WF_LIST_COPY:
        run_copy(list, node, run);
        return;
    case WF_LIST_FILL:
        run_fill(list, node, run);
        return;
    case WF_LIST_START:
        start_collective(list, node, run, call->coll);
        return;
    case WF_LIST_WAIT:
        wf_comm_wait(call->coll);
        return;
    case WF_LIST_UPDATE:
        give_update(node, run);
        return;
    case WF_LIST_DELIVER:
        if (run->deliver) run->deliver(node->result, run->payload);
        return;
    case WF_LIST_DIVIDE:
        dtype = (weft_dtype)node->move->from->desc.dtype;
        wf_device_divide(device_of_result(list, node), dtype, count_elements(list, node),
                         address_of(run, &node->out[0]), node->action->divisor);
        return;
    case WF_LIST_POWER:
        dtype = (weft_dtype)node->move->from->desc.dtype;
        wf_device_power(device_of_result(list, node), dtype, count_elements(list, node),
                        address_of(run, &node->out[0]), node->action->power);
        return;
    case WF_LIST_VIEW:
    case WF_LIST_MOVE:
    case WF_LIST_NODE_KINDS:
        return;
    }
}

/* ---- a run ---- */

/* Two slots of backward that hold the same. */
static void share_blocks(const struct wf_op_list *list, const struct wf_program_run *run)
{
    for (int s = 0; s < list->n_storages; s++) {
        int as = list->storages[s].same_as - 1;

        if (as < 0) continue;
        run->kept[s] = wf_block_retain(run->kept[as]);
        run->base[s] = run->base[as];
    }
}

weft_status wf_program_begin_run(const struct wf_program *program, struct wf_program_run *run)
{
    const struct wf_op_list *list = program->list;

    *run = (struct wf_program_run){.base = program->base, .kept = program->kept};
    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];

        run->kept[s] = NULL;
        if (storage->same_as) continue;
        if (storage->kind == WF_STORAGE_EXTERNAL) run->base[s] = storage->block->data;
        if (storage->kind != WF_STORAGE_MADE) continue;
        if (!storage->kept) {
            run->base[s] = wf_memory_plan_address(program->memory, s);
            continue;
        }
        run->kept[s] = wf_block_new_on((weft_device)storage->device, (size_t)storage->bytes,
                                       (enum wf_category)storage->category);
        if (!run->kept[s]) {
            wf_program_end_run(program, run);
            return weft_error_status();
        }
        run->base[s] = run->kept[s]->data;
    }
    share_blocks(list, run);
    return WEFT_OK;
}

void wf_program_give_call(const struct wf_program *program, int i, const struct wf_program_run *run)
{
    const struct wf_list_node *node = program->calls[i].node;

    wf_current_context.op = node->name;
    wf_current_context.module = node->module;
    wf_current_context.phase = (enum wf_phase)node->phase;
    run_call(program->list, &program->calls[i], run);
}

static inline void run_call_in_context(const struct wf_program *program, int i,
                                       const struct wf_program_run *run)
{
    const struct wf_list_node *node = program->calls[i].node;

    if (node->call.advance) node->call.advance(node->call.self, 1);
    wf_program_give_call(program, i, run);
}

const struct wf_list_node *wf_program_node(const struct wf_program *program, int i)
{
    return program->calls[i].node;
}

/* Over a link a collective goes on a little in each call of wf_comm_progress. */
static void progress_over_link(double *last)
{
    double now = wf_monotonic_seconds(), until = now + (now - *last) * progress_share;

    do {
        wf_comm_progress();
        *last = wf_monotonic_seconds();
    } while (wf_comm_in_flight() && *last < until);
}

void wf_program_run_calls(const struct wf_program *program, const struct wf_program_run *run)
{
    double last_progress = 0;
    int in_flight = 0, over_link = 0;
    bool others_in_flight = wf_comm_in_flight(); /* that gradient hooks have started */

    for (int i = 0; i < program->n_calls; i++) {
        const struct wf_list_node *node = program->calls[i].node;

        run_call_in_context(program, i, run);
        in_flight += (node->kind == WF_LIST_START) - (node->kind == WF_LIST_WAIT);
        if (node->kind == WF_LIST_DELIVER) others_in_flight = wf_comm_in_flight();
        if (in_flight == 0) over_link = 0;
        if (node->kind == WF_LIST_START && wf_comm_needs_progress(program->calls[i].coll) &&
            over_link++ == 0)
            last_progress = wf_monotonic_seconds();
        if (over_link > 0)
            progress_over_link(&last_progress);
        else if (in_flight > 0 || others_in_flight)
            wf_comm_progress();
    }
}

void wf_program_run_all(const struct wf_program *program, const struct wf_program_run *run)
{
    struct wf_call_context before = wf_current_context;

    if (program->runner.run)
        program->runner.run(&(weft_list_run){program, run}, program->runner.state);
    else if (!program->graph || !wf_list_graph_run(program->graph, run))
        wf_program_run_calls(program, run);
    wf_current_context = before;
}

void wf_program_end_run(const struct wf_program *program, struct wf_program_run *run)
{
    for (int s = 0; s < program->list->n_storages; s++) {
        if (run->kept[s]) wf_block_release(run->kept[s]);
        run->kept[s] = NULL;
    }
}

/* ---- for backends ---- */

static const struct wf_program *program_of(const weft_list *list)
{
    return (const struct wf_program *)list;
}

weft_status wf_program_hand_to_backend(struct wf_program *program, weft_compile_backend *backend)
{
    weft_list_runner runner = {0};

    WF_TRY(backend((const weft_list *)program, &runner));
    program->runner = runner;
    return WEFT_OK;
}

int weft_list_node_count(const weft_list *list) { return program_of(WF_HANDLE(list))->n_calls; }

static weft_list_operand describe_operand(const struct wf_op_list *list,
                                          const struct wf_operand *operand)
{
    weft_list_operand described = {.storage = operand->storage, .offset = operand->offset};
    const struct wf_tensor_desc *desc;

    if (operand->storage >= 0)
        described.device = (weft_device)list->storages[operand->storage].device;
    if (!operand->layout) return described;
    desc = &operand->layout->desc;
    described.has_shape = true;
    described.dtype = (weft_dtype)desc->dtype;
    described.ndim = desc->ndim;
    memcpy(described.shape, desc->shape, (size_t)desc->ndim * sizeof(int64_t));
    memcpy(described.stride, desc->stride, (size_t)desc->ndim * sizeof(int64_t));
    return described;
}

static const weft_list_kind kinds[WF_LIST_NODE_KINDS] = {
    [WF_LIST_KERNEL] = WEFT_LIST_KERNEL, [WF_LIST_FUSED] = WEFT_LIST_FUSED,
    [WF_LIST_UPDATE] = WEFT_LIST_UPDATE, [WF_LIST_COPY] = WEFT_LIST_COPY,
    [WF_LIST_FILL] = WEFT_LIST_FILL,     [WF_LIST_START] = WEFT_LIST_START,
    [WF_LIST_WAIT] = WEFT_LIST_WAIT,     [WF_LIST_DIVIDE] = WEFT_LIST_DIVIDE,
    [WF_LIST_POWER] = WEFT_LIST_POWER,   [WF_LIST_DELIVER] = WEFT_LIST_DELIVER};

weft_list_node weft_list_node_at(const weft_list *list, int i)
{
    const struct wf_program *program = program_of(WF_HANDLE(list));
    const struct wf_list_node *node;
    weft_list_node described = {0};

    if (i < 0 || i >= program->n_calls) return described;
    node = program->calls[i].node;
    described.op = node->name;
    described.module = node->module;
    described.kind = kinds[node->kind];
    described.in_place = node->in_place;
    described.n_in = node->n_in;
    described.n_out = node->n_out;
    for (int k = 0; k < node->n_in; k++)
        described.in[k] = describe_operand(program->list, &node->in[k]);
    for (int k = 0; k < node->n_out; k++)
        described.out[k] = describe_operand(program->list, &node->out[k]);
    return described;
}

void weft_list_run_node(const weft_list_run *run, int i)
{
    if (WF_HANDLE(run)->program && i >= 0 && i < run->program->n_calls)
        run_call_in_context(run->program, i, run->run);
}

void *weft_list_run_address(const weft_list_run *run, const weft_list_operand *operand)
{
    if (!WF_HANDLE(run)->program || operand->storage < 0 ||
        operand->storage >= run->program->list->n_storages)
        return NULL;
    return run->run->base[operand->storage] + operand->offset;
}
