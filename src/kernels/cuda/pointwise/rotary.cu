/*
 * rotary.cu: rotary positions (Su et al. 2021): pairs of a head's elements turned by position times
 * frequency. Frequencies are computed once per plan, on the host; angles by the kernel, in f64,
 * once for all heads that a thread turns, so there is no table of them in memory.
 */
#include "kernels/cuda/element.h"
#include "kernels/cuda/index_map.h"
#include "kernels/cuda/prepare.h"

extern "C" {
#define inline __host__ __device__ inline
#include "kernels/cpu/isa/philox.h" /* sine and cosine */
#undef inline
#include "kernels/operands/rotary_frequency.h"
}

/* Pairs whose frequencies a launch takes along; heads of a token that a thread turns. */
static const int64_t PAIRS = 256;
enum { HEADS = 4 };

/* Threads are numbered by token, group of HEADS heads, and in the group by pack: first packs of
 * pairs, then packs of elements behind the pairs, which are copied. */
struct rotary_arguments {
    char *y;
    const char *x, *position; /* position NULL: tokens count from `first` */
    int64_t first;
    int64_t x_step[2], position_step[2]; /* bytes to the next batch, to the next token */
    int64_t element_step, head_bytes;    /* of x, of a head in y */
    index_map<1> x_heads;
    uint32_t count; /* threads */
    uint32_t packs; /* in a group */
    uint32_t first_token, heads;
    uint32_t last, turned; /* of each `last` heads the first `turned` turn */
    uint32_t half, first_pair, pairs;
    struct divisor by_packs, by_groups, by_tokens, by_last;
    bool wide; /* positions are i64 */
    double sign;
    double frequency[PAIRS];
};

/* ---- angles ---- */

/* In quarter turns: the whole ones choose among two series and their signs. pi / 2 is taken off
 * in three parts, of which the first is so short that its products with up to 2^20 quarters are
 * exact. */
template <class T> __device__ __forceinline__ void sine_and_cosine(double angle, T *sine, T *cosine)
{
    double whole = rint_f64(angle * 0.63661977236758134308);
    double rest = ((angle - whole * 1.57079632673412561417) - whole * 6.07710050630396597660e-11) -
                  whole * 2.02226624879595063154e-21;
    double v = rest * 0.63661977236758134308, s = sin_quarter_f64(v), c = cos_quarter_f64(v);
    int64_t quarter = (int64_t)whole;
    T x = (T)(quarter & 1 ? s : c), y = (T)(quarter & 1 ? c : s);

    *cosine = (quarter + 1) & 2 ? -x : x;
    *sine = quarter & 2 ? -y : y;
}

__device__ __forceinline__ double position_of(const struct rotary_arguments &p, uint32_t batch,
                                              uint32_t token)
{
    const char *at = p.position + batch * p.position_step[0] + token * p.position_step[1];

    if (!p.position) return (double)(p.first + token);
    return (double)(p.first + (p.wide ? *(const int64_t *)at : *(const int32_t *)at));
}

/* ---- one pack of one head ---- */

template <class E, int length> struct two_packs {
    pack<E, length> a, b;
};

/* Pair i of two packs: the same place of both, or neighbours. */
template <bool interleaved, class E, int length>
__device__ __forceinline__ void turn(struct two_packs<E, length> &x,
                                     const real<E> (&cosine)[length], const real<E> (&sine)[length])
{
#pragma unroll
    for (int i = 0; i < length; i++) {
        bool second = interleaved && 2 * i >= length; /* both of the pair are in b */
        E &first_of =
            second ? x.b.at[(2 * i) % length] : x.a.at[interleaved ? (2 * i) % length : i];
        E &second_of = interleaved && length > 1
                           ? (second ? x.b.at[(2 * i + 1) % length] : x.a.at[(2 * i + 1) % length])
                           : x.b.at[i];
        const real<E> a = to_real(first_of), b = to_real(second_of);

        first_of = from_real<E>(a * cosine[i] - b * sine[i]);
        second_of = from_real<E>(b * cosine[i] + a * sine[i]);
    }
}

template <bool interleaved, class E, int length>
__global__ void __launch_bounds__(WF_CUDA_BLOCK) rotary_kernel(struct rotary_arguments p)
{
    uint32_t number = blockIdx.x * (uint32_t)WF_CUDA_BLOCK + threadIdx.x;
    uint32_t groups = divide(number, p.by_packs), index = number - groups * p.packs;
    uint32_t tokens = divide(groups, p.by_groups), group = groups - tokens * p.by_groups.value;
    uint32_t row = p.first_token + tokens, batch = divide(row, p.by_tokens);
    uint32_t token = row - batch * p.by_tokens.value;
    bool copies = index >= p.pairs / length; /* elements that no pair has */
    uint32_t pair = p.first_pair + index * length;
    uint32_t first =
        copies ? 2 * p.half + (index - p.pairs / length) * length : (interleaved ? 2 * pair : pair);
    uint32_t second = first + (interleaved ? length : p.half);
    const char *x = p.x + batch * p.x_step[0] + token * p.x_step[1];
    char *y = p.y + (int64_t)row * p.heads * p.head_bytes;
    real<E> cosine[length], sine[length];

    if (number >= p.count) return;
    if (!copies) {
        double position = position_of(p, batch, token);

#pragma unroll
        for (int i = 0; i < length; i++) {
            sine_and_cosine(position * p.frequency[index * length + i], &sine[i], &cosine[i]);
            sine[i] *= (real<E>)p.sign;
        }
    }
    for (uint32_t h = group * HEADS; h < p.heads && h < (group + 1) * HEADS; h++) {
        pack<E, length> *to = (pack<E, length> *)(y + h * p.head_bytes);
        struct two_packs<E, length> both;
        int64_t at[1] = {};

        index_map_locate(p.x_heads, h, at);
        both.a = *(const pack<E, length> *)(x + at[0] + first * p.element_step);
        if (!copies) {
            both.b = *(const pack<E, length> *)(x + at[0] + second * p.element_step);
            if (h - divide(h, p.by_last) * p.last < p.turned) turn<interleaved>(both, cosine, sine);
            to[second / length] = both.b;
        }
        to[first / length] = both.a;
    }
}

/* ---- running ---- */

struct rotary {
    struct rotary_arguments arguments; /* but what a launch sets */
    int64_t rows, offset;              /* tokens of all batches; of this shard's first token */
    int64_t behind;                    /* elements of a head behind the pairs */
    bool interleaved, packs;           /* packs: strides and sizes allow for them */
    double *frequency;
};

static void free_rotary(void *prep)
{
    struct rotary *p = (struct rotary *)prep;

    wf_free(p->frequency);
    wf_free(p);
}

/* Pairs [first, first + pairs) of all tokens, and `copied` elements behind all pairs. */
template <bool interleaved, class E, int length>
static void launch_rotary_pairs(const struct wf_kernel_call *k, struct rotary_arguments *a,
                                int64_t rows, int64_t copied)
{
    int64_t groups = (a->heads + HEADS - 1) / HEADS, per_row, chunk;

    a->packs = (uint32_t)((a->pairs + copied) / length);
    if (a->packs == 0) return;
    a->by_packs = divisor_of(a->packs);
    a->by_groups = divisor_of((uint32_t)groups);
    per_row = groups * a->packs;
    chunk = per_row < wf_cuda_index_limit ? wf_cuda_index_limit / per_row : 1;
    for (int64_t row = 0; row < rows; row += chunk) {
        if (chunk > rows - row) chunk = rows - row;
        a->first_token = (uint32_t)row;
        a->count = (uint32_t)(chunk * per_row);
        WF_CUDA_LAUNCH(k, (rotary_kernel<interleaved, E, length>),
                       dim3((a->count + WF_CUDA_BLOCK - 1) / WF_CUDA_BLOCK), dim3(WF_CUDA_BLOCK), 0,
                       *a);
    }
}

template <bool interleaved, class E, int length>
static void run_all_pairs(const struct wf_kernel_call *k, const struct rotary *p,
                          struct rotary_arguments *a)
{
    int64_t half = a->half;

    for (int64_t first = 0; first < half || first == 0; first += PAIRS) {
        int64_t pairs = half - first < PAIRS ? half - first : PAIRS;

        a->first_pair = (uint32_t)first;
        a->pairs = (uint32_t)pairs;
        memcpy(a->frequency, p->frequency + first, (size_t)pairs * sizeof *a->frequency);
        launch_rotary_pairs<interleaved, E, length>(k, a, p->rows, first ? 0 : p->behind);
    }
}

template <class E>
static void run_rotary(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    const struct rotary *p = (const struct rotary *)k->prep;
    struct rotary_arguments a = p->arguments;
    bool indexed = k->n_in > 1 && k->in[1];
    bool packs = p->packs && ((uintptr_t)out[0] | (uintptr_t)in[0]) % 16 == 0;

    a.y = (char *)out[0];
    a.x = (const char *)in[0];
    a.position = indexed ? (const char *)in[1] : nullptr;
    a.first = scalars->v[0] + (indexed ? 0 : p->offset);
    if (p->interleaved && packs)
        run_all_pairs<true, E, pack<E>::n>(k, p, &a);
    else if (p->interleaved)
        run_all_pairs<true, E, 1>(k, p, &a);
    else if (packs)
        run_all_pairs<false, E, pack<E>::n>(k, p, &a);
    else
        run_all_pairs<false, E, 1>(k, p, &a);
}

/* ---- preparing ---- */

static bool are_multiples(const int64_t *numbers, int n, int64_t of)
{
    for (int i = 0; i < n; i++)
        if (numbers[i] % of) return false;
    return true;
}

/* x [B,T,...,D]: its batches and tokens by strides, the heads between by a map. */
static void set_x_strides(struct rotary *p, const struct wf_tensor_desc *x)
{
    struct wf_operand_strides strides = wf_strides_broadcast(x, x->shape, x->ndim), heads = strides;
    struct rotary_arguments *a = &p->arguments;
    struct wf_loop_nest nest;
    int64_t bytes = strides.bytes, length = 16 / bytes, d = x->shape[x->ndim - 1];
    int64_t sizes[] = {a->half, d, strides.stride[0], strides.stride[1]};

    memmove(heads.stride, strides.stride + 2, sizeof heads.stride - 2 * sizeof *heads.stride);
    wf_loop_nest_make(&nest, x->shape + 2, x->ndim - 3, &heads, 1);
    index_map_make(&a->x_heads, &nest);
    a->heads = (uint32_t)nest.count;
    a->x_step[0] = strides.stride[0] * bytes;
    a->x_step[1] = strides.stride[1] * bytes;
    a->element_step = strides.stride[x->ndim - 1] * bytes;
    a->head_bytes = d * bytes;
    p->packs = a->element_step == bytes && are_multiples(sizes, 4, length) &&
               are_multiples(heads.stride, x->ndim - 3, length);
}

static void set_sizes(struct rotary *p, const struct wf_kernel_call *k)
{
    const struct wf_rotary_attrs *attrs = &k->attrs->rotary;
    const struct wf_tensor_desc *x = k->in[0], *index = k->n_in > 1 ? k->in[1] : NULL;
    struct rotary_arguments *a = &p->arguments;
    int64_t last = x->ndim > 3 ? x->shape[x->ndim - 2] : 1;

    p->rows = x->shape[0] * x->shape[1];
    p->offset = x->offset[1];
    p->interleaved = attrs->interleaved;
    a->half = (uint32_t)(attrs->dims / 2);
    p->behind = x->shape[x->ndim - 1] - 2 * (int64_t)a->half;
    a->by_tokens = divisor_of((uint32_t)x->shape[1]);
    a->last = (uint32_t)last;
    a->by_last = divisor_of(a->last);
    a->turned = (uint32_t)(attrs->heads < last ? attrs->heads : last);
    a->sign = attrs->backward ? -1 : 1;
    if (index) {
        struct wf_operand_strides positions =
            wf_strides_broadcast(index, index->shape, index->ndim);

        a->wide = index->dtype == WEFT_I64;
        for (int d = 0; d < 2; d++) a->position_step[d] = positions.stride[d] * positions.bytes;
    }
}

/* in: x [B,T,...,D], positions [B,T] or NULL */
weft_status wf_cuda_rotary(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct rotary *p;

    if (x->dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, x->dtype);
    k->run = wf_cuda_run_nothing;
    if (x->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(struct rotary);
    k->drop = free_rotary;
    set_sizes(p, k);
    set_x_strides(p, x);
    p->frequency = (double *)wf_calloc(p->arguments.half + 1, sizeof *p->frequency);
    wf_rotary_frequencies(p->frequency, &k->attrs->rotary);
    with_float_type(x->dtype, [&](auto e) { k->run = run_rotary<typename decltype(e)::type>; });
    return WEFT_OK;
}
