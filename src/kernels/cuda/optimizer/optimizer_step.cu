/*
 * optimizer_step.cu: the steps of many parameters in one launch. Parameters of one loop and one
 * pair of dtypes go together, as a table that is the launch's argument; each block takes a piece of
 * one of them.
 */
#include "kernels/cuda/optimizer/optimizer_kernels.h"

/* ---- the formulas, for f32 and f64 ---- */

#undef WF_C
#undef WF_SQRT
#undef WF_FMA
#define WF_C(number) ((WF_T)(number))
#define WF_SQRT(v) WF_NAME(root)(v)
#define WF_FMA(a, b, c) fma(a, b, c)
#define inline __host__ __device__ inline
#define WF_T float
#define WF_NAME(f) f##_f32
#include "kernels/cpu/isa/pointwise/optimizer_formulas.inc"
#undef WF_T
#undef WF_NAME
#define WF_T double
#define WF_NAME(f) f##_f64
#include "kernels/cpu/isa/pointwise/optimizer_formulas.inc"
#undef WF_T
#undef WF_NAME
#undef inline

template <class T> struct step_type;
template <> struct step_type<float> {
    typedef struct wf_step_f32 type;
    static type of(const struct wf_optimizer_step *step) { return wf_step_of_f32(step); }
};
template <> struct step_type<double> {
    typedef struct wf_step_f64 type;
    static type of(const struct wf_optimizer_step *step) { return wf_step_of_f64(step); }
};

#define LOOP(name)                                                                                 \
    struct name##_loop {                                                                           \
        static __device__ __forceinline__ void step(const struct wf_step_f32 &p, unsigned have,    \
                                                    float &w, float g, float (&s)[WF_STEP_STATES]) \
        {                                                                                          \
            name##_element_f32(&p, have, &w, g, &s[0], &s[1], &s[2]);                              \
        }                                                                                          \
        static __device__ __forceinline__ void step(const struct wf_step_f64 &p, unsigned have,    \
                                                    double &w, double g,                           \
                                                    double (&s)[WF_STEP_STATES])                   \
        {                                                                                          \
            name##_element_f64(&p, have, &w, g, &s[0], &s[1], &s[2]);                              \
        }                                                                                          \
    };
LOOP(sgd)
LOOP(adam)
LOOP(adamax)
LOOP(adagrad)
LOOP(rmsprop)
LOOP(adadelta)
LOOP(asgd)
LOOP(lion)
LOOP(muon)
#undef LOOP

/* ---- the table of a launch, up to 32764 bytes ---- */

enum {
    ENTRIES = 400,
    STEPS = 48,
    GROUP = 4,
    GROUPS = 4
}; /* a thread takes GROUPS groups of GROUP */
static const int64_t PIECE = (int64_t)WF_CUDA_BLOCK * GROUP * GROUPS; /* elements of a block */

/* bf16 or f16, as the parameter's entry says: a kernel for each pair of gradient and rounded
 * parameter would be four times as many. */
struct half {
    uint16_t bits;
};
enum { GRADIENT_IS_F16 = 1, ROUNDED_IS_F16 = 2 };

template <class T> struct entry {
    T *w;
    const void *g;
    T *state[WF_STEP_STATES];
    half *rounded;
    int64_t count;
    uint32_t first_block;
    uint8_t step;   /* its number */
    uint8_t have;   /* bits of the states that are there */
    uint8_t halves; /* which of them are f16 */
    bool whole;     /* addresses are aligned to groups */
};

template <class T> struct table {
    int n, n_steps;
    uint32_t blocks;
    typename step_type<T>::type step[STEPS];
    struct entry<T> entry[ENTRIES];
};
static_assert(sizeof(struct table<double>) <= 32764, "an argument of a launch");

/* ---- kernel ---- */

__device__ __forceinline__ float gradient_number(float g, bool) { return g; }
__device__ __forceinline__ double gradient_number(double g, bool) { return g; }
__device__ __forceinline__ float gradient_number(half g, bool is_f16)
{
    return is_f16 ? to_real(f16{g.bits}) : to_real(bf16{g.bits});
}

/* A master goes on from the parameter where somebody wrote to that. */
template <class T>
__device__ __forceinline__ void sync_group(T (&)[GROUP], const half *, bool, int, bool)
{
}
__device__ __forceinline__ void sync_group(float (&w)[GROUP], const half *rounded, bool is_f16,
                                           int n, bool whole)
{
    half written[GROUP];

    load_some(written, rounded, n, whole);
#pragma unroll
    for (int i = 0; i < GROUP; i++)
        w[i] = is_f16 ? synced_master(w[i], f16{written[i].bits})
                      : synced_master(w[i], bf16{written[i].bits});
}

template <class T>
__device__ __forceinline__ void store_rounded(const T (&w)[GROUP], half *rounded, bool is_f16,
                                              int n, bool whole)
{
    half narrow[GROUP];

#pragma unroll
    for (int i = 0; i < GROUP; i++)
        narrow[i].bits =
            is_f16 ? from_real<f16>((float)w[i]).bits : from_real<bf16>((float)w[i]).bits;
    store_some(narrow, rounded, n, whole);
}

/* Elements [at, at + n) of a parameter. */
template <class Loop, class T, class G>
__device__ __forceinline__ void
step_group(const struct entry<T> &p, const typename step_type<T>::type &step, int64_t at, int n)
{
    T w[GROUP], s[WF_STEP_STATES][GROUP];
    G g[GROUP];
    bool g_is_f16 = p.halves & GRADIENT_IS_F16, rounded_is_f16 = p.halves & ROUNDED_IS_F16;

    load_some(w, p.w + at, n, p.whole);
    load_some(g, (const G *)p.g + at, n, p.whole);
#pragma unroll
    for (int k = 0; k < WF_STEP_STATES; k++)
        if (p.have >> k & 1) load_some(s[k], p.state[k] + at, n, p.whole);
    if (p.rounded) sync_group(w, p.rounded + at, rounded_is_f16, n, p.whole);
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
        T of_element[WF_STEP_STATES] = {s[0][i], s[1][i], s[2][i]};

        Loop::step(step, p.have, w[i], (T)gradient_number(g[i], g_is_f16), of_element);
#pragma unroll
        for (int k = 0; k < WF_STEP_STATES; k++) s[k][i] = of_element[k];
    }
    store_some(w, p.w + at, n, p.whole);
#pragma unroll
    for (int k = 0; k < WF_STEP_STATES; k++)
        if (p.have >> k & 1) store_some(s[k], p.state[k] + at, n, p.whole);
    if (p.rounded) store_rounded(w, p.rounded + at, rounded_is_f16, n, p.whole);
}

/* Of f64 two blocks on a multiprocessor: left alone, ptxas takes 64 registers on sm_100 and
 * spills.
 */
template <class Loop, class T, class G>
__global__ void __launch_bounds__(WF_CUDA_BLOCK, sizeof(T) == 8 ? 2 : 0)
    step_entries(struct table<T> t)
{
    int low = 0, high = t.n;
    int64_t at;

    while (high - low > 1) {
        int middle = (low + high) / 2;

        if (t.entry[middle].first_block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    at = (blockIdx.x - t.entry[low].first_block) * PIECE + threadIdx.x * GROUP;
#pragma unroll 1
    for (int i = 0; i < GROUPS; i++, at += WF_CUDA_BLOCK * GROUP) {
        int64_t left = t.entry[low].count - at;

        if (left <= 0) return;
        step_group<Loop, T, G>(t.entry[low], t.step[t.entry[low].step], at,
                               left < GROUP ? (int)left : GROUP);
    }
}

/* ---- launching ---- */

template <class Loop, class T, class G> static void launch_table(const void *table_)
{
    const struct table<T> *t = (const struct table<T> *)table_;

    wf_cuda_check_launch(gpu_launch(step_entries<Loop, T, G>, dim3(t->blocks), dim3(WF_CUDA_BLOCK),
                                    0, wf_cuda_compute_stream(), *t),
                         "optimizer step");
}

typedef void launch_fn(const void *table);
enum dtypes { F32_F32, F32_HALF, F64_F64, DTYPES };

/* By the order of enum wf_optimizer_kind. */
#define LAUNCHES(T, G)                                                                             \
    {                                                                                              \
        launch_table<sgd_loop, T, G>, launch_table<adam_loop, T, G>,                               \
            launch_table<adamax_loop, T, G>, launch_table<adagrad_loop, T, G>,                     \
            launch_table<rmsprop_loop, T, G>, launch_table<adadelta_loop, T, G>,                   \
            launch_table<asgd_loop, T, G>, launch_table<lion_loop, T, G>,                          \
            launch_table<muon_loop, T, G>                                                          \
    }
static launch_fn *const launches[DTYPES][WF_STEP_LOOPS] = {
    LAUNCHES(float, float), LAUNCHES(float, half), LAUNCHES(double, double)};

static enum dtypes dtypes_of(const struct wf_optimizer_step_arrays *a)
{
    if (a->dtype == WEFT_F64) return F64_F64;
    return wf_dtypes[a->grad_dtype].size == sizeof(half) ? F32_HALF : F32_F32;
}

/* Number of the step in the table; STEPS: there is no room. Parameters of a group have the same. */
template <class T>
static int find_or_add_step(struct table<T> *t, const struct wf_optimizer_step *step)
{
    typename step_type<T>::type numbers = step_type<T>::of(step);

    for (int i = 0; i < t->n_steps; i++)
        if (memcmp(&t->step[i], &numbers, sizeof numbers) == 0) return i;
    if (t->n_steps == STEPS) return STEPS;
    t->step[t->n_steps] = numbers;
    return t->n_steps++;
}

/* Whether all arrays begin where a group may. */
template <class T> static bool is_whole(const struct wf_optimizer_step_arrays *a)
{
    uintptr_t wide = (uintptr_t)a->w, narrow = (uintptr_t)a->rounded;
    size_t g_bytes = GROUP * wf_dtypes[a->grad_dtype].size;

    for (int k = 0; k < WF_STEP_STATES; k++) wide |= (uintptr_t)a->state[k];
    return wide % (GROUP * sizeof(T)) == 0 && (uintptr_t)a->g % g_bytes == 0 &&
           narrow % (GROUP * sizeof(half)) == 0;
}

/* false: there is no room. */
template <class T> static bool add_entry(struct table<T> *t, const struct wf_optimizer_item *item)
{
    const struct wf_optimizer_step_arrays *a = &item->arrays;
    int64_t blocks = (a->count + PIECE - 1) / PIECE;
    struct entry<T> *to = &t->entry[t->n];
    int step;

    if (t->n == ENTRIES || t->blocks + blocks > INT32_MAX) return false;
    step = find_or_add_step(t, &item->step);
    if (step == STEPS) return false;
    *to = {};
    to->w = (T *)a->w;
    to->g = a->g;
    to->rounded = (half *)a->rounded;
    to->count = a->count;
    to->first_block = t->blocks;
    to->step = (uint8_t)step;
    if (a->grad_dtype == WEFT_F16) to->halves |= GRADIENT_IS_F16;
    if (a->rounded_dtype == WEFT_F16) to->halves |= ROUNDED_IS_F16;
    to->whole = is_whole<T>(a);
    for (int k = 0; k < WF_STEP_STATES; k++) {
        to->state[k] = (T *)a->state[k];
        if (a->state[k]) to->have |= (uint8_t)(1 << k);
    }
    t->blocks += (uint32_t)blocks;
    t->n++;
    return true;
}

/* Those of the items that have this loop and these dtypes. */
template <class T>
static void step_alike(const struct wf_optimizer_item *items, int n, enum wf_optimizer_kind loop,
                       enum dtypes dtypes)
{
    struct table<T> t;

    t.n = t.n_steps = 0;
    t.blocks = 0;
    for (int i = 0; i < n; i++) {
        if (items[i].loop != loop || dtypes_of(&items[i].arrays) != dtypes) continue;
        if (items[i].arrays.count == 0 || add_entry(&t, &items[i])) continue;
        launches[dtypes][loop](&t);
        t.n = t.n_steps = 0;
        t.blocks = 0;
        (void)add_entry(&t, &items[i]);
    }
    if (t.blocks) launches[dtypes][loop](&t);
}

void wf_cuda_optimizer_steps(const struct wf_optimizer_item *items, int n)
{
    bool present[DTYPES][WF_STEP_LOOPS] = {};

    for (int i = 0; i < n; i++) present[dtypes_of(&items[i].arrays)][items[i].loop] = true;
    for (int loop = 0; loop < WF_STEP_LOOPS; loop++) {
        enum wf_optimizer_kind kind = (enum wf_optimizer_kind)loop;

        if (present[F32_F32][loop]) step_alike<float>(items, n, kind, F32_F32);
        if (present[F32_HALF][loop]) step_alike<float>(items, n, kind, F32_HALF);
        if (present[F64_F64][loop]) step_alike<double>(items, n, kind, F64_F64);
    }
}
