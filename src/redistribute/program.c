/*
 * program.c: turns steps into actions. It follows a view (a buffer, an offset, a
 * shape and strides) from the source to the target: a chunk only narrows the view, a collective
 * sends straight from it where it can, and each side of a collective is packed by at most one
 * action. Runs when a plan is made; what it leaves is run without further decisions.
 */
#include "redistribute/program_build.h"

#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "mesh/mesh.h"

/* ---- local steps ---- */

/* One run per dim narrows the view; anything else is put together anew. */
static void add_chunk_actions(struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    struct wf_copy_side whole = wf_redist_side_of_view(b, WF_SIDE_FIRST_SHARD), shard;
    int64_t shape[WEFT_MAX_DIMS], offset = b->view.offset;
    bool narrows = true;

    wf_redist_intersect_shards(b, b->coordinates, step->from, b->coordinates, step->to);
    wf_redist_shard_shape(b, b->coordinates, step->to, shape);
    for (int d = 0; d < b->ndim; d++) {
        const struct wf_overlap *o = &b->overlap[d];

        narrows &= o->n <= 1 && (o->n == 0 || o->spans[0].count == 1);
        if (o->n > 0) offset += o->spans[0].a * b->view.stride[d];
    }
    if (narrows) {
        b->view.offset = offset;
        memcpy(b->view.shape, shape, sizeof shape);
        return;
    }
    wf_redist_view_new_buffer(b, b->view.buffer, shape);
    shard = wf_redist_side_of_view(b, WF_SIDE_SECOND_SHARD);
    wf_redist_add_overlap_copies(b, &whole, &shard);
}

static void extreme_value_of_dtype(unsigned char *element, weft_dtype dtype, bool lowest)
{
    int32_t narrow = lowest ? INT32_MIN : INT32_MAX;
    int64_t wide = lowest ? INT64_MIN : INT64_MAX;

    if (dtype == WEFT_I32)
        memcpy(element, &narrow, sizeof narrow);
    else if (dtype == WEFT_I64)
        memcpy(element, &wide, sizeof wide);
    else if (wf_dtypes[dtype].is_float)
        wf_dtypes[dtype].store(element, lowest ? -INFINITY : INFINITY);
    else if (dtype == WEFT_I16 || dtype == WEFT_I8)
        wf_dtypes[dtype].store(element, dtype == WEFT_I16 ? lowest ? INT16_MIN : INT16_MAX
                                        : lowest          ? INT8_MIN
                                                          : INT8_MAX);
    else
        wf_dtypes[dtype].store(element, lowest ? 0 : dtype == WEFT_BOOL ? 1 : UINT8_MAX);
}

/* The element e with e + x = x, or whatever the reduction is. */
static void neutral_element_of_reduce(unsigned char *element, weft_dtype dtype, weft_placement p)
{
    if (p.reduce == WEFT_MAX || p.reduce == WEFT_MIN)
        extreme_value_of_dtype(element, dtype, p.reduce == WEFT_MAX);
    else if (p.reduce == WEFT_NORM && p.p < 0)
        extreme_value_of_dtype(element, dtype, false);
    else
        wf_dtypes[dtype].store(element, p.reduce == WEFT_PRODUCT ? 1 : 0);
}

static int add_neutral_buffer(struct wf_redist_builder *b, weft_placement to)
{
    int buffer = wf_redist_add_buffer(b, wf_redist_view_numel(b), WF_MEM_ACTIVATIONS);

    neutral_element_of_reduce(wf_redist_add_action(b, WF_ACT_FILL, buffer, buffer)->element,
                              (weft_dtype)b->plan->from->desc.dtype, to);
    return buffer;
}

/* From replicated, the first rank keeps its copy and the others hold the neutral element; from a
 * shard, each rank holds the neutral element around its own shard. */
static void add_embed_actions(struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    int axis = __builtin_ctz(step->axes), source = b->view.buffer;
    struct wf_copy_side shard = wf_redist_side_of_view(b, WF_SIDE_FIRST_SHARD), whole;

    if (!wf_is_shard_or_strided(step->from[axis])) {
        if (b->coordinates[axis] != 0)
            wf_redist_view_set_buffer(b, add_neutral_buffer(b, step->to[axis]));
        return;
    }
    wf_redist_shard_shape(b, b->coordinates, step->to, b->view.shape);
    wf_redist_view_set_buffer(b, add_neutral_buffer(b, step->to[axis]));
    wf_redist_intersect_shards(b, b->coordinates, step->from, b->coordinates, step->to);
    wf_redist_add_action(b, WF_ACT_COPY, source, b->view.buffer);
    whole = wf_redist_side_of_view(b, WF_SIDE_SECOND_SHARD);
    wf_redist_add_overlap_copies(b, &shard, &whole);
}

/* ---- the whole ---- */

static void translate_step_to_actions(struct wf_redist_builder *b, struct wf_redist_step *step)
{
    switch ((enum wf_redist_kind)step->kind) {
    case WF_REDIST_CHUNK:
        add_chunk_actions(b, step);
        break;
    case WF_REDIST_REDUCE_SCATTER:
        wf_redist_add_reduce_scatter(b, step);
        break;
    case WF_REDIST_ALL_TO_ALL:
        wf_redist_add_all_to_all(b, step);
        break;
    case WF_REDIST_ALL_REDUCE:
        wf_redist_add_all_reduce(b, step);
        break;
    case WF_REDIST_ALL_GATHER:
        wf_redist_add_all_gather(b, step);
        break;
    case WF_REDIST_EMBED:
        add_embed_actions(b, step);
        break;
    case WF_REDIST_MAGNITUDE:
        wf_redist_ensure_own_buffer(b); /* the first power of |x| */
        wf_redist_add_action(b, WF_ACT_POWER, b->view.buffer, b->view.buffer)->power = 1;
        break;
    case WF_REDIST_LABEL:
    case WF_REDIST_KINDS:
        break;
    }
    wf_redist_add_reduction_end(b, step);
}

/* The result is a block of its own, all of it and nothing else. */
static void finish_program(struct wf_redist_builder *b)
{
    struct wf_redist_program *p = b->program;

    if (b->view.buffer == 0 || !wf_redist_view_is_contiguous(b) ||
        p->buffers[b->view.buffer].elements != wf_redist_view_numel(b))
        wf_redist_add_contiguous_copy(b, WF_MEM_ACTIVATIONS);
    p->result = b->view.buffer;
    if (b->plan->to->partial) p->buffers[p->result].category = WF_MEM_COMM;
}

static void mark_buffer_lifetimes(struct wf_redist_program *p)
{
    bool made[WF_REDIST_MAX_BUFFERS] = {[0] = true}, used[WF_REDIST_MAX_BUFFERS] = {[0] = true};

    used[p->result] = true;
    for (int i = 0; i < p->n_actions; i++) {
        p->actions[i].makes = !made[p->actions[i].dst];
        made[p->actions[i].dst] = true;
    }
    for (int i = p->n_actions - 1; i >= 0; i--) {
        struct wf_redist_action *action = &p->actions[i];

        action->drops_src = !used[action->src];
        used[action->src] = true;
        action->drops_dst = !used[action->dst];
        used[action->dst] = true;
    }
}

struct wf_redist_program *wf_redist_program_new(struct wf_redist_plan *plan)
{
    const struct wf_tensor_desc *desc = &plan->from->desc;
    struct wf_redist_builder b = {
        .plan = plan, .program = WF_NEW(struct wf_redist_program), .divisor = 1};

    b.sizes = wf_mesh_sizes(plan->from->mesh);
    b.coordinates = wf_mesh_coordinates(plan->from->mesh);
    b.ndim = desc->ndim;
    b.element = weft_dtype_size((weft_dtype)desc->dtype);
    memcpy(b.view.shape, desc->shape, sizeof b.view.shape);
    memcpy(b.view.stride, desc->stride, sizeof b.view.stride);
    b.program->n_buffers = 1; /* the source */
    for (int i = 0; i < plan->n_steps; i++) translate_step_to_actions(&b, &plan->steps[i]);
    finish_program(&b);
    mark_buffer_lifetimes(b.program);
    for (int d = 0; d < b.ndim; d++) wf_overlap_free(&b.overlap[d]);
    return b.program;
}

void wf_redist_program_free(struct wf_redist_program *program)
{
    if (!program) return;
    for (int i = 0; i < program->n_actions; i++) {
        wf_free(program->actions[i].copies);
        wf_free(program->actions[i].send_counts);
        wf_free(program->actions[i].recv_counts);
    }
    wf_free(program->actions);
    wf_free(program);
}
