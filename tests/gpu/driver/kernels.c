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

struct kernel_run {
    const struct wf_kernel_call *k; /* whose prep is the call that the CPU's kernel prepared */
    const void *from[WF_MAX_IN];
    void *to[WF_MAX_OUT];
    struct wf_scalars scalars;
};

static void run_kernel(const void *arguments)
{
    const struct kernel_run *r = arguments;
    const struct wf_kernel_call *k = r->k, *inner = k->prep;

    inner->run(inner, r->to, r->from, &r->scalars);
    if (wrong && k->out[0]->numel > 0 && is_named(wrong, k->op))
        ((char *)r->to[0])[weft_dtype_size(k->out[0]->dtype) - 1] ^= 0x40;
}

static void run_fenced(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    struct kernel_run r = {.k = k, .scalars = *scalars};

    for (int i = 0; i < k->n_in; i++) r.from[i] = fenced_open(in[i]);
    for (int j = 0; j < k->n_out; j++) r.to[j] = fenced_open(out[j]);
    test_driver_give(run_kernel, &r, sizeof r);
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

static void run_step(const void *arguments)
{
    const struct wf_optimizer_item *item = arguments;

    wf_cpu_optimizer_step(item->loop, &item->arrays, &item->step);
}

static void give_steps(const struct wf_optimizer_item *items, int n)
{
    for (int i = 0; i < n; i++) {
        struct wf_optimizer_item item = items[i];

        item.arrays.w = fenced_open(item.arrays.w);
        item.arrays.g = fenced_open(item.arrays.g);
        item.arrays.rounded = fenced_open(item.arrays.rounded);
        for (int s = 0; s < WF_STEP_STATES; s++)
            item.arrays.state[s] = fenced_open(item.arrays.state[s]);
        test_driver_give(run_step, &item, sizeof item);
    }
}

/* What the other functions are given; x is read, y written. */
struct array_run {
    weft_dtype dtype;
    int64_t count;
    const void *x;
    void *y;
    double number, most;
};

static void give_array_run(test_work *run, struct array_run r)
{
    r.x = fenced_open(r.x);
    r.y = fenced_open(r.y);
    test_driver_give(run, &r, sizeof r);
}

/* NAME(PARAMETERS) as run_NAME, which calls CALL with `r`. */
#define ARRAY_FUNCTION(NAME, PARAMETERS, ARGUMENTS, CALL)                                          \
    static void run_##NAME(const void *arguments)                                                  \
    {                                                                                              \
        const struct array_run *r = arguments;                                                     \
                                                                                                   \
        CALL;                                                                                      \
    }                                                                                              \
    static void NAME PARAMETERS { give_array_run(run_##NAME, (struct array_run)ARGUMENTS); }
#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

ARRAY_FUNCTION(sync_master_weights, (weft_dtype dtype, int64_t count, float *master, const void *w),
               LIST(dtype, count, w, master, 0, 0),
               wf_cpu_sync_master_weights(r->dtype, r->count, r->y, r->x))
ARRAY_FUNCTION(add_sum_of_squares, (weft_dtype dtype, int64_t count, const void *x, double *total),
               LIST(dtype, count, x, total, 0, 0),
               wf_cpu_optimizer_kernels.add_sum_of_squares(r->dtype, r->count, r->x, r->y))
ARRAY_FUNCTION(add_powers,
               (weft_dtype dtype, int64_t count, const void *x, double p, double *total),
               LIST(dtype, count, x, total, p, 0),
               wf_cpu_optimizer_kernels.add_powers(r->dtype, r->count, r->x, r->number, r->y))
ARRAY_FUNCTION(raise_to_max, (weft_dtype dtype, int64_t count, const void *x, double *total),
               LIST(dtype, count, x, total, 0, 0),
               wf_cpu_optimizer_kernels.raise_to_max(r->dtype, r->count, r->x, r->y))
ARRAY_FUNCTION(scale, (weft_dtype dtype, int64_t count, void *x, double s),
               LIST(dtype, count, NULL, x, s, 0), wf_cpu_scale(r->dtype, r->count, r->y, r->number))
ARRAY_FUNCTION(axpy, (weft_dtype dtype, int64_t count, void *y, double a, const void *x),
               LIST(dtype, count, x, y, a, 0),
               wf_cpu_axpy(r->dtype, r->count, r->y, r->number, r->x))
ARRAY_FUNCTION(clamp, (weft_dtype dtype, int64_t count, void *x, double limit),
               LIST(dtype, count, NULL, x, limit, 0),
               wf_cpu_clamp_size(r->dtype, r->count, r->y, r->number))

ARRAY_FUNCTION(make_clip_factor, (double *total, double p, double max_norm),
               LIST(WEFT_F64, 1, NULL, total, p, max_norm),
               wf_cpu_make_clip_factor(r->y, r->number, r->most))
ARRAY_FUNCTION(scale_by, (weft_dtype dtype, int64_t count, void *x, const double *s),
               LIST(dtype, count, s, x, 0, 0),
               wf_cpu_optimizer_kernels.scale_by(r->dtype, r->count, r->y, r->x))

static const struct wf_optimizer_kernels optimizer = {
    .step = give_steps,
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

const struct wf_device_kernels test_kernels = {
    .count = WF_KERNEL_COUNT, .prepare = prepare, .optimizer = &optimizer};
