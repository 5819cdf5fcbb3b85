/*
 * same_start.c: replicas that begin alike: compared by hashes, all parameters in one message, or
 * copied from the first.
 */
#include "base/dtype.h"
#include "base/hash.h"
#include "base/mem.h"
#include "data_parallel/data_parallel.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)t->layout->desc.numel * wf_dtypes[t->layout->desc.dtype].size;
}

static void largest(struct wf_comm *comm, int64_t *numbers, int count)
{
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = comm,
                           .dtype = WEFT_I64,
                           .reduce = WEFT_MAX,
                           .count = (size_t)count,
                           .send = numbers,
                           .recv = numbers};

    wf_comm_run(&coll);
}

/* Hashes and their negatives: the largest of both are of one number where all are equal. */
static int first_difference(struct wf_comm *comm, weft_tensor *const *tensors, int count)
{
    int64_t *hashes = wf_calloc(2 * (size_t)count + 1, sizeof *hashes);
    int i = 0;

    for (int k = 0; k < count; k++) {
        hashes[2 * k] = (int64_t)(wf_hash_bytes(tensors[k]->data, bytes_of(tensors[k])) >> 1);
        hashes[2 * k + 1] = -hashes[2 * k];
    }
    largest(comm, hashes, 2 * count);
    while (i < count && hashes[2 * i] == -hashes[2 * i + 1]) i++;
    wf_free(hashes);
    return i;
}

static int compare(weft_mesh *both, weft_tensor *const *tensors, int count)
{
    int64_t first = first_difference(wf_mesh_comm(both, 0), tensors, count);

    first = -first; /* the largest of them is the smallest number */
    for (int a = 1; a < weft_mesh_ndim(both); a++)
        if (weft_mesh_axis_size(both, a) > 1) largest(wf_mesh_comm(both, a), &first, 1);
    return -first == count ? -1 : (int)-first;
}

static void copy(struct wf_comm *comm, weft_tensor *const *tensors, int count)
{
    for (int i = 0; i < count; i++) {
        struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                               .comm = comm,
                               .dtype = (weft_dtype)tensors[i]->layout->desc.dtype,
                               .count = (size_t)tensors[i]->layout->desc.numel,
                               .send = tensors[i]->data,
                               .recv = tensors[i]->data};

        wf_comm_run(&coll);
    }
}

int wf_replicas_start(const struct wf_replicas *r, weft_mesh *both, weft_tensor *const *tensors,
                      int count)
{
    bool alone = weft_mesh_axis_size(r->mesh, 0) == 1 || !weft_mesh_is_member(r->mesh) ||
                 weft_mesh_is_fake(r->mesh);

    if (alone || count == 0 || wf_is_meta(tensors[0])) return -1;
    for (int i = 0; i < count; i++) wf_settled(tensors[i]);
    if (r->config.start == WEFT_REPLICAS_COMPARED) return compare(both, tensors, count);
    if (r->config.start == WEFT_REPLICAS_COPIED) copy(wf_mesh_comm(both, 0), tensors, count);
    return -1;
}
