/*
 * buffer_sync.c: buffers, which calls write into, made equal on all replicas again: all of them in
 * one all-reduce (sum) of f64 numbers.
 *
 * A copy from the first replica is a sum of its numbers and of zeros from the others. Every dtype's
 * elements are f64 numbers exactly, but for i64, which take two: the upper half and the lower one.
 */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "data_parallel/data_parallel.h"
#include "mesh/mesh.h"
#include "tensor/host_copy.h"

static const double half_range = 4294967296.0; /* 2^32 */

static weft_dtype tensor_dtype_of(const struct wf_replica_tensor *m)
{
    return (weft_dtype)m->leaf->layout->desc.dtype;
}

static int64_t tensor_numel_of(const struct wf_replica_tensor *m)
{
    return m->leaf->layout->desc.numel;
}

static bool is_buffer_shared_along(const struct wf_replica_tensor *m, unsigned axes)
{
    return m->buffer && m->replicas == axes;
}

static int64_t count_packed_values(const struct wf_replicas *r, unsigned axes)
{
    int64_t n = 0;

    for (int i = 0; i < r->n_members; i++)
        if (is_buffer_shared_along(&r->members[i], axes))
            n += tensor_numel_of(&r->members[i]) *
                 (tensor_dtype_of(&r->members[i]) == WEFT_I64 ? 2 : 1);
    return n;
}

static bool is_buffer_averaged(const struct wf_replicas *r, const struct wf_replica_tensor *m)
{
    return r->config.buffers == WEFT_BUFFERS_AVERAGED && weft_dtype_is_float(tensor_dtype_of(m));
}

/* Replicas wait for each other: without memory for a copy on the host the job ends. */
static void open_host_elements(struct wf_host_elements *host, const struct wf_replica_tensor *m)
{
    if (wf_host_elements_open(host, m->leaf, "data_parallel buffers") != WEFT_OK)
        WF_DIE("data parallel: %s", weft_error_message());
}

static double *pack_buffer(const struct wf_replica_tensor *m, double *to, bool counts)
{
    const struct wf_dtype_info *dtype = &wf_dtypes[tensor_dtype_of(m)];
    struct wf_host_elements host;
    const char *from;

    open_host_elements(&host, m);
    from = host.data;
    for (int64_t i = 0; i < tensor_numel_of(m); i++, from += dtype->size) {
        if (tensor_dtype_of(m) == WEFT_I64) {
            int64_t value = *(const int64_t *)from;
            int64_t upper = (value - (int64_t)(uint32_t)value) / (int64_t)half_range;

            *to++ = counts ? (double)upper : 0;
            *to++ = counts ? (double)(uint32_t)value : 0;
        } else {
            *to++ = counts ? dtype->load(from) : 0;
        }
    }
    wf_host_elements_close(&host);
    return to;
}

static const double *unpack_module_buffer(const struct wf_replica_tensor *m, const double *from,
                                          double divisor)
{
    const struct wf_dtype_info *dtype = &wf_dtypes[tensor_dtype_of(m)];
    bool on_host = wf_device_of(m->leaf) == WEFT_CPU;
    char *elements =
             on_host ? m->leaf->data : wf_malloc((size_t)tensor_numel_of(m) * dtype->size + 1),
         *to = elements;

    for (int64_t i = 0; i < tensor_numel_of(m); i++, to += dtype->size) {
        if (tensor_dtype_of(m) == WEFT_I64) {
            *(int64_t *)to = (int64_t)from[0] * (int64_t)half_range + (int64_t)from[1];
            from += 2;
        } else {
            dtype->store(to, *from++ / divisor);
        }
    }
    if (!on_host) {
        wf_device_upload(wf_device_of(m->leaf), m->leaf->data, elements,
                         (size_t)tensor_numel_of(m) * dtype->size);
        wf_free(elements);
    }
    return from;
}

static void pack_sum_unpack_buffers(const struct wf_replicas *r, unsigned axes, double *numbers,
                                    int64_t count)
{
    bool first = wf_mesh_axes_rank(r->mesh, axes) == 0;
    double replicas = wf_mesh_axes_size(r->mesh, axes);
    double *to = numbers;
    const double *from = numbers;

    for (int i = 0; i < r->n_members; i++)
        if (is_buffer_shared_along(&r->members[i], axes))
            to = pack_buffer(&r->members[i], to, first || is_buffer_averaged(r, &r->members[i]));
    wf_replicas_sum_values(r, axes, numbers, (int)count);
    for (int i = 0; i < r->n_members; i++)
        if (is_buffer_shared_along(&r->members[i], axes))
            from = unpack_module_buffer(&r->members[i], from,
                                        is_buffer_averaged(r, &r->members[i]) ? replicas : 1);
}

static void sync_buffers_along_axes(const struct wf_replicas *r, unsigned axes)
{
    bool planned = r->meta || weft_mesh_is_fake(r->mesh); /* the message is only announced */
    int64_t count = count_packed_values(r, axes);
    double *numbers = wf_calloc((size_t)count + 1, sizeof *numbers);

    for (int i = 0; i < r->n_members; i++)
        if (is_buffer_shared_along(&r->members[i], axes))
            wf_tensor_before_write(r->members[i].leaf, "weft_data_parallel_share_buffers");
    if (planned)
        wf_replicas_sum_values(r, axes, numbers, (int)count);
    else if (weft_mesh_is_member(r->mesh))
        pack_sum_unpack_buffers(r, axes, numbers, count);
    wf_free(numbers);
}

void wf_replicas_sync_buffers(const struct wf_replicas *r)
{
    if (r->config.buffers == WEFT_BUFFERS_OWN) return;
    for (int i = 0; i < r->n_members; i++) {
        unsigned axes = r->members[i].replicas;
        int before = 0;

        if (!r->members[i].buffer) continue;
        while (!is_buffer_shared_along(&r->members[before], axes)) before++;
        if (before == i) sync_buffers_along_axes(r, axes);
    }
}
