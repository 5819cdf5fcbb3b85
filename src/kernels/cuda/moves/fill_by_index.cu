/*
 * fill_by_index.cu: elements that are a function of their place in the whole tensor: arange,
 * linspace, band. They are computed as f64 or i64 and cast, and have the CPU's bits: nothing here
 * may be contracted (-fmad=false).
 */
#include "kernels/cuda/global_elements.h"

/* ---- the elements from global index `first` on ---- */

struct arange_real {
    typedef double T;
    double start, step;

    __device__ __forceinline__ void operator()(int64_t first, T (&value)[WF_GROUP]) const
    {
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) value[i] = start + (double)(first + i) * step;
    }
};

struct arange_integer {
    typedef int64_t T;
    int64_t start, step;

    __device__ __forceinline__ void operator()(int64_t first, T (&value)[WF_GROUP]) const
    {
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) value[i] = start + (first + i) * step;
    }
};

/* From the nearer end, so that both ends are exact and the middle is symmetric. */
struct linspace {
    typedef double T;
    double start, end, step;
    int64_t last;

    __device__ __forceinline__ void operator()(int64_t first, T (&value)[WF_GROUP]) const
    {
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) {
            double ahead = (double)(first + i), behind = (double)(last - first - i);

            value[i] =
                2 * ahead < (double)last || last == 0 ? start + ahead * step : end - behind * step;
        }
    }
};

/* 1 where low <= column - row <= high. */
struct band {
    typedef int64_t T;
    int64_t rows, columns, low, high;

    __device__ __forceinline__ void operator()(int64_t first, T (&value)[WF_GROUP]) const
    {
        int64_t row = first / columns, column = first - row * columns;

        row %= rows;
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) {
            value[i] = low <= column - row && column - row <= high;
            if (++column < columns) continue;
            column = 0;
            row = row + 1 < rows ? row + 1 : 0;
        }
    }
};

/* ---- kernels ---- */

template <class E, class Of> struct fill_by_index {
    typedef E Y;
    typedef absent X;
    Of of;

    __device__ __forceinline__ void operator()(int64_t group, const X (&)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        typename Of::T value[WF_GROUP];

        of(WF_GROUP * group, value);
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) y[i] = cast_to<E>(value[i]);
    }
};

struct plan {
    struct wf_global_elements places;
};

static void free_fill(void *prep)
{
    struct plan *p = (struct plan *)prep;

    wf_global_elements_free(&p->places);
    wf_free(p);
}

template <class E, class Of>
static void run_fill_by_index(const struct wf_kernel_call *k, void *const *out, const Of &of)
{
    wf_global_run(k, fill_by_index<E, Of>{of}, &((const struct plan *)k->prep)->places, out[0],
                  nullptr);
}

template <class E>
static void run_arange_real(const struct wf_kernel_call *k, void *const *out, const void *const *,
                            const struct wf_scalars *scalars)
{
    run_fill_by_index<E>(k, out, arange_real{scalars->s[0], scalars->s[1]});
}

template <class E>
static void run_arange_integer(const struct wf_kernel_call *k, void *const *out,
                               const void *const *, const struct wf_scalars *scalars)
{
    run_fill_by_index<E>(k, out, arange_integer{scalars->v[0], scalars->v[1]});
}

template <class E>
static void run_linspace(const struct wf_kernel_call *k, void *const *out, const void *const *,
                         const struct wf_scalars *scalars)
{
    const struct wf_tensor_desc *y = k->out[0];
    int64_t last = y->ndim > 0 ? y->global[y->ndim - 1] - 1 : 0;
    double step = last > 0 ? (scalars->s[1] - scalars->s[0]) / (double)last : 0;

    run_fill_by_index<E>(k, out, linspace{scalars->s[0], scalars->s[1], step, last});
}

template <class E>
static void run_band(const struct wf_kernel_call *k, void *const *out, const void *const *,
                     const struct wf_scalars *scalars)
{
    const struct wf_tensor_desc *y = k->out[0];
    int64_t rows = y->ndim > 1 ? y->global[y->ndim - 2] : 1;
    int64_t columns = y->ndim > 0 ? y->global[y->ndim - 1] : 1;

    run_fill_by_index<E>(k, out, band{rows, columns, scalars->v[0], scalars->v[1]});
}

/* ---- preparing ---- */

static weft_status prepare(struct wf_kernel_call *k, wf_kernel_run *run)
{
    struct plan *p;

    if (!run) return wf_cuda_fail_no_kernel(k, k->out[0]->dtype);
    p = WF_NEW(struct plan);
    wf_global_elements_make(&p->places, k->out[0], NULL);
    k->prep = p;
    k->drop = free_fill;
    k->run = run;
    return WEFT_OK;
}

weft_status wf_cuda_arange(struct wf_kernel_call *k)
{
    static wf_kernel_run *const of_dtype[WEFT_DTYPE_COUNT] = {
        run_arange_real<float>,      run_arange_real<double>,     run_arange_real<bf16>,
        run_arange_real<f16>,        run_arange_integer<int32_t>, run_arange_integer<int64_t>,
        run_arange_integer<uint8_t>, run_arange_integer<boolean>, run_arange_integer<int16_t>,
        run_arange_integer<int8_t>};

    return prepare(k, of_dtype[k->out[0]->dtype]);
}

weft_status wf_cuda_linspace(struct wf_kernel_call *k)
{
    static wf_kernel_run *const of_dtype[] = {run_linspace<float>, run_linspace<double>,
                                              run_linspace<bf16>, run_linspace<f16>};

    if (k->out[0]->dtype >= WF_CUDA_FLOAT_DTYPES)
        return wf_cuda_fail_no_kernel(k, k->out[0]->dtype);
    return prepare(k, of_dtype[k->out[0]->dtype]);
}

weft_status wf_cuda_fill_band(struct wf_kernel_call *k)
{
    static wf_kernel_run *const of_dtype[WEFT_DTYPE_COUNT] = {
        run_band<float>,   run_band<double>,  run_band<bf16>,    run_band<f16>,
        run_band<int32_t>, run_band<int64_t>, run_band<uint8_t>, run_band<boolean>,
        run_band<int16_t>, run_band<int8_t>};

    return prepare(k, of_dtype[k->out[0]->dtype]);
}
