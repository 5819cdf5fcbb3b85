/* test_optimizer_step.c: the optimizers' passes over parameters and gradients against their
 * formulas in f64.
 */
#include "cases.h"

#include "base/int_math.h"
#include "kernels/optimizer_kernels.h"

static const struct wf_optimizer_kernels *const kernels = &wf_cpu_optimizer_kernels;

static const int64_t lengths[] = {0, 1, 7, 64, 2001, 9001};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static double bound(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 1e-14 : dtype == WEFT_F32 ? 1e-6 : 1e-2;
}

/* Element by element what a loop does to w and its states, in f64. */
static void formula(enum wf_optimizer_kind loop, const struct wf_optimizer_step *p, double *w,
                    double g, double **s)
{
    double d = p->sign * g + p->decay * *w, size;

    switch (loop) {
    case WF_STEP_SGD:
        if (s[0]) *s[0] = p->beta1 * *s[0] + p->take1 * d;
        *w = p->keep * *w - (s[0] ? p->rate * *s[0] + p->rate_d * d : p->rate * d);
        break;
    case WF_STEP_ADAM:
        *s[0] = p->beta1 * *s[0] + p->take1 * d;
        *s[1] = p->beta2 * *s[1] + p->take2 * d * d;
        if (s[2]) *s[2] = fmax(*s[2], *s[1]);
        size = p->root * sqrt(s[2] ? *s[2] : *s[1]) + p->eps;
        *w = p->keep * *w - (p->rate * *s[0] + p->rate_d * d) / size;
        break;
    case WF_STEP_ADAMAX:
        *s[0] = p->beta1 * *s[0] + p->take1 * d;
        *s[1] = fmax(p->beta2 * *s[1], fabs(d) + p->eps);
        *w -= p->rate * *s[0] / *s[1];
        break;
    case WF_STEP_ADAGRAD:
        *s[0] += d * d;
        *w -= p->rate * d / (sqrt(*s[0]) + p->eps);
        break;
    case WF_STEP_RMSPROP:
        size = *s[0] = p->beta2 * *s[0] + p->take2 * d * d;
        if (s[1]) *s[1] = p->beta2 * *s[1] + p->take2 * d;
        if (s[1]) size = fmax(0, size - *s[1] * *s[1]);
        d /= sqrt(size) + p->eps;
        if (s[2]) d = *s[2] = p->beta1 * *s[2] + d;
        *w -= p->rate * d;
        break;
    case WF_STEP_ADADELTA:
        *s[0] = p->beta2 * *s[0] + p->take2 * d * d;
        d *= sqrt(*s[1] + p->eps) / sqrt(*s[0] + p->eps);
        *s[1] = p->beta2 * *s[1] + p->take2 * d * d;
        *w -= p->rate * d;
        break;
    case WF_STEP_ASGD:
        *w = p->keep * *w - p->rate * d;
        *s[0] += p->take1 * (*w - *s[0]);
        break;
    case WF_STEP_LION:
        size = p->beta1 * *s[0] + p->take1 * d;
        *w = p->keep * *w - p->rate * (size > 0 ? 1 : size < 0 ? -1 : 0);
        *s[0] = p->beta2 * *s[0] + p->take2 * d;
        break;
    default:
        *s[0] = p->beta1 * *s[0] + p->take1 * d;
        *s[1] = p->rate * *s[0] + p->rate_d * d;
    }
}

/* States that every loop needs, and those that it takes as well. */
static const unsigned needs[WF_STEP_LOOPS] = {0, 3, 3, 1, 1, 3, 1, 1, 3},
                      takes[WF_STEP_LOOPS] = {1, 7, 3, 1, 7, 3, 1, 1, 3};

enum { W, G, S0, OPERANDS = S0 + WF_STEP_STATES };

static struct operand *make_operands(weft_dtype dtype, weft_dtype grad_dtype, int64_t n)
{
    struct operand *o = calloc(OPERANDS, sizeof *o);

    for (int i = 0; i < OPERANDS; i++) {
        o[i] = operand_noise(i == G ? grad_dtype : dtype, PLAIN, 1, &n, (uint64_t)i);
        /* Second moments are not negative, and larger than the first one's square. */
        for (int64_t k = 0; i >= S0 && k < n; k++)
            o[i].values[k] = i == S0 ? fabs(o[i].values[k]) + 1.5 : fabs(o[i].values[k]);
        operand_write(&o[i]);
        operand_read(&o[i]); /* as rounded */
    }
    return o;
}

static const struct wf_optimizer_step step = {-1,  0.2, 0.97, 0.05, 0.02, 0.8,
                                              0.3, 0.9, 0.1,  1.5,  1e-3};

/* A parameter, and what the step is to make of it and its states. */
struct parameter {
    struct operand *o;
    struct wf_optimizer_item item;
    double *want[OPERANDS];
};

static struct parameter make_parameter(enum wf_optimizer_kind loop, unsigned states,
                                       weft_dtype dtype, weft_dtype grad_dtype, int64_t n)
{
    struct parameter p = {.o = make_operands(dtype, grad_dtype, n)};
    struct operand *o = p.o;
    struct wf_optimizer_step_arrays a = {.dtype = dtype, .grad_dtype = grad_dtype, .count = n};

    for (int i = 0; i < OPERANDS; i++)
        p.want[i] =
            memcpy(calloc((size_t)n + 1, sizeof(double)), o[i].values, (size_t)n * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
        double *s[WF_STEP_STATES];

        for (int i = 0; i < WF_STEP_STATES; i++) s[i] = states >> i & 1 ? &p.want[S0 + i][k] : NULL;
        formula(loop, &step, &p.want[W][k], p.want[G][k], s);
    }
    a.w = o[W].data;
    a.g = o[G].data;
    for (int i = 0; i < WF_STEP_STATES; i++) a.state[i] = states >> i & 1 ? o[S0 + i].data : NULL;
    p.item = (struct wf_optimizer_item){.loop = loop, .arrays = a, .step = step};
    return p;
}

static void free_parameter(struct parameter *p)
{
    for (int i = 0; i < OPERANDS; i++) {
        expect_guards(&p->o[i]);
        operand_free(&p->o[i]);
        free(p->want[i]);
    }
    free(p->o);
}

static void check_and_free(struct parameter *p)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (i == G) continue;
        operand_read(&p->o[i]);
        expect_near("step", &p->o[i], p->want[i], bound(p->item.arrays.dtype));
    }
    free_parameter(p);
}

static bool has_states(enum wf_optimizer_kind loop, unsigned states)
{
    return (states & needs[loop]) == needs[loop] && !(states & ~takes[loop]);
}

static void check_loop(enum wf_optimizer_kind loop, unsigned states, weft_dtype dtype,
                       weft_dtype grad_dtype, int64_t n)
{
    struct parameter p = make_parameter(loop, states, dtype, grad_dtype, n);

    kernels->step(&p.item, 1);
    check_and_free(&p);
}

WT_UNIT(updates__equal_their_formulas)
{
    EACH_ISA
    for (int i = 0; i < LENGTHS * WF_STEP_LOOPS * 8; i++) {
        enum wf_optimizer_kind loop = (enum wf_optimizer_kind)(i / 8 % WF_STEP_LOOPS);
        unsigned states = (unsigned)i % 8;
        int64_t n = lengths[i / 8 / WF_STEP_LOOPS];

        if (!has_states(loop, states)) continue;
        check_loop(loop, states, WEFT_F32, WEFT_F32, n);
        check_loop(loop, states, WEFT_F64, WEFT_F64, n);
        check_loop(loop, states, WEFT_F32, float_dtypes[FLOAT_DTYPES - 1], n); /* of 16 bits */
    }
}

/* The step of elements from..to-1, and of no others. */
static void step_part(const struct parameter *p, int64_t from, int64_t to)
{
    struct wf_optimizer_item item = p->item;
    struct wf_optimizer_step_arrays *a = &item.arrays;
    size_t element = weft_dtype_size(a->dtype);

    a->count = to - from;
    a->w = (char *)a->w + (size_t)from * element;
    a->g = (const char *)a->g + (size_t)from * weft_dtype_size(a->grad_dtype);
    for (int i = 0; i < WF_STEP_STATES; i++)
        if (a->state[i]) a->state[i] = (char *)a->state[i] + (size_t)from * element;
    kernels->step(&item, 1);
}

/* A step gives the same bits for a whole parameter and for the parameter cut into parts: an
 * element's bits do not depend on whether the element lies in a whole vector. issue 37, 5 */
static void check_parts(enum wf_optimizer_kind loop, unsigned states, weft_dtype dtype,
                        weft_dtype grad_dtype)
{
    enum { N = 203 };
    static const int64_t parts[] = {1, 3, 7, 8, 15, 16, 17, 40};
    struct parameter whole = make_parameter(loop, states, dtype, grad_dtype, N);

    kernels->step(&whole.item, 1);
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        const int64_t length = parts[k];
        struct parameter cut = make_parameter(loop, states, dtype, grad_dtype, N);

        for (int64_t from = 0; from < N; from += length)
            step_part(&cut, from, wf_min_i64(from + length, N));
        for (int i = 0; i < OPERANDS; i++)
            ck_assert_msg(
                memcmp(cut.o[i].data, whole.o[i].data, N * weft_dtype_size(cut.o[i].desc.dtype)) ==
                    0,
                "loop %d, states %u, %s: operand %d in parts of %d differs from the whole", loop,
                states, weft_dtype_name(dtype), i, (int)length);
        free_parameter(&cut);
    }
    free_parameter(&whole);
}

WT_UNIT(updates__have_the_same_bits_however_a_parameter_is_cut)
{
    EACH_ISA
    for (int i = 0; i < WF_STEP_LOOPS * 8; i++) {
        enum wf_optimizer_kind loop = (enum wf_optimizer_kind)(i / 8);
        unsigned states = (unsigned)i % 8;

        if (!has_states(loop, states)) continue;
        check_parts(loop, states, WEFT_F32, WEFT_F32);
        check_parts(loop, states, WEFT_F64, WEFT_F64);
        check_parts(loop, states, WEFT_F32, WEFT_BF16);
    }
}

/* More of a kind than a launch may take, and all kinds among each other. */
WT_UNIT(updates__of_many_parameters_are_theirs)
{
    enum { MANY = 1300 };
    static struct parameter p[MANY];
    static struct wf_optimizer_item items[MANY];
    static const weft_dtype dtypes[][2] = {
        {WEFT_F32, WEFT_F32}, {WEFT_F32, WEFT_BF16}, {WEFT_F32, WEFT_F16}, {WEFT_F64, WEFT_F64}};

    for (int i = 0; i < MANY; i++) {
        int kind = i < MANY / 2 ? 0 : i % 7;
        enum wf_optimizer_kind loop = i % 3 ? WF_STEP_ADAM : (enum wf_optimizer_kind)(i % 9);
        unsigned states = i % 2 && takes[loop] == 7 ? 7 : needs[loop];

        p[i] = make_parameter(loop, states, dtypes[kind % 4][0], dtypes[kind % 4][1],
                              i % 100 ? i % 23 : 5000 + i);
        items[i] = p[i].item;
    }
    kernels->step(items, MANY);
    for (int i = 0; i < MANY; i++) check_and_free(&p[i]);
}

/* Groups whose numbers differ. */
WT_UNIT(updates__go_by_their_own_numbers)
{
    enum { MANY = 150, N = 10 };
    static float w[MANY][N], g[MANY][N];
    static struct wf_optimizer_item items[MANY];

    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < N; k++) g[i][k] = (float)(k + 1);
        items[i] = (struct wf_optimizer_item){
            .loop = WF_STEP_SGD,
            .arrays = {.count = N, .w = w[i], .g = g[i]}, /* zeros are f32 */
            .step = {.sign = 1, .keep = 1, .rate = i}};
        for (int k = 0; k < N; k++) w[i][k] = 3;
    }
    kernels->step(items, MANY);
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < N; k++) ck_assert(w[i][k] == (float)(3 - i * (k + 1)));
}

/* Addresses that no pack is aligned to. */
WT_UNIT(updates__take_any_address)
{
    enum { N = 70 };
    static float w[N + 1], g[N + 1], m[N + 1];
    static wf_bf16 rounded[N + 1];

    EACH_ISA
    for (int which = 0; which < 4; which++) {
        float *at_w = w + (which == 0), *at_g = g + (which == 1), *at_m = m + (which == 2);
        wf_bf16 *at_r = rounded + (which == 3);
        struct wf_optimizer_item item = {
            .loop = WF_STEP_SGD,
            .arrays = {.count = N,
                       .w = at_w,
                       .g = at_g,
                       .state = {at_m},
                       .rounded = at_r,
                       .rounded_dtype = WEFT_BF16},
            .step = {.sign = 1, .keep = 1, .rate = 0.5, .beta1 = 1, .take1 = 1}};

        for (int i = 0; i < N; i++) {
            at_w[i] = (float)i;
            at_g[i] = (float)(i % 5);
            at_m[i] = 2;
            at_r[i] = wf_f32_to_bf16(at_w[i]);
        }
        kernels->step(&item, 1);
        for (int i = 0; i < N; i++) {
            float want = (float)i - 0.5f * (float)(2 + i % 5);

            ck_assert(at_w[i] == want && at_m[i] == (float)(2 + i % 5));
            ck_assert_int_eq(at_r[i], wf_f32_to_bf16(want));
        }
    }
}

/* The 16-bit dtypes that have kernels. */
static const weft_dtype halves[] = {WEFT_BF16, WEFT_F16};

static uint16_t as_half(weft_dtype dtype, float value)
{
    uint16_t half;

    wf_dtypes[dtype].store(&half, (double)value);
    return half;
}

/* A parameter goes on from its master, but from itself where somebody wrote to it. */
WT_UNIT(masters__are_rounded_and_followed)
{
    enum { N = 2500 };
    static const weft_dtype grad_dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    static float master[N], g[N];
    static uint16_t w[N];

    EACH_ISA
    for (int round = 0; round < 6; round++) {
        weft_dtype dtype = halves[round % 2], grad_dtype = grad_dtypes[round / 2];
        const struct wf_optimizer_item item = {.loop = WF_STEP_SGD, /* zeros are f32 */
                                               .arrays = {.count = N,
                                                          .w = master,
                                                          .g = g,
                                                          .grad_dtype = grad_dtype,
                                                          .rounded = w,
                                                          .rounded_dtype = dtype},
                                               .step = {.sign = 1, .keep = 1, .rate = 0.25}};

        for (int i = 0; i < N; i++) {
            master[i] = 1.0f + (float)i * 0x1p-20f;
            w[i] = as_half(dtype, i % 3 ? master[i] : 7.5f);
            wf_dtypes[grad_dtype].store((char *)g + (size_t)i * wf_dtypes[grad_dtype].size,
                                        i % 5 * 0x1p-12); /* exact in all */
        }
        kernels->step(&item, 1);
        for (int i = 0; i < N; i++) {
            float want =
                (i % 3 ? 1.0f + (float)i * 0x1p-20f : 7.5f) - 0.25f * (float)(i % 5) * 0x1p-12f;

            ck_assert(master[i] == want);
            ck_assert_int_eq(w[i], as_half(dtype, want));
        }
    }
}

/* A total that begins at 0.25, so that it is seen to be kept. */
static double total_of(void (*add)(weft_dtype, int64_t, const void *, double *),
                       const struct operand *x)
{
    double total = 0.25;

    add((weft_dtype)x->desc.dtype, x->desc.numel, x->data, &total);
    return total;
}

static double powers_of(const struct operand *x, double p)
{
    double total = 0.25;

    kernels->add_powers((weft_dtype)x->desc.dtype, x->desc.numel, x->data, p, &total);
    return total;
}

static void check_sums(weft_dtype dtype, int64_t n)
{
    struct operand x = operand_noise(dtype, PLAIN, 1, &n, 1),
                   y = operand_noise(dtype, PLAIN, 1, &n, 2);
    double *want = calloc((size_t)n + 1, sizeof *want), squares = 0, sum = 0, cubes = 0, most = 0;

    for (int64_t i = 0; i < n; i++) {
        double size = fabs(x.values[i]);

        squares += size * size;
        sum += size;
        cubes += size * size * size;
        most = fmax(most, size);
        want[i] = y.values[i] - 1.5 * x.values[i];
    }
    ck_assert(fabs(total_of(kernels->add_sum_of_squares, &x) - 0.25 - squares) <=
              1e-12 * squares + 1e-15);
    ck_assert(fabs(powers_of(&x, 1) - 0.25 - sum) <= 1e-12 * sum + 1e-15);
    ck_assert(fabs(powers_of(&x, 3) - 0.25 - cubes) <= 1e-12 * cubes + 1e-15);
    ck_assert(total_of(kernels->raise_to_max, &x) == fmax(most, 0.25));
    kernels->axpy(dtype, n, y.data, -1.5, x.data);
    operand_read(&y);
    expect_near("axpy", &y, want, bound(dtype));
    for (int64_t i = 0; i < n; i++) want[i] = x.values[i] * 0.3;
    kernels->scale(dtype, n, x.data, 0.3);
    operand_read(&x);
    expect_near("scale", &x, want, bound(dtype));
    for (int64_t i = 0; i < n; i++) want[i] = x.values[i] * 0.7;
    kernels->scale_by(dtype, n, x.data, &(double){0.7});
    operand_read(&x);
    expect_near("scale_by", &x, want, bound(dtype));
    for (int64_t i = 0; i < n; i++) want[i] = fmin(0.125, fmax(-0.125, x.values[i]));
    kernels->clamp(dtype, n, x.data, 0.125);
    operand_read(&x);
    expect_near("limit", &x, want, 0);
    expect_guards(&x);
    expect_guards(&y);
    OPERANDS_FREE(&x, &y);
    free(want);
}

WT_UNIT(gradients__are_summed_scaled_and_limited)
{
    EACH_ISA
    for (int i = 0; i < LENGTHS * FLOAT_DTYPES; i++) {
        weft_dtype dtype = float_dtypes[i % FLOAT_DTYPES];
        int64_t n = lengths[i / FLOAT_DTYPES];

        check_sums(dtype, n);
    }
}

WT_UNIT(gradients__are_clipped_by_their_norm)
{
    static const struct {
        double total, p, max_norm, factor;
    } cases[] = {
        {16, 2, 2, 2 / (4 + 1e-6)},
        {16, 2, 4, 4 / (4 + 1e-6)},
        {16, 2, 5, 1},
        {16, 1, 4, 4 / (16 + 1e-6)},
        {27, 3, 1, 1 / (3 + 1e-6)},
        {16, INFINITY, 4, 4 / (16 + 1e-6)},
        {0, 2, 1, 1},
        {NAN, 2, 1, 1},
        {INFINITY, 2, 1, 0},
    };

    EACH_ISA
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double factor = cases[i].total;

        kernels->make_clip_factor(&factor, cases[i].p, cases[i].max_norm);
        ck_assert(fabs(factor - cases[i].factor) <= 1e-15);
    }
}

WT_UNIT(gradients__have_one_sum_at_any_address)
{
    enum { N = 40001 };
    static double holder[N + 1];

    for (int t = 0; t < FLOAT_DTYPES; t++) {
        const struct wf_dtype_info *info = &wf_dtypes[float_dtypes[t]];
        double totals[2] = {0}, largest = 0;
        uint64_t state = 5;

        for (int shift = 0; shift < 2; shift++, state = 5) {
            char *x = (char *)holder + shift * info->size;

            for (int i = 0; i < N; i++) info->store(x + i * info->size, noise(&state));
            kernels->add_sum_of_squares(float_dtypes[t], N, x, &totals[shift]);
            info->store(x + 777 * info->size, NAN);
            largest = 0;
            kernels->raise_to_max(float_dtypes[t], N, x, &largest);
            ck_assert(isnan(largest));
        }
        ck_assert(fabs(totals[0] - totals[1]) <= 1e-12 * totals[0]);
#ifdef WT_CUDA_HOST
        ck_assert(totals[0] == totals[1]);
#endif
    }
}

WT_UNIT(masters__are_synced_alone)
{
    enum { N = 77 };
    static float master[N];
    static uint16_t w[N];

    EACH_ISA
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < N; i++) {
            master[i] = 1.0f + (float)i * 0x1p-20f;
            w[i] = as_half(halves[t], i % 3 ? master[i] : 7.5f);
        }
        kernels->sync_master_weights(halves[t], N, master, w);
        for (int i = 0; i < N; i++)
            ck_assert(master[i] == (i % 3 ? 1.0f + (float)i * 0x1p-20f : 7.5f));
    }
}

int main(void) { return wt_unit_main("optimizer_step"); }
