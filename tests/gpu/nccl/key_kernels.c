/*
 * key_kernels.c: keys of floats and back (comm/float_keys.h) as kernels of the stand-in for CUDA's
 * runtime, by the CPU's code: unlike loops.c's copies they do not wait, and can be captured.
 */
#include <stdint.h>

#include "base/elements/dtype.h"
#include "base/elements/float_key.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_graph.h"
#include "device/cuda/cuda_rank.h"
#include "loops.h"
#include "ptx.h"

struct job {
    weft_dtype dtype;
    bool nan_is_largest;
    size_t count;
    void *to;
    const void *from;
};

static size_t key_bytes(weft_dtype dtype) { return dtype == WEFT_F64 ? 8 : 4; }

static char *on_host(const void *p, size_t bytes)
{
    return ptx_find_global((uintptr_t)p, bytes, 0);
}

/* ---- the kernels, of one thread ---- */

static void run_keys_of_floats(void *const *arguments)
{
    const struct job *job = arguments[0];
    size_t element = weft_dtype_size(job->dtype);
    const char *from = on_host(job->from, job->count * element);
    void *to = on_host(job->to, job->count * key_bytes(job->dtype));

    for (size_t i = 0; i < job->count; i++) {
        double value = wf_dtypes[job->dtype].load(from + i * element);

        if (job->dtype == WEFT_F64)
            ((int64_t *)to)[i] = wf_key_of_f64(value, job->nan_is_largest);
        else
            ((int32_t *)to)[i] = wf_key_of_f32((float)value, job->nan_is_largest);
    }
}

static void run_floats_of_keys(void *const *arguments)
{
    const struct job *job = arguments[0];
    size_t element = weft_dtype_size(job->dtype);
    const void *from = on_host(job->from, job->count * key_bytes(job->dtype));
    char *to = on_host(job->to, job->count * element);

    for (size_t i = 0; i < job->count; i++)
        wf_dtypes[job->dtype].store(to + i * element,
                                    job->dtype == WEFT_F64
                                        ? wf_f64_of_key(((const int64_t *)from)[i])
                                        : (double)wf_f32_of_key(((const int32_t *)from)[i]));
}

static const uint16_t job_bytes[] = {sizeof(struct job)};
static const char *const accesses[] = {"an element"};
static struct ptx_kernel keys_kernel = {"keys_of_floats", 1,   job_bytes, run_keys_of_floats, 1,
                                        accesses,         NULL},
                         floats_kernel = {"floats_of_keys", 1,   job_bytes, run_floats_of_keys, 1,
                                          accesses,         NULL};

/* ---- the driver's ---- */

static void launch(const struct ptx_kernel *kernel, struct job job)
{
    void *arguments[] = {&job};
    const dim3 one = {1, 1, 1};

    WF_CUDA_CHECK(
        wf_cuda_launch(kernel, one, one, arguments, 0, wf_cuda_stream(WF_STREAM_COMPUTE)));
}

static void keys_of_floats(weft_dtype dtype, bool nan_is_largest, size_t count, void *keys,
                           const void *x)
{
    launch(&keys_kernel, (struct job){dtype, nan_is_largest, count, keys, x});
}

static void floats_of_keys(weft_dtype dtype, size_t count, void *x, const void *keys)
{
    launch(&floats_kernel, (struct job){dtype, false, count, x, keys});
}

/* What nvcc's host code calls for each kernel; a kernel is known by this address. */
void __cudaRegisterFunction(void **handle, const char *function, char *device_function,
                            const char *name, int thread_limit, void *thread, void *block,
                            void *block_dim, void *grid_dim, int *warp_size);

static void add_kernel(struct ptx_kernel *kernel)
{
    ptx_add_kernel(kernel);
    __cudaRegisterFunction(NULL, (const char *)kernel, NULL, kernel->name, -1, NULL, NULL, NULL,
                           NULL, NULL);
}

void add_key_kernels(struct wf_device_driver *driver)
{
    add_kernel(&keys_kernel);
    add_kernel(&floats_kernel);
    driver->keys_of_floats = keys_of_floats;
    driver->floats_of_keys = floats_of_keys;
}
