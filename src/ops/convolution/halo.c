/* halo.c: see the header. */
#include "ops/convolution/halo.h"

#include <weft/factory.h>
#include <weft/ops.h>

#include <string.h>

enum { LEADING = 2, PLACES = 3 }; /* batch and channels; last dims of a convolution */

/* The axis that alone cuts a dim, in plain chunks; -1: there is none. */
static int axis_of_dim(const struct wf_layout *x, int dim)
{
    int axis = -1;

    for (int a = 0; a < x->n_axes; a++) {
        if (!weft_shards(x->placements[a], dim)) continue;
        if (axis >= 0 || !weft_placement_equal(x->placements[a], weft_shard(dim))) return -1;
        axis = a;
    }
    return axis;
}

static bool fits(struct wf_halo *h, const struct wf_layout *x, const struct wf_conv_attrs *a,
                 int64_t kernel)
{
    int d = h->place;
    int64_t size = x->desc.global[LEADING + d], stride = a->stride[d];
    int64_t reach = (kernel - 1) * a->dilation[d];

    h->axis = axis_of_dim(x, LEADING + d);
    if (h->axis < 0 || kernel < 1) return false;
    h->ranks = weft_mesh_axis_size(x->mesh, h->axis);
    if (h->ranks < 2 || size % h->ranks != 0) return false;
    h->own = size / h->ranks;
    h->before = a->before[d];
    h->after = reach - a->before[d] - (stride - 1);
    if (h->after < 0) h->after = 0;
    /* each rank has as many results as windows begin within its places */
    if (h->own % stride != 0 || reach < a->before[d]) return false;
    if ((size + a->before[d] + a->after[d] - reach - 1) / stride + 1 != size / stride) return false;
    return h->before + h->after > 0 && h->before + h->after < h->own;
}

bool wf_halo_plan(struct wf_halo *h, const struct wf_layout *x, const struct wf_conv_attrs *a,
                  const int64_t *kernel)
{
    if (!x->mesh || a->dims == PLACES || x->numel == 0) return false;
    for (h->place = 0; h->place < a->dims; h->place++)
        if (fits(h, x, a, kernel[h->place])) return true;
    return false;
}

struct wf_conv_attrs wf_halo_attrs(const struct wf_conv_attrs *a, const struct wf_halo *h)
{
    struct wf_conv_attrs wide = *a;
    int at = h->place, behind = a->dims - at;
    size_t bytes = (size_t)behind * sizeof a->stride[0];

    memcpy(wide.stride + at + 1, a->stride + at, bytes);
    memcpy(wide.before + at + 1, a->before + at, bytes);
    memcpy(wide.after + at + 1, a->after + at, bytes);
    memcpy(wide.dilation + at + 1, a->dilation + at, bytes);
    wide.dims++;
    wide.stride[at] = wide.dilation[at] = 1;
    wide.before[at] = wide.after[at] = 0;
    wide.before[at + 1] = wide.after[at + 1] = 0;
    return wide;
}

/* The places at both ends of each rank's, on all ranks: first those that rank before needs. */
static weft_tensor *gather_borders(const char *name, weft_tensor *x, const struct wf_halo *h)
{
    int dim = LEADING + h->place + 1, n = 0;
    weft_placement to[WEFT_MAX_AXES];
    weft_tensor *ends[2], *borders;

    if (h->after > 0) ends[n++] = weft_slice(x, dim, 0, h->after);
    if (h->before > 0) ends[n++] = weft_slice(x, dim, h->own - h->before, h->own);
    borders = n > 1 ? weft_cat(ends, 2, dim) : ends[0];
    if (!borders) return NULL;
    memcpy(to, borders->layout->placements, sizeof to);
    to[h->axis] = weft_replicate();
    return wf_redistribute_implicitly(name, borders, to);
}

/* Nothing beyond the first and the last rank's places. */
static weft_tensor *zeros_like_border(const weft_tensor *t, const struct wf_halo *h)
{
    weft_spec spec = {.dtype = weft_tensor_dtype(t), .ndim = weft_ndim(t), .mesh = t->layout->mesh};

    memcpy(spec.shape, t->layout->desc.global, sizeof spec.shape);
    spec.shape[LEADING + h->place] = 1;
    return weft_make_zeros(spec);
}

/* What stands at the ends of its neighbours, for each rank: `from` is the first place of those that
 * are meant among the borders, `shift` how many ranks later they are needed. */
static weft_tensor *border_of_neighbour(weft_tensor *borders, const struct wf_halo *h, int64_t from,
                                        int64_t length, int shift)
{
    int ranks = LEADING + h->place;
    weft_tensor *all = weft_slice(borders, ranks + 1, from, from + length), *parts[2];

    if (!all) return NULL;
    parts[shift > 0 ? 1 : 0] =
        shift > 0 ? weft_slice(all, ranks, 0, h->ranks - 1) : weft_slice(all, ranks, 1, h->ranks);
    parts[shift > 0 ? 0 : 1] = zeros_like_border(all, h);
    return weft_cat(parts, 2, ranks);
}

weft_tensor *wf_halo_widen(const char *name, weft_tensor *x, const struct wf_halo *h)
{
    int dim = LEADING + h->place, ndim = weft_ndim(x), n = 0;
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *parts[3], *borders;

    memcpy(shape, x->layout->desc.global, (size_t)(dim + 1) * sizeof *shape);
    memcpy(shape + dim + 1, x->layout->desc.global + dim, (size_t)(ndim - dim) * sizeof *shape);
    shape[dim] = h->ranks;
    shape[dim + 1] = h->own;
    x = weft_reshape(x, shape, ndim + 1);
    borders = x ? gather_borders(name, x, h) : NULL;
    if (!borders) return NULL;
    if (h->before > 0) parts[n++] = border_of_neighbour(borders, h, h->after, h->before, 1);
    parts[n++] = x;
    if (h->after > 0) parts[n++] = border_of_neighbour(borders, h, 0, h->after, -1);
    return weft_cat(parts, n, dim + 1);
}
