/*
 * redistribute_build.h: what programs are built of: a view that moves from buffer to buffer, and
 * the strided copies that lay its parts one after another or put them together again.
 */
#pragma once

#include "dtensor/redistribute_program.h"

struct wf_redist_view {
    int buffer;
    int64_t offset; /* elements */
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS];
};

struct wf_redist_builder {
    const struct wf_redist_plan *plan;
    struct wf_redist_program *program;
    weft_placement now[WEFT_MAX_AXES];
    const int *sizes, *coordinates;
    int ndim;
    size_t element;
    int divisor; /* of the averages that are summed but not divided yet */
    struct wf_redist_view view;
};

/* How one dim is cut along one axis: n elements over `ways`, this rank is number `me`. */
struct wf_redist_cut {
    int dim, ways, me;
    int64_t n;
};

/** The cut of `dim` along `axis`: of the piece that the axes before it left. */
struct wf_redist_cut wf_build_cut(const struct wf_redist_builder *b, int axis, int dim);

/** Elements per part of the view when it is cut. gives: wf_free */
size_t *wf_build_counts(const struct wf_redist_builder *b, struct wf_redist_cut cut);

int64_t wf_build_elements(const struct wf_redist_builder *b);
bool wf_build_is_contiguous(const struct wf_redist_builder *b);

/** One more action at the end; the pointer holds until the next one. */
struct wf_redist_action *wf_build_action(struct wf_redist_builder *b, enum wf_redist_act act,
                                         int src, int dst);
int wf_build_buffer(struct wf_redist_builder *b, int64_t elements, enum wf_category category);

/** The view becomes all of `buffer`, row-major, with the shape it has. */
void wf_build_look_at(struct wf_redist_builder *b, int buffer);

/** An action with room for so many copies, and one copy of it; offsets are in elements. */
struct wf_redist_action *wf_build_copies(struct wf_redist_builder *b, int src, int dst, int room);
void wf_build_copy(const struct wf_redist_builder *b, struct wf_redist_action *action,
                   const int64_t *shape, const struct wf_redist_view *src, int64_t src_offset,
                   const struct wf_redist_view *dst, int64_t dst_offset);

/** Copy the view, row-major, to a buffer of its own. */
void wf_build_contiguous(struct wf_redist_builder *b, enum wf_category category);

/** Lay the view's parts along a dim one after another, unless they do already. */
void wf_build_pack(struct wf_redist_builder *b, struct wf_redist_cut cut);

/** The buffer `parts` holds the view's parts one after another: the view becomes the whole. */
void wf_build_unpack(struct wf_redist_builder *b, struct wf_redist_cut cut, int parts);
