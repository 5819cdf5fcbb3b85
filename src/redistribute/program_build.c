/*
 * program_build.c: views, buffers, shards and copies. It decides when a copy is needed to send
 * or to put together; which collectives there are is program.c's.
 */
#include "redistribute/program_build.h"

#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"

/* ---- shapes ---- */

static int64_t product_of_sizes(const int64_t *shape, int n)
{
    int64_t elements = 1;

    for (int d = 0; d < n; d++) elements *= shape[d];
    return elements;
}

bool wf_redist_view_is_contiguous(const struct wf_redist_builder *b)
{
    int64_t step = 1;

    for (int d = b->ndim - 1; d >= 0; d--) {
        if (b->view.shape[d] == 0) return true;
        if (b->view.shape[d] != 1 && b->view.stride[d] != step) return false;
        step *= b->view.shape[d];
    }
    return true;
}

int64_t wf_redist_view_numel(const struct wf_redist_builder *b)
{
    return product_of_sizes(b->view.shape, b->ndim);
}

/* ---- ranks of a step ---- */

int wf_redist_step_rank_count(const struct wf_redist_builder *b, unsigned axes)
{
    int ways = 1;

    for (unsigned left = axes; left; left &= left - 1) ways *= b->sizes[__builtin_ctz(left)];
    return ways;
}

int wf_redist_step_own_rank(const struct wf_redist_builder *b, unsigned axes)
{
    int me = 0;

    for (unsigned left = axes; left; left &= left - 1) {
        int a = __builtin_ctz(left);

        me = me * b->sizes[a] + b->coordinates[a];
    }
    return me;
}

void wf_redist_member_coordinates(const struct wf_redist_builder *b, unsigned axes, int member,
                                  int *coordinates)
{
    for (int a = b->plan->from->n_axes - 1; a >= 0; a--) {
        coordinates[a] = b->coordinates[a];
        if (!(axes >> a & 1)) continue;
        coordinates[a] = member % b->sizes[a];
        member /= b->sizes[a];
    }
}

static void shard_of_coordinates(const struct wf_redist_builder *b, struct wf_shard *shard, int dim,
                                 const int *coordinates, const weft_placement *placements)
{
    wf_shard_init(shard, dim, b->plan->from->desc.global[dim], b->sizes, coordinates, placements,
                  b->plan->from->n_axes);
}

int64_t wf_redist_shard_shape(const struct wf_redist_builder *b, const int *coordinates,
                              const weft_placement *placements, int64_t *shape)
{
    for (int d = 0; d < b->ndim; d++) {
        struct wf_shard shard;

        shard_of_coordinates(b, &shard, d, coordinates, placements);
        shape[d] = shard.size;
    }
    return product_of_sizes(shape, b->ndim);
}

int64_t wf_redist_intersect_shards(struct wf_redist_builder *b, const int *in_p,
                                   const weft_placement *p, const int *in_q,
                                   const weft_placement *q)
{
    int64_t elements = 1;

    for (int d = 0; d < b->ndim; d++) {
        struct wf_shard x, y;

        shard_of_coordinates(b, &x, d, in_p, p);
        shard_of_coordinates(b, &y, d, in_q, q);
        wf_overlap_compute(&b->overlap[d], &x, &y);
        elements *= b->overlap[d].total;
    }
    return elements;
}

/* ---- views, buffers, actions ---- */

struct wf_redist_action *wf_redist_add_action(struct wf_redist_builder *b, enum wf_redist_act act,
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

int wf_redist_add_buffer(struct wf_redist_builder *b, int64_t elements, enum wf_category category)
{
    struct wf_redist_program *p = b->program;

    WF_ASSERT(p->n_buffers < WF_REDIST_MAX_BUFFERS);
    p->buffers[p->n_buffers] = (struct wf_redist_buffer){elements, category};
    return p->n_buffers++;
}

void wf_redist_view_set_buffer(struct wf_redist_builder *b, int buffer)
{
    b->view.buffer = buffer;
    b->view.offset = 0;
    wf_row_major_strides(b->view.stride, b->view.shape, b->ndim);
}

static struct wf_strided_copy *append_strided_copy(struct wf_redist_action *action)
{
    int n = action->n_copies++;

    action->copies = wf_array_grow(action->copies, n, sizeof(struct wf_strided_copy));
    return &action->copies[n];
}

void wf_redist_add_contiguous_copy(struct wf_redist_builder *b, enum wf_category category)
{
    struct wf_redist_view old = b->view;
    int buffer = wf_redist_add_buffer(b, wf_redist_view_numel(b), category);
    struct wf_redist_action *action = wf_redist_add_action(b, WF_ACT_COPY, old.buffer, buffer);
    struct wf_strided_copy *copy;

    wf_redist_view_set_buffer(b, buffer);
    if (wf_redist_view_numel(b) == 0) return;
    copy = append_strided_copy(action);
    wf_strided_copy_init(copy, old.shape, old.stride, b->view.stride, b->ndim, b->element);
    copy->src_offset = old.offset * (int64_t)b->element;
    copy->dst_offset = 0;
}

void wf_redist_ensure_own_buffer(struct wf_redist_builder *b)
{
    if (b->view.buffer == 0 || !wf_redist_view_is_contiguous(b))
        wf_redist_add_contiguous_copy(b, WF_MEM_ACTIVATIONS);
}

void wf_redist_view_new_buffer(struct wf_redist_builder *b, int source, const int64_t *shape)
{
    memcpy(b->view.shape, shape, sizeof b->view.shape);
    wf_redist_view_set_buffer(b,
                              wf_redist_add_buffer(b, wf_redist_view_numel(b), WF_MEM_ACTIVATIONS));
    wf_redist_add_action(b, WF_ACT_COPY, source, b->view.buffer);
}

/* ---- copies of overlaps ---- */

struct wf_copy_side wf_redist_side_of_view(const struct wf_redist_builder *b,
                                           enum wf_copy_side_kind kind)
{
    struct wf_copy_side side = {.kind = kind, .offset = b->view.offset};

    memcpy(side.stride, b->view.stride, sizeof side.stride);
    return side;
}

struct wf_copy_side wf_redist_side_row_major(const struct wf_redist_builder *b,
                                             enum wf_copy_side_kind kind, const int64_t *shape,
                                             int64_t offset)
{
    struct wf_copy_side side = {.kind = kind, .offset = offset};

    wf_row_major_strides(side.stride, shape, b->ndim);
    return side;
}

struct wf_copy_side wf_redist_side_of_overlap(const struct wf_redist_builder *b, int64_t offset)
{
    int64_t shape[WEFT_MAX_DIMS];

    for (int d = 0; d < b->ndim; d++) shape[d] = b->overlap[d].total;
    return wf_redist_side_row_major(b, WF_SIDE_OVERLAP, shape, offset);
}

void wf_redist_add_overlap_copies(struct wf_redist_builder *b, const struct wf_copy_side *src,
                                  const struct wf_copy_side *dst)
{
    struct wf_redist_action *action = &b->program->actions[b->program->n_actions - 1];
    struct wf_overlap_copies all = {
        .ndim = b->ndim, .overlap = b->overlap, .src = *src, .dst = *dst, .element = b->element};
    struct wf_strided_copy copy;

    while (wf_overlap_next_copy(&all, &copy)) *append_strided_copy(action) = copy;
}

bool wf_redist_drop_plain_copy(struct wf_redist_builder *b, int64_t *shift)
{
    struct wf_redist_action *action = &b->program->actions[b->program->n_actions - 1];

    *shift = action->n_copies ? action->copies[0].src_offset - action->copies[0].dst_offset : 0;
    for (int i = 0; i < action->n_copies; i++) {
        const struct wf_strided_copy *copy = &action->copies[i];

        if (copy->loops > 0 || copy->src_offset - copy->dst_offset != *shift) return false;
    }
    wf_free(action->copies);
    b->program->n_actions--;
    b->program->n_buffers--;
    return true;
}
