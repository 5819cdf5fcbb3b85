/* shard_owners.c: replicas are ranks with equal coordinates on the axes that shard. */
#include "io/shard_owners.h"

#include "base/mem.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

void wf_owners_init(struct wf_owners *owners, int ranks, int me)
{
    *owners = (struct wf_owners){.ranks = ranks, .me = me};
    owners->bytes = wf_calloc((size_t)ranks, sizeof *owners->bytes);
}

void wf_owners_free(struct wf_owners *owners)
{
    wf_free(owners->bytes);
    *owners = (struct wf_owners){0};
}

bool wf_owners_assign_bytes(struct wf_owners *owners, int64_t bytes)
{
    int least = 0;

    for (int r = 1; r < owners->ranks; r++)
        if (owners->bytes[r] < owners->bytes[least]) least = r;
    owners->bytes[least] += bytes;
    return least == owners->me;
}

/* The coordinates of the rank at place `place` of the mesh, and the index of its shard: ranks with
 * equal indices hold the same elements. */
static int shard_number_of_place(const struct wf_layout *layout, int place, int *coordinates)
{
    const int *sizes = wf_mesh_sizes(layout->mesh);
    int number = 0;

    for (int a = layout->n_axes - 1; a >= 0; a--) {
        coordinates[a] = place % sizes[a];
        place /= sizes[a];
    }
    for (int a = 0; a < layout->n_axes; a++)
        if (wf_is_shard_or_strided(layout->placements[a]))
            number = number * sizes[a] + coordinates[a];
    return number;
}

static int64_t count_shard_bytes(const struct wf_layout *layout, const int *coordinates)
{
    int64_t shape[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS];
    int64_t bytes = (int64_t)weft_dtype_size((weft_dtype)layout->desc.dtype);

    wf_local_box(shape, offset, layout->desc.global, layout->desc.ndim, wf_mesh_sizes(layout->mesh),
                 coordinates, layout->placements, layout->n_axes);
    for (int d = 0; d < layout->desc.ndim; d++) bytes *= shape[d];
    return bytes;
}

bool wf_owners_assign_tensor(struct wf_owners *owners, const weft_tensor *t)
{
    const struct wf_layout *layout = t->layout;
    int size = layout->mesh ? weft_mesh_size(layout->mesh) : 0, coordinates[WEFT_MAX_AXES];
    const int *ranks;
    int *writer; /* of each shard: its rank + 1 */
    bool mine = false;

    if (!layout->mesh)
        return wf_owners_assign_bytes(
            owners, layout->desc.numel * (int64_t)weft_dtype_size((weft_dtype)layout->desc.dtype));
    ranks = wf_mesh_rank_list(layout->mesh);
    writer = wf_calloc((size_t)size, sizeof *writer);
    for (int place = 0; place < size; place++) {
        int *of = &writer[shard_number_of_place(layout, place, coordinates)], rank = ranks[place];

        if (*of == 0 || owners->bytes[rank] < owners->bytes[*of - 1] ||
            (owners->bytes[rank] == owners->bytes[*of - 1] && rank < *of - 1))
            *of = rank + 1;
    }
    for (int place = 0; place < size; place++) {
        int rank = ranks[place];

        if (writer[shard_number_of_place(layout, place, coordinates)] != rank + 1) continue;
        owners->bytes[rank] += count_shard_bytes(layout, coordinates);
        mine |= rank == owners->me;
    }
    wf_free(writer);
    return mine;
}
