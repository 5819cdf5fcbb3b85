/* shard_copy.c: copies run by run along each dim; below the innermost cut dim rows are copied
 * whole. */
#include "dtensor/convert/shard_copy.h"

#include <string.h>

struct walk {
    const struct wf_shard *to, *from;
    char *dst;
    int last;                     /* the innermost dim that is cut */
    size_t stride[WEFT_MAX_DIMS]; /* of src, bytes */
};

/* Consecutive elements that `from` has too lie one after another there. */
static void copy_shard_dim(struct walk *walk, int dim, const char *src)
{
    const struct wf_shard *to = &walk->to[dim];
    size_t stride = walk->stride[dim];
    struct wf_index_range run;

    for (int64_t at = 0; at < to->size; at += run.size) {
        const char *first;

        run = wf_shard_range_at(to, at);
        first = src + (size_t)wf_shard_to_local(&walk->from[dim], run.offset) * stride;
        if (dim == walk->last) {
            memcpy(walk->dst, first, (size_t)run.size * stride);
            walk->dst += (size_t)run.size * stride;
            continue;
        }
        for (int64_t i = 0; i < run.size; i++)
            copy_shard_dim(walk, dim + 1, first + (size_t)i * stride);
    }
}

void wf_shard_copy(void *dst, const struct wf_shard *to, const void *src,
                   const struct wf_shard *from, int ndim, size_t element)
{
    struct walk walk = {.to = to, .from = from, .dst = dst};
    size_t stride = element;

    for (int d = ndim - 1; d >= 0; d--) {
        walk.stride[d] = stride;
        stride *= (size_t)from[d].size;
        if (to[d].size != from[d].size && walk.last < d) walk.last = d;
    }
    if (ndim == 0)
        memcpy(dst, src, element);
    else if (stride > 0)
        copy_shard_dim(&walk, 0, src);
}
