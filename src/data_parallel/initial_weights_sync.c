/*
 * initial_weights_sync.c: makes replicas start with equal values: compares hashes of all parameters
 * in one message, or copies the first replica's.
 */
#include "base/error.h"
#include "base/mem.h"
#include "data_parallel/data_parallel.h"
#include "mesh/mesh.h"
#include "tensor/host_copy.h"

static void all_reduce_max(struct wf_comm *comm, int64_t *numbers, int count)
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

/* Ranks compare: without memory for a copy on the host the job ends. */
static int64_t hash_elements(const weft_tensor *t)
{
    int64_t hash = wf_tensor_hash_elements(t, "data_parallel");

    if (hash < 0) WF_DIE("data parallel: %s", weft_error_message());
    return hash;
}

/* Maximum over hashes and over their negatives: the hashes are equal where the two maxima add up to
 * zero. */
static int first_differing_hash(struct wf_comm *comm, weft_tensor *const *tensors, int count)
{
    int64_t *hashes = wf_calloc(2 * (size_t)count + 1, sizeof *hashes);
    int i = 0;

    for (int k = 0; k < count; k++) {
        hashes[2 * k] = hash_elements(tensors[k]);
        hashes[2 * k + 1] = -hashes[2 * k];
    }
    all_reduce_max(comm, hashes, 2 * count);
    while (i < count && hashes[2 * i] == -hashes[2 * i + 1]) i++;
    wf_free(hashes);
    return i;
}

/* The index of the first tensor that differs among those with these axes, else `count`. */
static int64_t compare_tensors_along_axes(const struct wf_replicas *r, unsigned line,
                                          weft_tensor *const *tensors, const unsigned *axes,
                                          int count)
{
    weft_tensor **those = wf_calloc((size_t)count, sizeof(weft_tensor *));
    int *numbers = wf_calloc((size_t)count + 1, sizeof *numbers), n = 0;
    int64_t first;

    for (int i = 0; i < count; i++)
        if (axes[i] == line) those[n] = tensors[i], numbers[n++] = i;
    numbers[n] = count;
    first = numbers[first_differing_hash(wf_mesh_axes_comm(r->mesh, line), those, n)];
    wf_free(those);
    wf_free(numbers);
    return first;
}

static bool is_first_with_axes(const unsigned *axes, int i)
{
    int k = 0;

    while (axes[k] != axes[i]) k++;
    return k == i;
}

/* Minimum over all ranks of the root mesh: also along axes over which no parameter is distributed,
 * and with ranks whose module has no parameters. */
static int64_t all_reduce_min_over_root(const struct wf_replicas *r, int64_t word)
{
    weft_mesh *root = weft_mesh_root(r->mesh);

    word = -word;
    all_reduce_max(wf_mesh_all_axes_comm(root), &word, 1);
    return -word;
}

/* A difference is found by the ranks along the compared axes; a minimum over the root mesh gives it
 * to all. */
static int find_first_difference(const struct wf_replicas *r, weft_tensor *const *tensors,
                                 const unsigned *axes, int count, uint32_t list)
{
    unsigned known = r->axes;                /* ranks along these have found the same */
    int64_t first = count, word = INT64_MAX; /* no difference so far */

    for (int i = 0; i < count; i++) {
        int64_t here;

        if (!is_first_with_axes(axes, i)) continue;
        known &= axes[i];
        if (wf_mesh_axes_size(r->mesh, axes[i]) == 1) continue;
        here = compare_tensors_along_axes(r, axes[i], tensors, axes, count);
        if (here < first) first = here;
    }
    if (first < count) word = first << 32 | list;
    if (weft_mesh_size(weft_mesh_root(r->mesh)) > wf_mesh_axes_size(r->mesh, known))
        word = all_reduce_min_over_root(r, word);
    if (word == INT64_MAX) return -1;
    return (uint32_t)word == list ? (int)(word >> 32) : WF_DIFFERS_ELSEWHERE;
}

static void broadcast_from_first_replica(const struct wf_replicas *r, unsigned axes, weft_tensor *t)
{
    struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                           .comm = wf_mesh_axes_comm(r->mesh, axes),
                           .device = wf_device_of(t),
                           .dtype = (weft_dtype)t->layout->desc.dtype,
                           .count = (size_t)t->layout->desc.numel,
                           .send = t->data,
                           .recv = t->data};

    if (wf_mesh_axes_size(r->mesh, axes) > 1) wf_comm_run(&coll);
}

int wf_replicas_compare_or_copy(const struct wf_replicas *r, weft_tensor *const *tensors,
                                const unsigned *axes, int count, uint32_t list)
{
    bool alone = r->count == 1 || !weft_mesh_is_member(r->mesh) || weft_mesh_is_fake(r->mesh);

    if (alone) return -1;
    if (count && wf_is_meta(tensors[0])) count = 0; /* nothing to compare or to copy */
    for (int i = 0; i < count; i++) wf_wait_ready(tensors[i]);
    if (r->config.start == WEFT_REPLICAS_COMPARED)
        return find_first_difference(r, tensors, axes, count, list);
    if (r->config.start != WEFT_REPLICAS_COPIED) return -1;
    for (int i = 0; i < count; i++) {
        wf_tensor_before_write(tensors[i], "weft_data_parallel");
        broadcast_from_first_replica(r, axes[i], tensors[i]);
    }
    return -1;
}
