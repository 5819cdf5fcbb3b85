/* kernels.c: the CPU's kernels, run on the addresses at which the driver may read and write device
 * memory. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "driver.h"
#include "fenced.h"

/* ---- kernels of ops ---- */

/* Ops whose first element comes out wrong, for programs that must notice; NULL: none. */
static const char *wrong;
/* A dtype of results that no kernel has; NULL: none. */
static const char *lacks_dtype;

/* "gelu,topk", or "all" */
static bool is_named(const char *list, const char *name)
{
    size_t length = strlen(name);

    if (strcmp(list, "all") == 0) return true;
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length])) return true;
    return false;
}

/* The call that the CPU's kernel prepared. */
static void run_fenced(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    const struct wf_kernel_call *inner = k->prep;
    const void *from[WF_MAX_IN] = {0};
    void *to[WF_MAX_OUT] = {0};

    test_driver_begin_compute();
    for (int i = 0; i < k->n_in; i++) from[i] = fenced_open(in[i]);
    for (int j = 0; j < k->n_out; j++) to[j] = fenced_open(out[j]);
    inner->run(inner, to, from, scalars);
    if (wrong && k->out[0]->numel > 0 && is_named(wrong, k->op))
        ((char *)to[0])[weft_dtype_size(k->out[0]->dtype) - 1] ^= 0x40;
}

static void drop_fenced(void *prep)
{
    struct wf_kernel_call *inner = prep;

    wf_kernel_call_drop(inner);
    wf_free(inner);
}

static weft_status prepare_fenced(wf_kernel_prepare *prepare, struct wf_kernel_call *k)
{
    struct wf_kernel_call *inner = WF_NEW(struct wf_kernel_call);
    weft_status status;

    *inner = *k;
    status = prepare(inner);
    if (status == WEFT_OK && lacks_dtype &&
        strcmp(lacks_dtype, weft_dtype_name(k->out[0]->dtype)) == 0)
        status = WF_FAIL(WEFT_ERR_DTYPE, "%s: no kernel for %s", k->op, lacks_dtype);
    if (status != WEFT_OK) {
        drop_fenced(inner);
        return status;
    }
    k->prep = inner;
    k->drop = drop_fenced;
    k->run = run_fenced;
    return WEFT_OK;
}

#define WF_KERNEL(name, devices)                                                                   \
    static weft_status fenced_##name(struct wf_kernel_call *k)                                     \
    {                                                                                              \
        return prepare_fenced(wf_cpu_##name, k);                                                   \
    }
#include "kernels/kernels.def"
#undef WF_KERNEL

static wf_kernel_prepare *prepare[WF_KERNEL_COUNT] = {
#define WF_KERNEL(name, devices) [WF_KERNEL_##name] = fenced_##name,
#include "kernels/kernels.def"
#undef WF_KERNEL
};

static const char *const names[WF_KERNEL_COUNT] = {
#define WF_KERNEL(name, devices) [WF_KERNEL_##name] = #name,
#include "kernels/kernels.def"
#undef WF_KERNEL
};

void test_kernels_init(void)
{
    const char *lacks = getenv("WEFT_TEST_DEVICE_LACKS");

    wrong = getenv("WEFT_TEST_DEVICE_WRONG");
    lacks_dtype = getenv("WEFT_TEST_DEVICE_LACKS_DTYPE");
    wf_kernels_choose_isa();
    for (int i = 0; lacks && i < WF_KERNEL_COUNT; i++)
        if (is_named(lacks, names[i])) prepare[i] = NULL;
}

/* ---- optimizers ---- */

static void run_steps(const struct wf_optimizer_item *items, int n)
{
    test_driver_begin_compute();
    for (int i = 0; i < n; i++) {
        struct wf_optimizer_step_arrays a = items[i].arrays;

        a.w = fenced_open(a.w);
        a.g = fenced_open(a.g);
        a.rounded = fenced_open(a.rounded);
        for (int s = 0; s < WF_STEP_STATES; s++) a.state[s] = fenced_open(a.state[s]);
        wf_cpu_optimizer_step(items[i].loop, &a, &items[i].step);
    }
}

static void sync_master_weights(weft_dtype dtype, int64_t count, float *master, const void *w)
{
    test_driver_begin_compute();
    wf_cpu_sync_master_weights(dtype, count, fenced_open(master), fenced_open(w));
}

static void add_sum_of_squares(weft_dtype dtype, int64_t count, const void *x, double *total)
{
    test_driver_begin_compute();
    wf_cpu_optimizer_kernels.add_sum_of_squares(dtype, count, fenced_open(x), fenced_open(total));
}

static void add_powers(weft_dtype dtype, int64_t count, const void *x, double p, double *total)
{
    test_driver_begin_compute();
    wf_cpu_optimizer_kernels.add_powers(dtype, count, fenced_open(x), p, fenced_open(total));
}

static void raise_to_max(weft_dtype dtype, int64_t count, const void *x, double *total)
{
    test_driver_begin_compute();
    wf_cpu_optimizer_kernels.raise_to_max(dtype, count, fenced_open(x), fenced_open(total));
}

static void scale(weft_dtype dtype, int64_t count, void *x, double s)
{
    test_driver_begin_compute();
    wf_cpu_scale(dtype, count, fenced_open(x), s);
}

static void axpy(weft_dtype dtype, int64_t count, void *y, double a, const void *x)
{
    test_driver_begin_compute();
    wf_cpu_axpy(dtype, count, fenced_open(y), a, fenced_open(x));
}

static void clamp(weft_dtype dtype, int64_t count, void *x, double limit)
{
    test_driver_begin_compute();
    wf_cpu_clamp_size(dtype, count, fenced_open(x), limit);
}

static const struct wf_optimizer_kernels optimizer = {
    .step = run_steps,
    .sync_master_weights = sync_master_weights,
    .add_sum_of_squares = add_sum_of_squares,
    .add_powers = add_powers,
    .raise_to_max = raise_to_max,
    .scale = scale,
    .axpy = axpy,
    .clamp = clamp,
};

const struct wf_device_kernels test_kernels = {
    .count = WF_KERNEL_COUNT, .prepare = prepare, .optimizer = &optimizer};
