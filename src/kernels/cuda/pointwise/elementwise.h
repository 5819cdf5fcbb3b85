/*
 * elementwise.h: kernels that make each element of an output from the elements at the same place of
 * up to three inputs, whatever their strides and however they are broadcast.
 *
 * What is computed is a functor F over elements, not over pointers:
 *
 *     template <class E> struct add_of : makes<E, E, E> {     output, inputs
 *         explicit add_of(const struct wf_scalars *) {}
 *         __device__ E operator()(E a, E b, absent) const { ... }
 *     };
 *     WF_TRY(wf_elementwise_prepare(k, wf_elementwise_run<add_of<float>>));
 *
 * There are two forms of every kernel. Where the innermost dim lies without gaps in the output, and
 * without gaps or as one repeated element in each input, a thread takes packs of as many elements
 * as make 16 bytes of the widest operand. Else it takes single elements. An output may be the very
 * array that an input is.
 *
 * Where one of two inputs is the same for all indices of the outermost dim (a bias, positions), a
 * thread takes a pack of several of them, and reads what they share once.
 */
#pragma once

#include "kernels/cuda/element.h"
#include "kernels/cuda/index_map.h"
#include "kernels/cuda/prepare.h"

enum { WF_ELEMENTWISE_INPUTS = 3, WF_ELEMENTWISE_OPERANDS = 1 + WF_ELEMENTWISE_INPUTS };

template <class Y_, class A_ = absent, class B_ = absent, class C_ = absent> struct makes {
    typedef Y_ Y;
    typedef A_ A;
    typedef B_ B;
    typedef C_ C;
    static const int operands = 1 + !std::is_same<A, absent>::value +
                                !std::is_same<B, absent>::value + !std::is_same<C, absent>::value;
};

/* ---- planning ---- */

/** One of the two forms of a call: which indices there are and how packs of `length` elements
 *  lie. */
struct wf_elementwise_form {
    struct wf_loop_nest nest; /* of packs; operand 0 is the output */
    index_map<WF_ELEMENTWISE_OPERANDS> map;
    bool one[WF_ELEMENTWISE_OPERANDS]; /* a pack repeats one element */
    uint32_t repeats;                  /* of the nest, along a dim that is no longer in it; or 1 */
    int64_t repeat_step[WF_ELEMENTWISE_OPERANDS]; /* bytes; 0: read once */
    int tail; /* elements behind the last whole pack; of one dim only */
    int64_t tail_at[WF_ELEMENTWISE_OPERANDS], tail_step[WF_ELEMENTWISE_OPERANDS]; /* bytes */
};

struct wf_elementwise_plan {
    struct wf_elementwise_form singles, packs; /* packs.nest.count == 0: none fit */
    int64_t align[WF_ELEMENTWISE_OPERANDS];    /* bytes that packs must be aligned to, 1: any */
};

/** Choose k->run for inputs that broadcast to a row-major output; `run`: wf_elementwise_run of
 *  the functor. */
weft_status wf_elementwise_prepare(struct wf_kernel_call *k, wf_kernel_run *run);

/** Plan for operands whose strides are known: operand 0 is the output. */
void wf_elementwise_plan_make(struct wf_elementwise_plan *plan, int ndim, const int64_t *shape,
                              int n_operands, const struct wf_operand_strides *operands);

/* ---- kernels ---- */

struct wf_elementwise_arguments {
    char *at[WF_ELEMENTWISE_OPERANDS];
    index_map<WF_ELEMENTWISE_OPERANDS> map;
    bool one[WF_ELEMENTWISE_OPERANDS];
    uint32_t repeats;
    int64_t repeat_step[WF_ELEMENTWISE_OPERANDS];
    int tail;
    int64_t tail_at[WF_ELEMENTWISE_OPERANDS], tail_step[WF_ELEMENTWISE_OPERANDS];
};

template <class F> __host__ __device__ constexpr int wf_pack_length()
{
    size_t widest = sizeof(typename F::Y);

    if (sizeof(typename F::A) > widest) widest = sizeof(typename F::A);
    if (sizeof(typename F::B) > widest) widest = sizeof(typename F::B);
    if (sizeof(typename F::C) > widest) widest = sizeof(typename F::C);
    return (int)(16 / widest);
}

template <class E, int length>
__device__ __forceinline__ void load_pack(pack<E, length> &to, const char *from, bool one)
{
    if (length > 1 && one) {
        E e = *(const E *)from;

#pragma unroll
        for (int i = 0; i < length; i++) to.at[i] = e;
    } else {
        to = *(const pack<E, length> *)from;
    }
}
template <int length>
__device__ __forceinline__ void load_pack(pack<absent, length> &, const char *, bool)
{
}

/** All inputs of a pack. */
template <class F, int length> struct wf_elementwise_inputs {
    pack<typename F::A, length> a;
    pack<typename F::B, length> b;
    pack<typename F::C, length> c;

    /* Of two inputs, again those that are not the same for all repeats. */
    __device__ __forceinline__ void load_again(const struct wf_elementwise_arguments &p,
                                               const int64_t (&at)[F::operands])
    {
        if constexpr (F::operands == 3) {
            if (p.repeat_step[1]) load_pack(a, p.at[1] + at[1], p.one[1]);
            if (p.repeat_step[2]) load_pack(b, p.at[2] + at[2], p.one[2]);
        }
    }

    __device__ __forceinline__ void load(const struct wf_elementwise_arguments &p,
                                         const int64_t (&at)[F::operands])
    {
        if (F::operands > 1) load_pack(a, p.at[1] + at[F::operands > 1 ? 1 : 0], p.one[1]);
        if (F::operands > 2) load_pack(b, p.at[2] + at[F::operands > 2 ? 2 : 0], p.one[2]);
        if (F::operands > 3) load_pack(c, p.at[3] + at[F::operands > 3 ? 3 : 0], p.one[3]);
    }

    __device__ __forceinline__ void compute_and_store(const F &f, char *y) const
    {
        pack<typename F::Y, length> made;

#pragma unroll
        for (int i = 0; i < length; i++) made.at[i] = f(a.at[i], b.at[i], c.at[i]);
        *(pack<typename F::Y, length> *)y = made;
    }
};

/** Packs that a thread has under way at once; 8 numbers and more take registers enough. */
__host__ __device__ constexpr int wf_packs_per_thread(int length)
{
    return length == 1 ? 4 : length < 8 ? 2 : 1;
}

/** Repeats that a thread takes, and whether a form of the kernel knows them. */
enum { WF_REPEATS_PER_THREAD = 4 };
template <class F> __host__ __device__ constexpr bool wf_has_repeats(int length)
{
    return F::operands == 3 && length > 1;
}

/* Behind the last repeat of this block. */
__device__ __forceinline__ uint32_t wf_end_of_repeats(const struct wf_elementwise_arguments &p)
{
    uint32_t end = (blockIdx.y + 1) * WF_REPEATS_PER_THREAD;

    return end < p.repeats ? end : p.repeats;
}

/* Two blocks on a multiprocessor, at least: left alone, or with more, ptxas gives f64 divisions,
 * and powers of bf16, too few registers on sm_100, and spills. */
template <class F, int length>
__global__ void __launch_bounds__(WF_CUDA_BLOCK, 2)
    wf_elementwise_kernel(F f, struct wf_elementwise_arguments p)
{
    const int packs = wf_packs_per_thread(length);
    const bool repeated = wf_has_repeats<F>(length);
    uint32_t first = blockIdx.x * (uint32_t)(WF_CUDA_BLOCK * packs) + threadIdx.x;
    uint32_t repeat = repeated ? blockIdx.y * WF_REPEATS_PER_THREAD : 0;
    uint32_t end = repeated ? wf_end_of_repeats(p) : 1;
    wf_elementwise_inputs<F, length> x[packs];
    int64_t at[packs][F::operands] = {};

#pragma unroll
    for (int i = 0; i < packs; i++) {
        if (first + i * WF_CUDA_BLOCK >= p.map.count) break;
        for (int j = 0; j < F::operands && repeated; j++) at[i][j] = repeat * p.repeat_step[j];
        index_map_locate(p.map, first + i * WF_CUDA_BLOCK, at[i]);
        x[i].load(p, at[i]);
    }
#pragma unroll 1
    for (bool more = true; more;) {
#pragma unroll
        for (int i = 0; i < packs; i++) {
            if (first + i * WF_CUDA_BLOCK >= p.map.count) break;
            x[i].compute_and_store(f, p.at[0] + at[i][0]);
        }
        more = repeated && ++repeat < end;
#pragma unroll
        for (int i = 0; i < packs && more; i++) {
            if (first + i * WF_CUDA_BLOCK >= p.map.count) break;
            for (int j = 0; j < F::operands; j++) at[i][j] += p.repeat_step[j];
            x[i].load_again(p, at[i]);
        }
    }
    if (length > 1 && first < (uint32_t)p.tail) {
        wf_elementwise_inputs<F, 1> last;
        int64_t tail_at[F::operands];

#pragma unroll
        for (int i = 0; i < F::operands; i++)
            tail_at[i] = p.tail_at[i] + threadIdx.x * p.tail_step[i];
        last.load(p, tail_at);
        last.compute_and_store(f, p.at[0] + tail_at[0]);
    }
}

/* ---- running ---- */

template <class F, int length>
static inline void wf_elementwise_launch(const struct wf_kernel_call *k, const F &f,
                                         struct wf_elementwise_arguments *p)
{
    const uint32_t per_block = WF_CUDA_BLOCK * wf_packs_per_thread(length);
    uint32_t blocks = (p->map.count + per_block - 1) / per_block;
    uint32_t repeats = (p->repeats + WF_REPEATS_PER_THREAD - 1) / WF_REPEATS_PER_THREAD;

    WF_CUDA_LAUNCH(k, (wf_elementwise_kernel<F, length>), dim3(blocks, repeats),
                   dim3(WF_CUDA_BLOCK), 0, f, *p);
}

/** One launch, or where there are too many indices for one, several. */
template <class F, int length>
static void wf_elementwise_run_form(const struct wf_kernel_call *k, const F &f,
                                    const struct wf_elementwise_form *form, char *const *operands)
{
    struct wf_elementwise_arguments p;

    memcpy(p.at, operands, sizeof p.at);
    memcpy(p.one, form->one, sizeof p.one);
    p.repeats = form->repeats;
    memcpy(p.repeat_step, form->repeat_step, sizeof p.repeat_step);
    memcpy(p.tail_at, form->tail_at, sizeof p.tail_at);
    memcpy(p.tail_step, form->tail_step, sizeof p.tail_step);
    p.tail = form->tail;
    if (form->nest.count <= wf_cuda_index_limit) {
        p.map = form->map;
        wf_elementwise_launch<F, length>(k, f, &p);
        return;
    }
    for_each_sub_nest(
        &form->nest, wf_cuda_index_limit, [&](const struct wf_loop_nest &part, const int64_t *at) {
            for (int i = 0; i < F::operands; i++) p.at[i] = operands[i] + at[i];
            index_map_make(&p.map, &part);
            wf_elementwise_launch<F, length>(k, f, &p);
            p.tail = 0; /* it belongs to the first part: its place is counted from there */
        });
}

/** Whether these addresses are aligned as the plan's packs need it. */
static inline bool wf_elementwise_fits_packs(const struct wf_elementwise_plan *plan,
                                             char *const *operands)
{
    for (int i = 0; i < plan->packs.nest.n_operands; i++)
        if ((uintptr_t)operands[i] & (uintptr_t)(plan->align[i] - 1)) return false;
    return plan->packs.nest.count > 0;
}

template <class F>
static inline void wf_elementwise_run_plan(const struct wf_kernel_call *k, const F &f,
                                           const struct wf_elementwise_plan *plan,
                                           char *const *operands)
{
    if (wf_elementwise_fits_packs(plan, operands))
        wf_elementwise_run_form<F, wf_pack_length<F>()>(k, f, &plan->packs, operands);
    else
        wf_elementwise_run_form<F, 1>(k, f, &plan->singles, operands);
}

/** k->run of what wf_elementwise_prepare has prepared; F is made of the call's scalars. */
template <class F>
static void wf_elementwise_run(const struct wf_kernel_call *k, void *const *out,
                               const void *const *in, const struct wf_scalars *scalars)
{
    char *operands[WF_ELEMENTWISE_OPERANDS] = {(char *)out[0]};

    for (int i = 1; i < F::operands; i++) operands[i] = (char *)in[i - 1];
    wf_elementwise_run_plan(k, F(scalars), (const struct wf_elementwise_plan *)k->prep, operands);
}
