/*
 * halo.h: convolutions along a place that is sharded: a rank needs the places next to its own, and
 * no others.
 *
 * The sharded dim is seen as two, [ranks, places of a rank]; the second is made longer by what
 * windows read beyond it, and the first becomes a dim of its own for the convolution, over which a
 * kernel of size 1 moves.
 */
#pragma once

#include "kernels/op_attrs.h"
#include "ops/dispatch_op.h"

struct wf_halo {
    int axis, place;       /* of the mesh, and which of the last dims it shards */
    int64_t ranks, own;    /* of the axis; places of each */
    int64_t before, after; /* places of the neighbours that windows read */
};

/** Whether that is possible, and less than bringing the dim together: an even shard of one axis,
 * windows that reach no further than the neighbours, and one more dim than `a` has. `kernel`: sizes
 * of the last dims. */
bool wf_halo_plan(struct wf_halo *h, const struct wf_layout *x, const struct wf_conv_attrs *a,
                  const int64_t *kernel);

/** x [N,C,..] with the sharded dim as two, the second with the neighbours' places and zeros at the
 * ends. One all-gather of these places. */
weft_tensor *wf_halo_widen(const char *name, weft_tensor *x, const struct wf_halo *h);

/** The attributes for it. */
struct wf_conv_attrs wf_halo_attrs(const struct wf_conv_attrs *a, const struct wf_halo *h);
