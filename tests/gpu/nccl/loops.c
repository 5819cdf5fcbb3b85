/*
 * loops.c: what the driver and the optimizers need of kernels, by the CPU's, on copies in host
 * memory. Slow, and enough for whole programs of tests to run on CUDA's driver and NCCL without
 * nvcc: kernels of ops run on copies too (kernels/through_host.c).
 */
#include "loops.h"

#include "base/element_loops.h"
#include "base/elements/strided_copy.h"
#include "base/mem.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_rank.h"

/* ---- copies ---- */

/* Waits, as all copies to memory that is not pinned. */
static void *download(const void *from, size_t bytes)
{
    void *host;

    if (!from) return NULL;
    host = wf_malloc(bytes + 1);
    if (bytes)
        WF_CUDA_CHECK(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost,
                                      wf_cuda_stream(WF_STREAM_COMPUTE)));
    return host;
}

static void upload(void *to, void *host, size_t bytes)
{
    if (!host) return;
    if (bytes)
        WF_CUDA_CHECK(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice,
                                      wf_cuda_stream(WF_STREAM_COMPUTE)));
    wf_free(host);
}

/* ---- the driver's ---- */

static size_t extent(const struct wf_strided_copy *c, const int64_t *step)
{
    size_t bytes = c->run;

    for (int i = 0; i < c->loops; i++) bytes += (size_t)((c->count[i] - 1) * step[i]);
    return bytes;
}

/* What lies between the runs of the target is written back as it was. */
static void strided_copy(const struct wf_strided_copy *copy, void *to, const void *from)
{
    struct wf_strided_copy on_host = *copy;
    size_t written = extent(copy, copy->dst_step);
    void *source, *target;

    if (copy->run == 0) return;
    on_host.src_offset = on_host.dst_offset = 0;
    source = download((const char *)from + copy->src_offset, extent(copy, copy->src_step));
    target = download((char *)to + copy->dst_offset, written);
    wf_strided_copy_run(&on_host, target, source);
    upload((char *)to + copy->dst_offset, target, written);
    wf_free(source);
}

static void fill(void *to, const void *element, size_t element_bytes, size_t count)
{
    char *host = wf_malloc(element_bytes * count + 1);

    for (size_t i = 0; i < element_bytes * count; i++)
        host[i] = ((const char *)element)[i % element_bytes];
    upload(to, host, element_bytes * count);
}

static void divide(weft_dtype dtype, size_t count, void *x, int divisor)
{
    size_t bytes = count * weft_dtype_size(dtype);
    void *host = download(x, bytes);

    wf_elements_divide(dtype, count, host, divisor);
    upload(x, host, bytes);
}

static void power(weft_dtype dtype, size_t count, void *x, double p)
{
    size_t bytes = count * weft_dtype_size(dtype);
    void *host = download(x, bytes);

    wf_elements_power(dtype, count, host, p);
    upload(x, host, bytes);
}

void add_loops(struct wf_device_driver *driver)
{
    driver->strided_copy = strided_copy;
    driver->fill = fill;
    driver->divide = divide;
    driver->power = power;
}

/* ---- the optimizers' ---- */

static const struct wf_optimizer_kernels *const cpu = &wf_cpu_optimizer_kernels;

static void step_one(const struct wf_optimizer_item *item)
{
    const struct wf_optimizer_step_arrays *there = &item->arrays;
    size_t count = (size_t)there->count, bytes = count * weft_dtype_size(there->dtype);
    struct wf_optimizer_item here = *item;

    here.arrays.w = download(there->w, bytes);
    here.arrays.g = download(there->g, count * weft_dtype_size(there->grad_dtype));
    here.arrays.rounded = download(there->rounded, count * weft_dtype_size(there->rounded_dtype));
    for (int s = 0; s < WF_STEP_STATES; s++)
        here.arrays.state[s] = download(there->state[s], bytes);
    cpu->step(&here, 1);
    upload(there->w, here.arrays.w, bytes);
    upload(there->rounded, here.arrays.rounded, count * weft_dtype_size(there->rounded_dtype));
    for (int s = 0; s < WF_STEP_STATES; s++) upload(there->state[s], here.arrays.state[s], bytes);
    wf_free((void *)(uintptr_t)here.arrays.g);
}

static void step(const struct wf_optimizer_item *items, int n)
{
    for (int i = 0; i < n; i++) step_one(&items[i]);
}

static void sync_master_weights(weft_dtype dtype, int64_t count, float *master, const void *w)
{
    size_t bytes = (size_t)count * sizeof *master;
    void *here = download(master, bytes),
         *rounded = download(w, (size_t)count * weft_dtype_size(dtype));

    cpu->sync_master_weights(dtype, count, here, rounded);
    upload(master, here, bytes);
    wf_free(rounded);
}

/* The sums. */
#define SUM(name, parameters, arguments)                                                           \
    static void name parameters                                                                    \
    {                                                                                              \
        void *here = download(x, (size_t)count * weft_dtype_size(dtype));                          \
        double *sum = download(total, sizeof *total);                                              \
                                                                                                   \
        cpu->name arguments;                                                                       \
        upload(total, sum, sizeof *total);                                                         \
        wf_free(here);                                                                             \
    }
SUM(add_sum_of_squares, (weft_dtype dtype, int64_t count, const void *x, double *total),
    (dtype, count, here, sum))
SUM(add_powers, (weft_dtype dtype, int64_t count, const void *x, double p, double *total),
    (dtype, count, here, p, sum))
SUM(raise_to_max, (weft_dtype dtype, int64_t count, const void *x, double *total),
    (dtype, count, here, sum))
#undef SUM

static void scale(weft_dtype dtype, int64_t count, void *x, double s)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    void *here = download(x, bytes);

    cpu->scale(dtype, count, here, s);
    upload(x, here, bytes);
}

static void axpy(weft_dtype dtype, int64_t count, void *y, double a, const void *x)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    void *here = download(y, bytes), *other = download(x, bytes);

    cpu->axpy(dtype, count, here, a, other);
    upload(y, here, bytes);
    wf_free(other);
}

static void clamp(weft_dtype dtype, int64_t count, void *x, double limit)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    void *here = download(x, bytes);

    cpu->clamp(dtype, count, here, limit);
    upload(x, here, bytes);
}

static void make_clip_factor(double *total, double p, double max_norm)
{
    double *here = download(total, sizeof *total);

    cpu->make_clip_factor(here, p, max_norm);
    upload(total, here, sizeof *total);
}

static void scale_by(weft_dtype dtype, int64_t count, void *x, const double *s)
{
    double *factor = download(s, sizeof *s);

    scale(dtype, count, x, *factor);
    wf_free(factor);
}

const struct wf_optimizer_kernels optimizer_loops = {
    .step = step,
    .sync_master_weights = sync_master_weights,
    .add_sum_of_squares = add_sum_of_squares,
    .add_powers = add_powers,
    .raise_to_max = raise_to_max,
    .scale = scale,
    .axpy = axpy,
    .clamp = clamp,
    .make_clip_factor = make_clip_factor,
    .scale_by = scale_by,
};
