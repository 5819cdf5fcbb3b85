/*
 * layout.h: interned layouts (docs/concepts/layout.md, docs/decisions/0001).
 *
 * A layout is everything about a tensor except its bytes: dtype, global shape, mesh, placements,
 * and this rank's box and strides. Equal layouts are the same pointer, so comparing them and
 * keying caches by them is comparing pointers. A plain tensor has a layout without mesh.
 * Reference counted; a layout nobody holds is forgotten. One table per thread.
 */
#pragma once

#include "base/elements/tensor_desc.h"
#include "placement/shard.h"

/**
 * What a plain tensor is along one axis of the mesh that it came from, and what its gradient then
 * is (docs/decisions/0006). Which of them go together is said in dtensor/dispatch/grad_types.def.
 */
enum wf_grad_type_kind {
    WF_TYPE_NONE, /* nothing is known */
    WF_TYPE_I,    /* the same on every rank, as its gradient is */
    WF_TYPE_R,    /* the same on every rank; each rank's gradient is a term */
    WF_TYPE_G,    /* perhaps the same; each rank's gradient is a term: R beside a program's own */
    WF_TYPE_S,    /* each rank has its shard of a dim, and of the gradient's */
    WF_TYPE_V,    /* it varies from rank to rank in no known way, and so does its gradient */
    WF_TYPE_P,    /* each rank has a term; the gradient is the same on every rank */
    WF_TYPE_KINDS
};

/** Part of a plain layout; all zero where nothing is known. */
struct wf_grad_types {
    weft_mesh *mesh; /* NULL: no types */
    struct wf_grad_type {
        uint8_t kind;
        int8_t dim;     /* S */
        uint8_t reduce; /* P */
        bool uneven;    /* S, V: of shards that do not all have the same size */
    } axis[WEFT_MAX_AXES];
};

struct wf_layout {
    struct wf_tensor_desc desc; /* what kernels see */
    weft_mesh *mesh;            /* NULL: plain */
    weft_placement placements[WEFT_MAX_AXES];
    struct wf_grad_types grad_types; /* plain ones only */
    int64_t numel;                   /* global */
    uint64_t hash;
    int n_axes;   /* 0: plain */
    bool partial; /* some placement is a partial result */
    bool boxes;   /* every rank's shard is a box: no strided shards, no segments */
    int refs;
    struct wf_layout *next; /* in the table */
};

/**
 * The layout with these properties, retained for the caller.
 *
 * mesh NULL: plain, placements ignored. strides NULL: row-major. On WEFT_CPU. Dims in placements
 * are already counted from the front and valid; the caller has checked shapes.
 */
struct wf_layout *wf_layout_new(weft_mesh *mesh, const weft_placement *placements, weft_dtype dtype,
                                const int64_t *global, const int64_t *strides, int ndim);

/** Variations of an existing layout on its device, retained for the caller; row-major. */
struct wf_layout *wf_layout_with_placements(const struct wf_layout *layout,
                                            const weft_placement *placements);
struct wf_layout *wf_layout_with_dtype(const struct wf_layout *layout, weft_dtype dtype);
/** The plain layout of this rank's box: same strides. */
struct wf_layout *wf_layout_local(const struct wf_layout *layout);
/** The plain layout with other types, NULL: without any; takes over the caller's reference. */
struct wf_layout *wf_layout_with_grad_types(struct wf_layout *layout,
                                            const struct wf_grad_types *types);
/** The layout on another device, strides kept; takes over the caller's reference. */
struct wf_layout *wf_layout_on_device(struct wf_layout *layout, weft_device device);

/** Every rank of the mesh has a shard of the same shape. The same on all ranks, outside it too. */
bool wf_layout_shards_equal(const struct wf_layout *layout);

static inline struct wf_layout *wf_layout_retain(struct wf_layout *layout)
{
    layout->refs++;
    return layout;
}

void wf_layout_free(struct wf_layout *layout);

static inline void wf_layout_release(struct wf_layout *layout)
{
    if (--layout->refs == 0) wf_layout_free(layout);
}

/** Layouts alive on this thread. */
int64_t wf_layout_live_count(void);

/**
 * Check placements for a tensor of `ndim` dims, and write them in the one way there is for each:
 * dims counted from the front, segments in lowest terms, turns only where they are not left to
 * right, unused fields 0.
 * fails: WEFT_ERR_ARG for what is no placement, WEFT_ERR_LAYOUT for what does not go together
 */
weft_status wf_placements_normalize(weft_placement *out, const weft_placement *in, int n_axes,
                                    int ndim, const char *who);

/** Normal placements fit a shape: segments divide their dim. fails: WEFT_ERR_LAYOUT */
weft_status wf_placements_check_segments(const weft_placement *placements, int n_axes,
                                         const int64_t *global, const char *who);

/**
 * Make normal a list of normal placements that was put together axis by axis: turns are counted
 * anew, and left out beside strided shards; segments that an earlier cut has broken are dropped.
 */
void wf_placements_renormalize(weft_placement *placements, int n_axes);

/** There is one placement per mesh axis. fails: WEFT_ERR_LAYOUT */
weft_status wf_placements_check_count(const weft_mesh *mesh, int n_placements, const char *who);

/** wf_placements_normalize for a shape that may be none. fails: also WEFT_ERR_SHAPE */
weft_status wf_placements_check_shape(weft_placement *out, const weft_placement *placements,
                                      int n_axes, const int64_t *shape, int ndim, const char *who);

/** Room for any one placement as text, and for a list of them. */
enum { WF_PLACEMENT_TEXT = 64, WF_PLACEMENTS_TEXT = WEFT_MAX_AXES * (WF_PLACEMENT_TEXT + 8) };

/** "f32[8,16] [S(0),R] on (dp:2, tp:4)", "f32[8,16] {I,S(0)} of (dp:2, tp:4)"; returns the length
 * as snprintf does. */
int wf_layout_print(const struct wf_layout *layout, char *text, size_t bytes);

/**
 * What one rank holds: size and first element (the global size where there is none) per dim for
 * `ndim` dims of `global`, for the rank at `coordinates` of a grid `axis_sizes`. Pure. Coordinates
 * of -1 (outside the mesh) give an empty box. Where the shard of a dim is more than one run
 * placement/shard.h tells which elements it has.
 */
void wf_local_box(int64_t *shape, int64_t *offset, const int64_t *global, int ndim,
                  const int *axis_sizes, const int *coordinates, const weft_placement *placements,
                  int n_axes);
