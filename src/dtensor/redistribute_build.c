/*
 * redistribute_build.c: views, buffers and packing. It decides when a copy is needed to send or to
 * put together; which collectives there are is redistribute_program.c's.
 */
#include "dtensor/redistribute_build.h"

#include "base/error.h"
#include "base/mem.h"

/* ---- shapes ---- */

static int64_t product(const int64_t *shape, int from, int to)
{
    int64_t n = 1;

    for (int d = from; d < to; d++) n *= shape[d];
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

bool wf_build_is_contiguous(const struct wf_redist_builder *b)
{
    int64_t step = 1;

    for (int d = b->ndim - 1; d >= 0; d--) {
        if (b->view.shape[d] == 0) return true;
        if (b->view.shape[d] != 1 && b->view.stride[d] != step) return false;
        step *= b->view.shape[d];
    }
    return true;
}

int64_t wf_build_elements(const struct wf_redist_builder *b)
{
    return product(b->view.shape, 0, b->ndim);
}

/* Parts cut along a dim lie one after another when nothing but dims of one element precedes it. */
static bool leads(const struct wf_redist_builder *b, int dim)
{
    return product(b->view.shape, 0, dim) <= 1;
}

struct wf_redist_cut wf_build_cut(const struct wf_redist_builder *b, int axis, int dim)
{
    struct wf_redist_cut cut = {dim, b->sizes[axis], b->coordinates[axis],
                                b->plan->from->desc.global[dim]};

    for (int a = 0; a < axis; a++)
        if (b->now[a].kind == WEFT_KIND_SHARD && b->now[a].dim == dim)
            cut.n = weft_chunk_size(cut.n, b->sizes[a], b->coordinates[a]);
    return cut;
}

/* ---- actions and buffers ---- */

struct wf_redist_action *wf_build_action(struct wf_redist_builder *b, enum wf_redist_act act,
                                         int src, int dst)
{
    struct wf_redist_program *p = b->program;
    struct wf_redist_action *action;

    p->actions = wf_realloc(p->actions, (size_t)(p->n_actions + 1) * sizeof *p->actions);
    action = &p->actions[p->n_actions++];
    *action =
        (struct wf_redist_action){.act = (uint8_t)act, .src = (uint8_t)src, .dst = (uint8_t)dst};
    return action;
}

int wf_build_buffer(struct wf_redist_builder *b, int64_t elements, enum wf_category category)
{
    struct wf_redist_program *p = b->program;

    WF_ASSERT(p->n_buffers < WF_REDIST_MAX_BUFFERS);
    p->buffers[p->n_buffers] = (struct wf_redist_buffer){elements, category};
    return p->n_buffers++;
}

void wf_build_look_at(struct wf_redist_builder *b, int buffer)
{
    b->view.buffer = buffer;
    b->view.offset = 0;
    row_major(b->view.stride, b->ndim, b->view.shape);
}

void wf_build_copy(const struct wf_redist_builder *b, struct wf_redist_action *action,
                   const int64_t *shape, const struct wf_redist_view *src, int64_t src_offset,
                   const struct wf_redist_view *dst, int64_t dst_offset)
{
    struct wf_copy *copy = &action->copies[action->n_copies];

    if (product(shape, 0, b->ndim) == 0) return;
    wf_copy_plan(copy, b->ndim, shape, src->stride, dst->stride, b->element);
    copy->src_offset = (src->offset + src_offset) * (int64_t)b->element;
    copy->dst_offset = (dst->offset + dst_offset) * (int64_t)b->element;
    action->n_copies++;
}

struct wf_redist_action *wf_build_copies(struct wf_redist_builder *b, int src, int dst, int room)
{
    struct wf_redist_action *action = wf_build_action(b, WF_ACT_COPY, src, dst);

    action->copies = wf_malloc((size_t)room * sizeof *action->copies);
    return action;
}

void wf_build_contiguous(struct wf_redist_builder *b, enum wf_category category)
{
    struct wf_redist_view old = b->view;
    int buffer = wf_build_buffer(b, wf_build_elements(b), category);
    struct wf_redist_action *action = wf_build_copies(b, old.buffer, buffer, 1);

    wf_build_look_at(b, buffer);
    wf_build_copy(b, action, old.shape, &old, 0, &b->view, 0);
}

/* Between a view of the whole and its parts along a dim lying one after another. */
static void add_part_copies(struct wf_redist_builder *b, struct wf_redist_action *action,
                            struct wf_redist_cut cut, const struct wf_redist_view *whole,
                            bool packing)
{
    struct wf_redist_view part = *whole;
    int64_t at = 0;

    part.offset = 0;
    for (int r = 0; r < cut.ways; r++) {
        int64_t inside = weft_chunk_offset(cut.n, cut.ways, r) * whole->stride[cut.dim];

        part.shape[cut.dim] = weft_chunk_size(cut.n, cut.ways, r);
        row_major(part.stride, b->ndim, part.shape);
        if (packing)
            wf_build_copy(b, action, part.shape, whole, inside, &part, at);
        else
            wf_build_copy(b, action, part.shape, &part, at, whole, inside);
        at += product(part.shape, 0, b->ndim);
    }
}

void wf_build_pack(struct wf_redist_builder *b, struct wf_redist_cut cut)
{
    struct wf_redist_action *action;
    int buffer;

    if (leads(b, cut.dim)) {
        if (!wf_build_is_contiguous(b)) wf_build_contiguous(b, WF_MEM_COMM);
        return;
    }
    buffer = wf_build_buffer(b, wf_build_elements(b), WF_MEM_COMM);
    action = wf_build_copies(b, b->view.buffer, buffer, cut.ways);
    add_part_copies(b, action, cut, &b->view, true);
    b->view.buffer = buffer;
    b->view.offset = 0;
}

void wf_build_unpack(struct wf_redist_builder *b, struct wf_redist_cut cut, int parts)
{
    struct wf_redist_action *action;

    if (leads(b, cut.dim)) {
        wf_build_look_at(b, parts);
        return;
    }
    wf_build_look_at(b, wf_build_buffer(b, wf_build_elements(b), WF_MEM_ACTIVATIONS));
    action = wf_build_copies(b, parts, b->view.buffer, cut.ways);
    add_part_copies(b, action, cut, &b->view, false);
}

size_t *wf_build_counts(const struct wf_redist_builder *b, struct wf_redist_cut cut)
{
    int64_t rest =
        product(b->view.shape, 0, cut.dim) * product(b->view.shape, cut.dim + 1, b->ndim);
    size_t *counts = wf_malloc((size_t)cut.ways * sizeof *counts);

    for (int r = 0; r < cut.ways; r++)
        counts[r] = (size_t)(weft_chunk_size(cut.n, cut.ways, r) * rest);
    return counts;
}
