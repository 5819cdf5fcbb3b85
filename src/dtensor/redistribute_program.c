/*
 * redistribute_program.c: turns steps into actions. It follows a view (a buffer, an offset, a
 * shape and strides) from the source to the target: a chunk only narrows the view, a collective
 * sends straight from it where it can, and each side of a collective is packed by at most one
 * strided copy. Runs when a plan is made; what it leaves is run without further decisions.
 */
#include "dtensor/redistribute_program.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "mesh/mesh.h"

struct view {
    int buffer;
    int64_t offset; /* elements */
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS];
};

struct builder {
    const struct wf_redist_plan *plan;
    struct wf_redist_program *program;
    weft_placement now[WEFT_MAX_AXES];
    const int *sizes, *coordinates;
    int ndim;
    size_t element;
    int divisor; /* of the averages that are summed but not divided yet */
    struct view view;
};

/* How one dim is cut along one axis: n elements over `ways`, this rank is number `me`. */
struct cut {
    int dim, ways, me;
    int64_t n;
};

/* ---- shapes ---- */

static int64_t product(const int64_t *shape, int from, int to)
{
    int64_t n = 1;

    for (int d = from; d < to; d++)
        n *= shape[d];
    return n;
}

static void row_major(int64_t *stride, int ndim, const int64_t *shape)
{
    int64_t step = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= shape[d];
    }
}

static bool is_contiguous(const struct builder *b)
{
    int64_t step = 1;

    for (int d = b->ndim - 1; d >= 0; d--) {
        if (b->view.shape[d] == 0) return true;
        if (b->view.shape[d] != 1 && b->view.stride[d] != step) return false;
        step *= b->view.shape[d];
    }
    return true;
}

static int64_t view_elements(const struct builder *b) { return product(b->view.shape, 0, b->ndim); }

/* Parts cut along a dim lie one after another when nothing but dims of one element precedes it. */
static bool leads(const struct builder *b, int dim) { return product(b->view.shape, 0, dim) <= 1; }

static struct cut cut_of(const struct builder *b, int axis, int dim)
{
    struct cut cut = {dim, b->sizes[axis], b->coordinates[axis], b->plan->from->desc.global[dim]};

    for (int a = 0; a < axis; a++)
        if (b->now[a].kind == WEFT_KIND_SHARD && b->now[a].dim == dim)
            cut.n = weft_chunk_size(cut.n, b->sizes[a], b->coordinates[a]);
    return cut;
}

/* ---- actions and buffers ---- */

static struct wf_redist_action *add(struct builder *b, enum wf_redist_act act, int src, int dst)
{
    struct wf_redist_program *p = b->program;
    struct wf_redist_action *action;

    p->actions = wf_realloc(p->actions, (size_t)(p->n_actions + 1) * sizeof *p->actions);
    action = &p->actions[p->n_actions++];
    *action =
        (struct wf_redist_action){.act = (uint8_t)act, .src = (uint8_t)src, .dst = (uint8_t)dst};
    return action;
}

static int new_buffer(struct builder *b, int64_t elements, enum wf_category category)
{
    struct wf_redist_program *p = b->program;

    WF_ASSERT(p->n_buffers < WF_REDIST_MAX_BUFFERS);
    p->buffers[p->n_buffers] = (struct wf_redist_buffer){elements, category};
    return p->n_buffers++;
}

/* The view becomes all of `buffer`, row-major, with the shape it has. */
static void look_at(struct builder *b, int buffer)
{
    b->view.buffer = buffer;
    b->view.offset = 0;
    row_major(b->view.stride, b->ndim, b->view.shape);
}

static void add_copy(struct builder *b, struct wf_redist_action *action, const int64_t *shape,
                     const struct view *src, int64_t src_offset, const struct view *dst,
                     int64_t dst_offset)
{
    struct wf_copy *copy = &action->copies[action->n_copies];

    if (product(shape, 0, b->ndim) == 0) return;
    wf_copy_plan(copy, b->ndim, shape, src->stride, dst->stride, b->element);
    copy->src_offset = (src->offset + src_offset) * (int64_t)b->element;
    copy->dst_offset = (dst->offset + dst_offset) * (int64_t)b->element;
    action->n_copies++;
}

static struct wf_redist_action *add_copies(struct builder *b, int src, int dst, int room)
{
    struct wf_redist_action *action = add(b, WF_ACT_COPY, src, dst);

    action->copies = wf_malloc((size_t)room * sizeof *action->copies);
    return action;
}

/* Row-major in a buffer of its own. */
static void make_contiguous(struct builder *b, enum wf_category category)
{
    struct view old = b->view;
    int buffer = new_buffer(b, view_elements(b), category);
    struct wf_redist_action *action = add_copies(b, old.buffer, buffer, 1);

    look_at(b, buffer);
    add_copy(b, action, old.shape, &old, 0, &b->view, 0);
}

/* Between a view of the whole and its parts along a dim lying one after another. */
static void add_part_copies(struct builder *b, struct wf_redist_action *action, struct cut cut,
                            const struct view *whole, bool packing)
{
    struct view part = *whole;
    int64_t at = 0;

    part.offset = 0;
    for (int r = 0; r < cut.ways; r++) {
        int64_t inside = weft_chunk_offset(cut.n, cut.ways, r) * whole->stride[cut.dim];

        part.shape[cut.dim] = weft_chunk_size(cut.n, cut.ways, r);
        row_major(part.stride, b->ndim, part.shape);
        if (packing)
            add_copy(b, action, part.shape, whole, inside, &part, at);
        else
            add_copy(b, action, part.shape, &part, at, whole, inside);
        at += product(part.shape, 0, b->ndim);
    }
}

/* Lay the parts along a dim one after another, unless they do already. */
static void pack(struct builder *b, struct cut cut)
{
    struct wf_redist_action *action;
    int buffer;

    if (leads(b, cut.dim)) {
        if (!is_contiguous(b)) make_contiguous(b, WF_MEM_COMM);
        return;
    }
    buffer = new_buffer(b, view_elements(b), WF_MEM_COMM);
    action = add_copies(b, b->view.buffer, buffer, cut.ways);
    add_part_copies(b, action, cut, &b->view, true);
    b->view.buffer = buffer;
    b->view.offset = 0;
}

/* The buffer `parts` holds the view's parts along a dim one after another: put them together. */
static void unpack(struct builder *b, struct cut cut, int parts)
{
    struct wf_redist_action *action;

    if (leads(b, cut.dim)) {
        look_at(b, parts);
        return;
    }
    look_at(b, new_buffer(b, view_elements(b), WF_MEM_ACTIVATIONS));
    action = add_copies(b, parts, b->view.buffer, cut.ways);
    add_part_copies(b, action, cut, &b->view, false);
}

/* ---- collectives ---- */

static size_t *part_counts(const struct builder *b, struct cut cut)
{
    int64_t rest =
        product(b->view.shape, 0, cut.dim) * product(b->view.shape, cut.dim + 1, b->ndim);
    size_t *counts = wf_malloc((size_t)cut.ways * sizeof *counts);

    for (int r = 0; r < cut.ways; r++)
        counts[r] = (size_t)(weft_chunk_size(cut.n, cut.ways, r) * rest);
    return counts;
}

static struct wf_redist_action *add_coll(struct builder *b, weft_coll coll, int axis, int dst)
{
    struct wf_redist_action *action = add(b, WF_ACT_COLL, b->view.buffer, dst);

    action->coll = coll;
    action->axis = (int8_t)axis;
    action->src_offset = b->view.offset * (int64_t)b->element;
    return action;
}

static void count_sent(struct builder *b, int64_t elements)
{
    b->program->bytes_sent += elements * (int64_t)b->element;
}

/* An average is a sum that is divided later. */
static weft_reduce carried(struct builder *b, weft_reduce reduce, int axis)
{
    if (reduce != WEFT_AVG) return reduce;
    b->divisor *= b->sizes[axis];
    return WEFT_SUM;
}

static bool sums_follow(const struct builder *b)
{
    for (int a = 0; a < b->plan->from->n_axes; a++)
        if (b->sizes[a] > 1 && b->now[a].kind == WEFT_KIND_PARTIAL &&
            !weft_placement_equal(b->now[a], b->plan->to->placements[a]))
            return true;
    return false;
}

/* Once, when no reduction is left to finish: fewer passes, and less is rounded. */
static void divide(struct builder *b)
{
    if (b->divisor == 1 || sums_follow(b)) return;
    if (b->view.buffer == 0 || !is_contiguous(b)) make_contiguous(b, WF_MEM_ACTIVATIONS);
    add(b, WF_ACT_DIVIDE, b->view.buffer, b->view.buffer)->divisor = b->divisor;
    b->divisor = 1;
}

static void all_gather(struct builder *b, int axis, int dim)
{
    struct cut cut = cut_of(b, axis, dim);
    struct wf_redist_action *action;
    size_t *counts;
    int parts;

    if (!is_contiguous(b)) make_contiguous(b, WF_MEM_COMM);
    counts = part_counts(b, cut);
    count_sent(b, view_elements(b) * (cut.ways - 1));
    b->view.shape[dim] = cut.n;
    parts = new_buffer(b, view_elements(b), WF_MEM_COMM);
    action = add_coll(b, WEFT_COLL_ALL_GATHER, axis, parts);
    action->recv_counts = counts;
    unpack(b, cut, parts);
}

/* A buffer of ours is reduced in place; the source is read where it lies. */
static void all_reduce(struct builder *b, int axis, weft_reduce reduce)
{
    struct wf_redist_action *action;
    int dst;

    if (!is_contiguous(b)) make_contiguous(b, WF_MEM_COMM);
    dst = b->view.buffer;
    if (dst == 0 || b->view.offset != 0) dst = new_buffer(b, view_elements(b), WF_MEM_COMM);
    b->program->buffers[dst].category = WF_MEM_COMM;
    count_sent(b, 2 * view_elements(b) * (b->sizes[axis] - 1) / b->sizes[axis]);
    action = add_coll(b, WEFT_COLL_ALL_REDUCE, axis, dst);
    action->reduce = carried(b, reduce, axis);
    action->count = (size_t)view_elements(b);
    look_at(b, dst);
}

static void reduce_scatter(struct builder *b, int axis, weft_reduce reduce, int dim)
{
    struct cut cut = cut_of(b, axis, dim);
    int64_t before = view_elements(b);
    struct wf_redist_action *action;
    size_t *counts;
    int dst;

    pack(b, cut);
    counts = part_counts(b, cut);
    b->view.shape[dim] = weft_chunk_size(cut.n, cut.ways, cut.me);
    count_sent(b, before - view_elements(b));
    dst = new_buffer(b, view_elements(b), WF_MEM_COMM);
    action = add_coll(b, WEFT_COLL_REDUCE_SCATTER, axis, dst);
    action->reduce = carried(b, reduce, axis);
    action->send_counts = counts;
    look_at(b, dst);
}

static void all_to_all(struct builder *b, int axis, int from, int to)
{
    struct cut gathered = cut_of(b, axis, from), cut = cut_of(b, axis, to);
    size_t *send_counts, *recv_counts;
    struct wf_redist_action *action;
    int parts;

    pack(b, cut);
    send_counts = part_counts(b, cut);
    count_sent(b, view_elements(b) - (int64_t)send_counts[cut.me]);
    b->view.shape[to] = weft_chunk_size(cut.n, cut.ways, cut.me);
    recv_counts = part_counts(b, gathered);
    b->view.shape[from] = gathered.n;
    parts = new_buffer(b, view_elements(b), WF_MEM_COMM);
    action = add_coll(b, WEFT_COLL_ALL_TO_ALL, axis, parts);
    action->send_counts = send_counts;
    action->recv_counts = recv_counts;
    unpack(b, gathered, parts);
}

/* ---- local steps ---- */

static void chunk(struct builder *b, int axis, int dim)
{
    struct cut cut = cut_of(b, axis, dim);

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

static int filled(struct builder *b, weft_reduce reduce)
{
    int buffer = new_buffer(b, view_elements(b), WF_MEM_ACTIVATIONS);

    neutral(add(b, WF_ACT_FILL, buffer, buffer)->element, (weft_dtype)b->plan->from->desc.dtype,
            reduce);
    return buffer;
}

/* The first rank keeps what all have; the others' terms change nothing. */
static void embed_whole(struct builder *b, int axis, weft_reduce reduce)
{
    if (b->coordinates[axis] != 0) look_at(b, filled(b, reduce));
}

/* This rank's part in a whole that changes nothing elsewhere. */
static void embed_part(struct builder *b, int axis, int dim, weft_reduce reduce)
{
    struct cut cut = cut_of(b, axis, dim);
    struct view part = b->view;
    struct wf_redist_action *action;

    b->view.shape[dim] = cut.n;
    look_at(b, filled(b, reduce));
    action = add_copies(b, part.buffer, b->view.buffer, 1);
    add_copy(b, action, part.shape, &part, 0, &b->view,
             weft_chunk_offset(cut.n, cut.ways, cut.me) * b->view.stride[dim]);
}

/* ---- the whole ---- */

static void translate(struct builder *b, const struct wf_redist_step *step)
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
static void finish(struct builder *b)
{
    struct wf_redist_program *p = b->program;

    if (b->view.buffer == 0 || !is_contiguous(b) ||
        p->buffers[b->view.buffer].elements != view_elements(b))
        make_contiguous(b, WF_MEM_ACTIVATIONS);
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
    struct builder b = {.plan = plan, .program = WF_NEW(struct wf_redist_program), .divisor = 1};

    b.sizes = wf_mesh_sizes(plan->from->mesh);
    b.coordinates = wf_mesh_coordinates(plan->from->mesh);
    memcpy(b.now, plan->from->placements, sizeof b.now);
    b.ndim = desc->ndim;
    b.element = weft_dtype_size((weft_dtype)desc->dtype);
    memcpy(b.view.shape, desc->shape, sizeof b.view.shape);
    memcpy(b.view.stride, desc->stride, sizeof b.view.stride);
    b.program->n_buffers = 1; /* the source */
    for (int i = 0; i < plan->n_steps; i++)
        translate(&b, &plan->steps[i]);
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
