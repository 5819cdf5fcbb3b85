/*
 * program_build.h: what programs are built of: a view that moves from buffer to buffer, the
 * shards of the ranks in a step, and the strided copies from one shard to another.
 */
#pragma once

#include "placement/shard_overlap.h"
#include "redistribute/program.h"

struct wf_redist_view {
    int buffer;
    int64_t offset; /* elements */
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS];
};

struct wf_redist_builder {
    struct wf_redist_plan *plan;
    struct wf_redist_program *program;
    const int *sizes, *coordinates;
    int ndim;
    size_t element;
    int divisor; /* of the averages that are summed but not divided yet */
    float power; /* of the norms that are summed but have no root yet; 0: none */
    struct wf_redist_view view;
    struct wf_overlap
        overlap[WEFT_MAX_DIMS]; /* of two ranks' shards, set by wf_redist_intersect_shards */
};

/* ---- ranks of a step ---- */

int wf_redist_step_rank_count(const struct wf_redist_builder *b, unsigned axes);
/** This rank's number among them. */
int wf_redist_step_own_rank(const struct wf_redist_builder *b, unsigned axes);
/** The coordinates of number `member`. */
void wf_redist_member_coordinates(const struct wf_redist_builder *b, unsigned axes, int member,
                                  int *coordinates);

/** Elements per dim that a rank holds; returns their number. */
int64_t wf_redist_shard_shape(const struct wf_redist_builder *b, const int *coordinates,
                              const weft_placement *placements, int64_t *shape);

/** What two ranks both hold, one by `p` and the other by `q`, into b->overlap. gives: elements */
int64_t wf_redist_intersect_shards(struct wf_redist_builder *b, const int *in_p,
                                   const weft_placement *p, const int *in_q,
                                   const weft_placement *q);

/* ---- views, buffers, actions ---- */

int64_t wf_redist_view_numel(const struct wf_redist_builder *b);
bool wf_redist_view_is_contiguous(const struct wf_redist_builder *b);

/** One more action at the end; the pointer holds until the next one. */
struct wf_redist_action *wf_redist_add_action(struct wf_redist_builder *b, enum wf_redist_act act,
                                              int src, int dst);
int wf_redist_add_buffer(struct wf_redist_builder *b, int64_t elements, enum wf_category category);

/** The view becomes all of `buffer`, row-major, with the shape it has. */
void wf_redist_view_set_buffer(struct wf_redist_builder *b, int buffer);

/** Copy the view, row-major, to a buffer of its own; unless it is one already, the second. */
void wf_redist_add_contiguous_copy(struct wf_redist_builder *b, enum wf_category category);
void wf_redist_ensure_own_buffer(struct wf_redist_builder *b);

/** The view becomes a new buffer of this shape, to be filled by an action that copies from
 *  `source`. */
void wf_redist_view_new_buffer(struct wf_redist_builder *b, int source, const int64_t *shape);

/* ---- copies of overlaps ---- */

/** A side of a copy with the view's strides; a shard that fills a buffer: row-major. */
struct wf_copy_side wf_redist_side_of_view(const struct wf_redist_builder *b,
                                           enum wf_copy_side_kind kind);
struct wf_copy_side wf_redist_side_row_major(const struct wf_redist_builder *b,
                                             enum wf_copy_side_kind kind, const int64_t *shape,
                                             int64_t offset);
struct wf_copy_side wf_redist_side_of_overlap(const struct wf_redist_builder *b, int64_t offset);

/** Copies of b->overlap, appended to the last action. */
void wf_redist_add_overlap_copies(struct wf_redist_builder *b, const struct wf_copy_side *src,
                                  const struct wf_copy_side *dst);

/** Where the last action only moves one run of bytes as a whole, take it and the newest buffer, its
 *  destination, back. gives: true, and how many bytes further on the source has what the
 *  destination should have */
bool wf_redist_drop_plain_copy(struct wf_redist_builder *b, int64_t *shift);

/* ---- steps that communicate (program_collectives.c) ---- */

void wf_redist_add_all_reduce(struct wf_redist_builder *b, struct wf_redist_step *step);
void wf_redist_add_reduce_scatter(struct wf_redist_builder *b, struct wf_redist_step *step);
void wf_redist_add_all_gather(struct wf_redist_builder *b, struct wf_redist_step *step);
void wf_redist_add_all_to_all(struct wf_redist_builder *b, struct wf_redist_step *step);

/** After a step: divide an average, take the root of a norm, once nothing is left to be summed. */
void wf_redist_add_reduction_end(struct wf_redist_builder *b, const struct wf_redist_step *step);
