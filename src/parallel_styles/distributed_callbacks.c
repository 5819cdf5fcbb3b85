/*
 * distributed_callbacks.c: what modules written for one device ask of the style that distributed
 * them: a tensor replicated over the mesh of another, and dropout of a plain local shard, which
 * needs the global index of its elements.
 */
#include <weft/random.h>

#include "parallel_styles/style.h"

static weft_tensor *replicate_like(weft_tensor *t, const weft_tensor *like)
{
    weft_placement everywhere[WEFT_MAX_AXES] = {{0}}; /* R */
    weft_mesh *mesh = weft_tensor_mesh(like);

    return t && mesh && !weft_tensor_mesh(t) ? weft_from_local(t, mesh, everywhere, NULL) : t;
}

/* x as a shard of a distributed tensor: dim `dim` sharded as the parameter is. */
static weft_tensor *to_shard_of_whole(weft_tensor *x, const weft_tensor *parameter, int dim,
                                      int64_t size)
{
    weft_mesh *mesh = weft_tensor_mesh(parameter);
    weft_placement cut[WEFT_MAX_AXES] = {{0}};
    int64_t shape[WEFT_MAX_DIMS];

    for (int axis = 0; axis < weft_mesh_ndim(mesh); axis++) {
        weft_placement p = weft_tensor_placement(parameter, axis);

        if (!weft_is_shard(p)) continue;
        cut[axis] = p;
        cut[axis].dim = (int8_t)dim;
    }
    for (int d = 0; d < weft_ndim(x); d++) shape[d] = weft_size(x, d);
    shape[dim] = size;
    return weft_from_local(x, mesh, cut, shape);
}

static weft_tensor *dropout_on_shard(const weft_module *m, weft_tensor *x, int dim, int64_t size,
                                     double p)
{
    const weft_tensor *parameter = m->parameters[0].tensor;

    if (!x || weft_tensor_mesh(x) || !weft_tensor_mesh(parameter)) return weft_dropout(x, p, NULL);
    return weft_to_local(weft_dropout(to_shard_of_whole(x, parameter, dim, size), p, NULL), NULL);
}

const struct wf_distributed_callbacks wf_distributed_callbacks = {replicate_like, dropout_on_shard};
