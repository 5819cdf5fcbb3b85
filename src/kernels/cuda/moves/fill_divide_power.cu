/*
 * fill_divide_power.cu: filling, dividing and raising arrays without gaps, for layers below the
 * kernels (driver_kernels.h). Results have the CPU's bits: divisions and square roots are rounded
 * once.
 */
extern "C" {
#include "kernels/cuda/driver_kernels.h"
}
#include "kernels/cuda/pointwise/arrays.h"

/* ---- fill ---- */

template <class E> struct constant : makes<E> {
    E value;

    explicit constant(const void *element) { memcpy(&value, element, sizeof value); }
    __device__ __forceinline__ E operator()(absent, absent, absent) const { return value; }
};

void wf_cuda_fill_elements(void *to, const void *element, size_t element_bytes, size_t count)
{
    switch (element_bytes) {
    case 1:
        wf_arrays_run_in_place("fill", constant<uint8_t>(element), (int64_t)count, to);
        break;
    case 2:
        wf_arrays_run_in_place("fill", constant<uint16_t>(element), (int64_t)count, to);
        break;
    case 4:
        wf_arrays_run_in_place("fill", constant<uint32_t>(element), (int64_t)count, to);
        break;
    default:
        wf_arrays_run_in_place("fill", constant<uint64_t>(element), (int64_t)count, to);
    }
}

/* ---- divide ---- */

template <class E> struct quotient : makes<E, E> {
    int divisor;

    explicit quotient(int d) : divisor(d) {}
    __device__ __forceinline__ E operator()(E x, absent, absent) const
    {
        return cast_to<E>((double)to_real(x) / divisor);
    }
};
template <> struct quotient<float> : makes<float, float> {
    float divisor;

    explicit quotient(int d) : divisor((float)d) {}
    __device__ __forceinline__ float operator()(float x, absent, absent) const
    {
        return x / divisor;
    }
};

template <class E> static void divide_all(size_t count, void *x, int divisor)
{
    wf_arrays_run_in_place("divide", quotient<E>(divisor), (int64_t)count, x);
}

void wf_cuda_divide_elements(weft_dtype dtype, size_t count, void *x, int divisor)
{
    static void (*const of_dtype[WEFT_DTYPE_COUNT])(size_t, void *, int) = {
        divide_all<float>,   divide_all<double>,  divide_all<bf16>,    divide_all<f16>,
        divide_all<int32_t>, divide_all<int64_t>, divide_all<uint8_t>, divide_all<boolean>,
        divide_all<int16_t>, divide_all<int8_t>};

    of_dtype[dtype](count, x, divisor);
}

/* ---- power ---- */

template <class E> struct square_root : makes<E, E> {
    __device__ __forceinline__ E operator()(E x, absent, absent) const
    {
        return from_real<E>(real_sqrt(fabs(to_real(x))));
    }
};
template <class E> struct square : makes<E, E> {
    __device__ __forceinline__ E operator()(E x, absent, absent) const
    {
        return from_real<E>(to_real(x) * to_real(x));
    }
};
template <class E> struct power_of_size : makes<E, E> {
    double p;

    explicit power_of_size(double exponent) : p(exponent) {}
    __device__ __forceinline__ E operator()(E x, absent, absent) const
    {
        return cast_to<E>(pow(fabs((double)to_real(x)), p));
    }
};

template <class E> static void raise_all(size_t count, void *x, double p)
{
    if (p == 0.5)
        wf_arrays_run_in_place("power", square_root<E>(), (int64_t)count, x);
    else if (p == 2)
        wf_arrays_run_in_place("power", square<E>(), (int64_t)count, x);
    else
        wf_arrays_run_in_place("power", power_of_size<E>(p), (int64_t)count, x);
}

void wf_cuda_power_elements(weft_dtype dtype, size_t count, void *x, double p)
{
    with_float_type(dtype, [&](auto e) { raise_all<typename decltype(e)::type>(count, x, p); });
}
