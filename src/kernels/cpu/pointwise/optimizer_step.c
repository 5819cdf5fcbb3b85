/*
 * optimizer_step.c: kernels/optimizer_kernels.h; dtypes were checked when the optimizer was made.
 *
 * Loops know f32 and f64 only. 16-bit floats go through them in pieces that stay in the first
 * cache: widened before, rounded after, so that memory is still passed over once.
 */
#include "kernels/cpu/pointwise/optimizer_step.h"

#include <math.h>

#include "base/error.h"

enum { PIECE = 1024 };

static const struct wf_gradient_loops *gradient_loops_for(weft_dtype dtype)
{
    if (!wf_dtype_is_float(dtype))
        WF_DIE("optimizer: no CPU kernel for %s", weft_dtype_name(dtype));
    return &WF_ISA_PICK(wf_optimizer_loops)->of[dtype];
}

static void step_16_bit_in_pieces(const struct wf_optimizer_loops *loops,
                                  wf_optimizer_step_fn *update,
                                  const struct wf_optimizer_step_arrays *a,
                                  const struct wf_optimizer_step *step)
{
    const struct wf_master_loops *of_g = &loops->masters[a->grad_dtype];
    const struct wf_master_loops *of_w = &loops->masters[a->rounded_dtype];
    float wide[PIECE];

    for (int64_t i = 0; i < a->count; i += PIECE) {
        int64_t n = a->count - i < PIECE ? a->count - i : PIECE;
        float *w = (float *)a->w + i;
        const void *g = wide;
        void *state[WF_STEP_STATES];

        for (int s = 0; s < WF_STEP_STATES; s++)
            state[s] = a->state[s] ? (float *)a->state[s] + i : NULL;
        if (of_g->widen)
            of_g->widen(n, wide, (const uint16_t *)a->g + i);
        else
            g = (const float *)a->g + i;
        if (a->rounded) of_w->sync(n, w, (uint16_t *)a->rounded + i);
        update(n, w, g, state, step);
        if (a->rounded) of_w->round(n, (uint16_t *)a->rounded + i, w);
    }
}

void wf_cpu_optimizer_step(enum wf_optimizer_kind loop, const struct wf_optimizer_step_arrays *a,
                           const struct wf_optimizer_step *step)
{
    const struct wf_optimizer_loops *loops = WF_ISA_PICK(wf_optimizer_loops);
    wf_optimizer_step_fn *update = loops->update[a->dtype][loop];

    if (a->rounded || a->grad_dtype != a->dtype)
        step_16_bit_in_pieces(loops, update, a, step);
    else
        update(a->count, a->w, a->g, a->state, step);
}

void wf_cpu_sync_master_weights(weft_dtype dtype, int64_t count, float *master, const void *w)
{
    WF_ISA_PICK(wf_optimizer_loops)->masters[dtype].sync(count, master, w);
}

double wf_cpu_sum_squares(weft_dtype dtype, int64_t count, const void *x)
{
    return gradient_loops_for(dtype)->sum_squares(count, x);
}

double wf_cpu_sum_powers(weft_dtype dtype, int64_t count, const void *x, double p)
{
    return gradient_loops_for(dtype)->sum_powers(count, x, p);
}

double wf_cpu_max_abs(weft_dtype dtype, int64_t count, const void *x)
{
    return gradient_loops_for(dtype)->max_abs(count, x);
}

void wf_cpu_scale(weft_dtype dtype, int64_t count, void *x, double s)
{
    gradient_loops_for(dtype)->scale(count, x, s);
}

void wf_cpu_axpy(weft_dtype dtype, int64_t count, void *y, double a, const void *x)
{
    gradient_loops_for(dtype)->axpy(count, y, a, x);
}

void wf_cpu_clamp_size(weft_dtype dtype, int64_t count, void *x, double limit)
{
    gradient_loops_for(dtype)->limit(count, x, limit);
}

void wf_cpu_make_clip_factor(double *total, double p, double max_norm)
{
    double norm = isinf(p) ? *total : p == 2 ? sqrt(*total) : pow(*total, 1 / p);
    double factor = max_norm / (norm + 1e-6); /* as PyTorch */

    *total = factor < 1 ? factor : 1; /* 1 also of what is not a number */
}

/* ---- the table ---- */

static void run_steps(const struct wf_optimizer_item *items, int n)
{
    for (int i = 0; i < n; i++)
        wf_cpu_optimizer_step(items[i].loop, &items[i].arrays, &items[i].step);
}

static void add_sum_of_squares(weft_dtype dtype, int64_t count, const void *x, double *total)
{
    *total += wf_cpu_sum_squares(dtype, count, x);
}

static void add_powers(weft_dtype dtype, int64_t count, const void *x, double p, double *total)
{
    *total += wf_cpu_sum_powers(dtype, count, x, p);
}

static void raise_to_max(weft_dtype dtype, int64_t count, const void *x, double *total)
{
    double most = wf_cpu_max_abs(dtype, count, x);

    if (isnan(most) || most > *total) *total = most;
}

static void scale_by(weft_dtype dtype, int64_t count, void *x, const double *s)
{
    wf_cpu_scale(dtype, count, x, *s);
}

const struct wf_optimizer_kernels wf_cpu_optimizer_kernels = {
    .step = run_steps,
    .sync_master_weights = wf_cpu_sync_master_weights,
    .add_sum_of_squares = add_sum_of_squares,
    .add_powers = add_powers,
    .raise_to_max = raise_to_max,
    .scale = wf_cpu_scale,
    .axpy = wf_cpu_axpy,
    .clamp = wf_cpu_clamp_size,
    .make_clip_factor = wf_cpu_make_clip_factor,
    .scale_by = scale_by,
};
