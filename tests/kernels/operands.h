/*
 * operands.h: operands for kernel tests: strided, of any dtype, with their values known as f64.
 *
 * An operand's values are row-major over its shape, whatever its strides are. Header only: each
 * test program of this folder is one source file.
 */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "kernels/kernels.h"
#include "support/mpi_check.h"

/** How an operand lies in memory. */
enum lie { PLAIN, GAPS, TURNED, SPREAD, LIES };

struct operand {
    struct wf_tensor_desc desc;
    char *memory, *data;
    double *values;
    double *want; /* zeros, for what a test expects */
};

/* Kernels for GPUs are also kept from reading around operands, by AddressSanitizer. */
#if defined(WT_CUDA_HOST) && defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define GUARD(from, bytes) ASAN_POISON_MEMORY_REGION(from, bytes)
#define UNGUARD(from, bytes) ASAN_UNPOISON_MEMORY_REGION(from, bytes)
#else
#define GUARD(from, bytes) ((void)(from), (void)(bytes))
#define UNGUARD(from, bytes) ((void)(from), (void)(bytes))
#endif
enum { GUARD_BYTES = 64 };

/** Row-major, with a gap after each row, with the last two dims turned, or with gaps everywhere. */
static inline void operand_strides(struct wf_tensor_desc *d, enum lie lie)
{
    int64_t stride = lie == SPREAD ? 2 : 1;
    int order[WEFT_MAX_DIMS];

    for (int i = 0; i < d->ndim; i++) order[i] = i;
    if (lie == TURNED && d->ndim > 1) {
        order[d->ndim - 1] = d->ndim - 2;
        order[d->ndim - 2] = d->ndim - 1;
    }
    for (int i = d->ndim - 1; i >= 0; i--) {
        d->stride[order[i]] = stride;
        stride *= d->shape[order[i]];
        if ((lie == GAPS || lie == SPREAD) && (i == d->ndim - 1 || lie == SPREAD)) stride += 3;
    }
    d->contiguous = lie == PLAIN || d->numel == 0;
}

/** Of the memory from an operand's first element to its last. */
static inline size_t operand_bytes(const struct wf_tensor_desc *d)
{
    int64_t last = 0;

    for (int i = 0; i < d->ndim && d->numel; i++) last += (d->shape[i] - 1) * d->stride[i];
    return d->numel ? (size_t)(last + 1) * wf_dtypes[d->dtype].size : 0;
}

static inline struct operand operand_new(weft_dtype dtype, enum lie lie, int ndim,
                                         const int64_t *shape)
{
    struct operand o = {.desc = {.dtype = (uint8_t)dtype, .ndim = (int8_t)ndim, .numel = 1}};
    size_t bytes;

    for (int i = 0; i < ndim; i++) {
        o.desc.shape[i] = o.desc.global[i] = shape[i];
        o.desc.numel *= shape[i];
    }
    operand_strides(&o.desc, lie);
    bytes = operand_bytes(&o.desc);
    /* Guard bytes on both sides are poison that a kernel must not write. */
    o.memory = malloc(bytes + 2 * GUARD_BYTES);
    memset(o.memory, 0x7b, bytes + 2 * GUARD_BYTES);
    o.data = o.memory + GUARD_BYTES;
    GUARD(o.memory, GUARD_BYTES);
    GUARD(o.data + bytes, GUARD_BYTES);
    o.values = calloc((size_t)o.desc.numel + 1, sizeof *o.values);
    o.want = calloc((size_t)o.desc.numel + 1, sizeof *o.want);
    return o;
}

static inline void operand_free(struct operand *o)
{
    free(o->memory);
    free(o->values);
    free(o->want);
}

static inline void operands_free(struct operand *const *o, size_t count)
{
    for (size_t i = 0; i < count; i++) operand_free(o[i]);
}

/** Of the addresses of several. */
#define OPERANDS_FREE(...)                                                                         \
    operands_free((struct operand *[]){__VA_ARGS__},                                               \
                  sizeof(struct operand *[]){__VA_ARGS__} / sizeof(struct operand *))

/** Address of the element with this row-major number. */
static inline void *operand_at(const struct operand *o, int64_t number)
{
    int64_t at = 0;

    for (int i = o->desc.ndim - 1; i >= 0; i--) {
        at += number % o->desc.shape[i] * o->desc.stride[i];
        number /= o->desc.shape[i];
    }
    return o->data + at * (int64_t)wf_dtypes[o->desc.dtype].size;
}

/** Write values into memory and take back what the dtype made of them. */
static inline void operand_write(struct operand *o)
{
    for (int64_t i = 0; i < o->desc.numel; i++) {
        wf_dtypes[o->desc.dtype].store(operand_at(o, i), o->values[i]);
        o->values[i] = wf_dtypes[o->desc.dtype].load(operand_at(o, i));
    }
}

/** Read memory into values. */
static inline void operand_read(struct operand *o)
{
    for (int64_t i = 0; i < o->desc.numel; i++)
        o->values[i] = wf_dtypes[o->desc.dtype].load(operand_at(o, i));
}

/** Numbers in [-1, 1), the same for the same seed. */
static inline double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) * 0x1p-23 - 1.0;
}

static inline struct operand operand_noise(weft_dtype dtype, enum lie lie, int ndim,
                                           const int64_t *shape, uint64_t seed)
{
    struct operand o = operand_new(dtype, lie, ndim, shape);
    uint64_t state = seed * 77 + 5;

    for (int64_t i = 0; i < o.desc.numel; i++) o.values[i] = noise(&state);
    operand_write(&o);
    return o;
}

/** Prepare, run twice (the second time as a cache hit would) and drop. */
static inline void kernel_run(wf_kernel_prepare *prepare, struct wf_kernel_call *k,
                              struct operand *const *out, struct operand *const *in,
                              const struct wf_scalars *scalars)
{
    const void *from[WF_MAX_IN] = {0};
    void *to[WF_MAX_OUT] = {0};

    for (int i = 0; i < k->n_in; i++) {
        k->in[i] = in[i] ? &in[i]->desc : NULL;
        from[i] = in[i] ? in[i]->data : NULL;
    }
    for (int i = 0; i < k->n_out; i++) {
        k->out[i] = out[i] ? &out[i]->desc : NULL;
        to[i] = out[i] ? out[i]->data : NULL;
    }
    ck_assert_int_eq(prepare(k), WEFT_OK);
    k->run(k, to, from, scalars);
    k->run(k, to, from, scalars);
    wf_kernel_call_drop(k);
    for (int i = 0; i < k->n_out; i++)
        if (out[i]) operand_read(out[i]);
}

/** kernel_run of one result. */
static inline void call_with(wf_kernel_prepare *prepare, const union wf_op_attrs *attrs,
                             struct operand *y, int n_in, struct operand *const *in,
                             const struct wf_scalars *scalars)
{
    struct wf_kernel_call k = {.op = "test", .n_in = n_in, .n_out = 1, .attrs = attrs};

    kernel_run(prepare, &k, &y, in, scalars);
}

static inline void call(wf_kernel_prepare *prepare, struct operand *y, int n_in,
                        struct operand *const *in, const struct wf_scalars *scalars)
{
    call_with(prepare, NULL, y, n_in, in, scalars);
}

/** Fails naming the worst element unless |got - want| <= bound (1 + |want|) everywhere. */
static inline void expect_near(const char *what, const struct operand *got, const double *want,
                               double bound)
{
    for (int64_t i = 0; i < got->desc.numel; i++) {
        if (fabs(got->values[i] - want[i]) <= bound * (1 + fabs(want[i]))) continue;
        ck_abort_msg("%s: isa %d %s: element %lld is %g, not %g", what, wf_kernels_isa_level(),
                     wf_dtypes[got->desc.dtype].name, (long long)i, got->values[i], want[i]);
    }
}

/** Rounding that one result of a kernel may carry beyond its sums. */
static inline double dtype_bound(weft_dtype dtype)
{
    return dtype == WEFT_F64    ? 1e-12
           : dtype == WEFT_F32  ? 2e-5
           : dtype == WEFT_BF16 ? 1.6e-2
                                : 2e-3;
}

/** Run a case under every instruction set that this machine has. */
#ifdef WT_CUDA_HOST /* kernels of src/kernels/cuda (tests/gpu/host) have none */
#define EACH_ISA
#else
#define EACH_ISA                                                                                   \
    for (long isa_ = (wf_knobs.isa = 2, wf_kernels_choose_isa(), 2);                               \
         isa_ <= 6 && wf_kernels_isa_level() == isa_;                                              \
         wf_knobs.isa = ++isa_, wf_kernels_choose_isa())
#endif

static const weft_dtype float_dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16};
enum { FLOAT_DTYPES = 4 };
