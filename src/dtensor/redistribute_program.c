/*
 * redistribute_program.c: turns steps into actions. It follows a view (a buffer, an offset, a
 * shape and strides) from the source to the target: a chunk only narrows the view, a collective
 * sends straight from it where it can, and each side of a collective is packed by at most one
 * strided copy. Runs when a plan is made; what it leaves is run without further decisions.
 */
#include "dtensor/redistribute_build.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "mesh/mesh.h"

/* ---- collectives ---- */

static struct wf_redist_action *add_coll(struct wf_redist_builder *b, weft_coll coll, int axis,
                                         int dst)
{
    struct wf_redist_action *action = wf_build_action(b, WF_ACT_COLL, b->view.buffer, dst);

    action->coll = coll;
    action->axis = (int8_t)axis;
    action->src_offset = b->view.offset * (int64_t)b->element;
    return action;
}

static void count_sent(struct wf_redist_builder *b, int64_t elements)
{
    b->program->bytes_sent += elements * (int64_t)b->element;
}

/* An average is a sum that is divided later. */
static weft_reduce carried(struct wf_redist_builder *b, weft_reduce reduce, int axis)
{
    if (reduce != WEFT_AVG) return reduce;
    b->divisor *= b->sizes[axis];
    return WEFT_SUM;
}

static bool sums_follow(const struct wf_redist_builder *b)
{
    for (int a = 0; a < b->plan->from->n_axes; a++)
        if (b->sizes[a] > 1 && b->now[a].kind == WEFT_KIND_PARTIAL &&
            !weft_placement_equal(b->now[a], b->plan->to->placements[a]))
            return true;
    return false;
}

/* Once, when no reduction is left to finish: fewer passes, and less is rounded. */
static void divide(struct wf_redist_builder *b)
{
    if (b->divisor == 1 || sums_follow(b)) return;
    if (b->view.buffer == 0 || !wf_build_is_contiguous(b))
        wf_build_contiguous(b, WF_MEM_ACTIVATIONS);
    wf_build_action(b, WF_ACT_DIVIDE, b->view.buffer, b->view.buffer)->divisor = b->divisor;
    b->divisor = 1;
}

static void all_gather(struct wf_redist_builder *b, int axis, int dim)
{
    struct wf_redist_cut cut = wf_build_cut(b, axis, dim);
    struct wf_redist_action *action;
    size_t *counts;
    int parts;

    if (!wf_build_is_contiguous(b)) wf_build_contiguous(b, WF_MEM_COMM);
    counts = wf_build_counts(b, cut);
    count_sent(b, wf_build_elements(b) * (cut.ways - 1));
    b->view.shape[dim] = cut.n;
    parts = wf_build_buffer(b, wf_build_elements(b), WF_MEM_COMM);
    action = add_coll(b, WEFT_COLL_ALL_GATHER, axis, parts);
    action->recv_counts = counts;
    wf_build_unpack(b, cut, parts);
}

/* A buffer of ours is reduced in place; the source is read where it lies. */
static void all_reduce(struct wf_redist_builder *b, int axis, weft_reduce reduce)
{
    struct wf_redist_action *action;
    int dst;

    if (!wf_build_is_contiguous(b)) wf_build_contiguous(b, WF_MEM_COMM);
    dst = b->view.buffer;
    if (dst == 0 || b->view.offset != 0)
        dst = wf_build_buffer(b, wf_build_elements(b), WF_MEM_COMM);
    b->program->buffers[dst].category = WF_MEM_COMM;
    count_sent(b, 2 * wf_build_elements(b) * (b->sizes[axis] - 1) / b->sizes[axis]);
    action = add_coll(b, WEFT_COLL_ALL_REDUCE, axis, dst);
    action->reduce = carried(b, reduce, axis);
    action->count = (size_t)wf_build_elements(b);
    wf_build_look_at(b, dst);
}

static void reduce_scatter(struct wf_redist_builder *b, int axis, weft_reduce reduce, int dim)
{
    struct wf_redist_cut cut = wf_build_cut(b, axis, dim);
    int64_t before = wf_build_elements(b);
    struct wf_redist_action *action;
    size_t *counts;
    int dst;

    wf_build_pack(b, cut);
    counts = wf_build_counts(b, cut);
    b->view.shape[dim] = weft_chunk_size(cut.n, cut.ways, cut.me);
    count_sent(b, before - wf_build_elements(b));
    dst = wf_build_buffer(b, wf_build_elements(b), WF_MEM_COMM);
    action = add_coll(b, WEFT_COLL_REDUCE_SCATTER, axis, dst);
    action->reduce = carried(b, reduce, axis);
    action->send_counts = counts;
    wf_build_look_at(b, dst);
}

static void all_to_all(struct wf_redist_builder *b, int axis, int from, int to)
{
    struct wf_redist_cut gathered = wf_build_cut(b, axis, from), cut = wf_build_cut(b, axis, to);
    size_t *send_counts, *recv_counts;
    struct wf_redist_action *action;
    int parts;

    wf_build_pack(b, cut);
    send_counts = wf_build_counts(b, cut);
    count_sent(b, wf_build_elements(b) - (int64_t)send_counts[cut.me]);
    b->view.shape[to] = weft_chunk_size(cut.n, cut.ways, cut.me);
    recv_counts = wf_build_counts(b, gathered);
    b->view.shape[from] = gathered.n;
    parts = wf_build_buffer(b, wf_build_elements(b), WF_MEM_COMM);
    action = add_coll(b, WEFT_COLL_ALL_TO_ALL, axis, parts);
    action->send_counts = send_counts;
    action->recv_counts = recv_counts;
    wf_build_unpack(b, gathered, parts);
}

/* ---- local steps ---- */

static void chunk(struct wf_redist_builder *b, int axis, int dim)
{
    struct wf_redist_cut cut = wf_build_cut(b, axis, dim);

    b->view.offset += weft_chunk_offset(cut.n, cut.ways, cut.me) * b->view.stride[dim];
    b->view.shape[dim] = weft_chunk_size(cut.n, cut.ways, cut.me);
}

static void extreme(unsigned char *element, weft_dtype dtype, bool lowest)
{
    int32_t narrow = lowest ? INT32_MIN : INT32_MAX;
    int64_t wide = lowest ? INT64_MIN : INT64_MAX;

    if (dtype == WEFT_I32)
        memcpy(element, &narrow, sizeof narrow);
    else if (dtype == WEFT_I64)
        memcpy(element, &wide, sizeof wide);
    else if (wf_dtypes[dtype].is_float)
        wf_dtypes[dtype].store(element, lowest ? -INFINITY : INFINITY);
    else
        wf_dtypes[dtype].store(element, lowest ? 0 : dtype == WEFT_BOOL ? 1 : UINT8_MAX);
}

/* The element e with e + x = x, or whatever the reduction is. */
static void neutral(unsigned char *element, weft_dtype dtype, weft_reduce reduce)
{
    if (reduce == WEFT_MAX || reduce == WEFT_MIN)
        extreme(element, dtype, reduce == WEFT_MAX);
    else
        wf_dtypes[dtype].store(element, reduce == WEFT_PRODUCT ? 1 : 0);
}

static int filled(struct wf_redist_builder *b, weft_reduce reduce)
{
    int buffer = wf_build_buffer(b, wf_build_elements(b), WF_MEM_ACTIVATIONS);

    neutral(wf_build_action(b, WF_ACT_FILL, buffer, buffer)->element,
            (weft_dtype)b->plan->from->desc.dtype, reduce);
    return buffer;
}

/* The first rank keeps what all have; the others' terms change nothing. */
static void embed_whole(struct wf_redist_builder *b, int axis, weft_reduce reduce)
{
    if (b->coordinates[axis] != 0) wf_build_look_at(b, filled(b, reduce));
}

/* This rank's part in a whole that changes nothing elsewhere. */
static void embed_part(struct wf_redist_builder *b, int axis, int dim, weft_reduce reduce)
{
    struct wf_redist_cut cut = wf_build_cut(b, axis, dim);
    struct wf_redist_view part = b->view;
    struct wf_redist_action *action;

    b->view.shape[dim] = cut.n;
    wf_build_look_at(b, filled(b, reduce));
    action = wf_build_copies(b, part.buffer, b->view.buffer, 1);
    wf_build_copy(b, action, part.shape, &part, 0, &b->view,
                  weft_chunk_offset(cut.n, cut.ways, cut.me) * b->view.stride[dim]);
}

/* ---- the whole ---- */

static void translate(struct wf_redist_builder *b, const struct wf_redist_step *step)
{
    weft_reduce from = (weft_reduce)step->from.reduce, to = (weft_reduce)step->to.reduce;

    switch ((enum wf_redist_kind)step->kind) {
    case WF_REDIST_CHUNK:
        chunk(b, step->axis, step->to.dim);
        break;
    case WF_REDIST_REDUCE_SCATTER:
        reduce_scatter(b, step->axis, from, step->to.dim);
        break;
    case WF_REDIST_ALL_TO_ALL:
        all_to_all(b, step->axis, step->from.dim, step->to.dim);
        break;
    case WF_REDIST_ALL_REDUCE:
        all_reduce(b, step->axis, from);
        break;
    case WF_REDIST_ALL_GATHER:
        all_gather(b, step->axis, step->from.dim);
        break;
    case WF_REDIST_EMBED:
        if (step->from.kind == WEFT_KIND_SHARD)
            embed_part(b, step->axis, step->from.dim, to);
        else
            embed_whole(b, step->axis, to);
        break;
    case WF_REDIST_KINDS:
        break;
    }
    b->now[step->axis] = step->to;
    divide(b);
}

/* The result is a block of its own, all of it and nothing else. */
static void finish(struct wf_redist_builder *b)
{
    struct wf_redist_program *p = b->program;

    if (b->view.buffer == 0 || !wf_build_is_contiguous(b) ||
        p->buffers[b->view.buffer].elements != wf_build_elements(b))
        wf_build_contiguous(b, WF_MEM_ACTIVATIONS);
    p->result = b->view.buffer;
    if (b->plan->to->partial) p->buffers[p->result].category = WF_MEM_COMM;
}

static void mark_lifetimes(struct wf_redist_program *p)
{
    uint64_t made = 1, used = (uint64_t)1 << p->result | 1;

    for (int i = 0; i < p->n_actions; i++) {
        p->actions[i].makes = !(made >> p->actions[i].dst & 1);
        made |= (uint64_t)1 << p->actions[i].dst;
    }
    for (int i = p->n_actions - 1; i >= 0; i--) {
        uint64_t touched = (uint64_t)1 << p->actions[i].src | (uint64_t)1 << p->actions[i].dst;

        p->actions[i].drops = touched & ~used;
        used |= touched;
    }
}

struct wf_redist_program *wf_redist_program_new(const struct wf_redist_plan *plan)
{
    const struct wf_desc *desc = &plan->from->desc;
    struct wf_redist_builder b = {
        .plan = plan, .program = WF_NEW(struct wf_redist_program), .divisor = 1};

    b.sizes = wf_mesh_sizes(plan->from->mesh);
    b.coordinates = wf_mesh_coordinates(plan->from->mesh);
    memcpy(b.now, plan->from->placements, sizeof b.now);
    b.ndim = desc->ndim;
    b.element = weft_dtype_size((weft_dtype)desc->dtype);
    memcpy(b.view.shape, desc->shape, sizeof b.view.shape);
    memcpy(b.view.stride, desc->stride, sizeof b.view.stride);
    b.program->n_buffers = 1; /* the source */
    for (int i = 0; i < plan->n_steps; i++) translate(&b, &plan->steps[i]);
    finish(&b);
    mark_lifetimes(b.program);
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
