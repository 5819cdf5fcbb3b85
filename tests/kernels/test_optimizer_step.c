/* test_optimizer_step.c: the optimizers' passes over parameters and gradients against their
 * formulas in f64.
 */
#include "cases.h"

#include "kernels/optimizer_kernels.h"

static const int64_t lengths[] = {0, 1, 7, 64, 2001};
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

static void check_and_free(struct operand *o, weft_dtype dtype, double **want)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (i != G) {
            operand_read(&o[i]);
            expect_near("step", &o[i], want[i], bound(dtype));
        }
        expect_guards(&o[i]);
        operand_free(&o[i]);
        free(want[i]);
    }
    free(o);
}

static void check_loop(enum wf_optimizer_kind loop, unsigned states, weft_dtype dtype,
                       weft_dtype grad_dtype, int64_t n)
{
    const struct wf_optimizer_step step = {-1,  0.2, 0.97, 0.05, 0.02, 0.8,
                                           0.3, 0.9, 0.1,  1.5,  1e-3};
    struct operand *o = make_operands(dtype, grad_dtype, n);
    struct wf_optimizer_step_arrays a = {.dtype = dtype, .grad_dtype = grad_dtype, .count = n};
    double *want[OPERANDS];

    for (int i = 0; i < OPERANDS; i++)
        want[i] =
            memcpy(calloc((size_t)n + 1, sizeof(double)), o[i].values, (size_t)n * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
        double *s[WF_STEP_STATES];

        for (int i = 0; i < WF_STEP_STATES; i++) s[i] = states >> i & 1 ? &want[S0 + i][k] : NULL;
        formula(loop, &step, &want[W][k], want[G][k], s);
    }
    a.w = o[W].data;
    a.g = o[G].data;
    for (int i = 0; i < WF_STEP_STATES; i++) a.state[i] = states >> i & 1 ? o[S0 + i].data : NULL;
    wf_cpu_optimizer_step(loop, &a, &step);
    check_and_free(o, dtype, want);
}

WT_UNIT(updates__equal_their_formulas)
{
    EACH_ISA
    for (int i = 0; i < LENGTHS * WF_STEP_LOOPS * 8; i++) {
        enum wf_optimizer_kind loop = (enum wf_optimizer_kind)(i / 8 % WF_STEP_LOOPS);
        unsigned states = (unsigned)i % 8;
        int64_t n = lengths[i / 8 / WF_STEP_LOOPS];

        if ((states & needs[loop]) != needs[loop] || (states & ~takes[loop])) continue;
        check_loop(loop, states, WEFT_F32, WEFT_F32, n);
        check_loop(loop, states, WEFT_F64, WEFT_F64, n);
        check_loop(loop, states, WEFT_F32, WEFT_BF16, n);
    }
}

/* A bf16 parameter goes on from its master, but from itself where somebody wrote to it. */
WT_UNIT(masters__are_rounded_and_followed)
{
    enum { N = 2500 };
    const struct wf_optimizer_step step = {.sign = 1, .keep = 1, .rate = 0.25};
    static float master[N], g[N];
    static wf_bf16 w[N];
    const struct wf_optimizer_step_arrays a = {
        .count = N, .w = master, .g = g, .rounded = w}; /* zeros are f32 */

    EACH_ISA
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            master[i] = 1.0f + (float)i * 0x1p-20f;
            w[i] = i % 3 ? wf_f32_to_bf16(master[i]) : wf_f32_to_bf16(7.5f);
            g[i] = (float)(i % 5) * 0x1p-12f;
        }
        wf_cpu_optimizer_step(WF_STEP_SGD, &a, &step);
        for (int i = 0; i < N; i++) {
            float want = (i % 3 ? 1.0f + (float)i * 0x1p-20f : 7.5f) - 0.25f * g[i];

            ck_assert(master[i] == want);
            ck_assert_int_eq(w[i], wf_f32_to_bf16(want));
        }
    }
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
    ck_assert(fabs(wf_cpu_sum_squares(dtype, n, x.data) - squares) <= 1e-12 * squares);
    ck_assert(fabs(wf_cpu_sum_powers(dtype, n, x.data, 1) - sum) <= 1e-12 * sum);
    ck_assert(fabs(wf_cpu_sum_powers(dtype, n, x.data, 3) - cubes) <= 1e-12 * cubes);
    ck_assert(wf_cpu_max_abs(dtype, n, x.data) == most);
    wf_cpu_axpy(dtype, n, y.data, -1.5, x.data);
    operand_read(&y);
    expect_near("axpy", &y, want, bound(dtype));
    for (int64_t i = 0; i < n; i++) want[i] = x.values[i] * 0.3;
    wf_cpu_scale(dtype, n, x.data, 0.3);
    operand_read(&x);
    expect_near("scale", &x, want, bound(dtype));
    for (int64_t i = 0; i < n; i++) want[i] = fmin(0.125, fmax(-0.125, x.values[i]));
    wf_cpu_clamp(dtype, n, x.data, 0.125);
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

int main(void) { return wt_unit_main("optimizer_step"); }
