/* schedule.c: learning rates by step. Pure. */
#include <math.h>

#include <weft/optim.h>

#include "base/error.h"

/* From 1 down to 0. */
static double half_cosine(double done) { return 0.5 * (1 + cos(acos(-1.0) * done)); }

static int count_milestones_reached(const weft_schedule *s, int64_t step)
{
    int n = 0;

    while (n < s->n_milestones && s->milestones[n] <= step) n++;
    return n;
}

/* The fraction of the period of `at` that is over; each period is `growth` times as long as the
 * last. */
static double fraction_of_period(const weft_schedule *s, int64_t at)
{
    int64_t period = s->period > 0 ? s->period : 1;

    if (s->growth <= 1) at %= period;
    while (at >= period) {
        at -= period;
        period *= s->growth;
    }
    return (double)at / (double)period;
}

/* The fraction of the way from lr to min_lr that is left `at` steps after the warm-up. */
static double decay_factor(const weft_schedule *s, int64_t at)
{
    int64_t span = s->total - s->warmup, period = s->period > 0 ? s->period : 1;
    double done = at < span ? (double)at / (double)span : 1;
    double scale = s->warmup > 0 ? (double)s->warmup : 1;

    switch (s->kind) {
    case WEFT_SCHEDULE_LINEAR:
        return 1 - done;
    case WEFT_SCHEDULE_COSINE:
        return half_cosine(done);
    case WEFT_SCHEDULE_STEP:
        return pow(s->gamma, (double)(at / period));
    case WEFT_SCHEDULE_EXPONENTIAL:
        return pow(s->gamma, (double)at);
    case WEFT_SCHEDULE_INVERSE_SQRT:
        return sqrt(scale / (scale + (double)at));
    case WEFT_SCHEDULE_RESTARTS:
        return half_cosine(fraction_of_period(s, at));
    case WEFT_SCHEDULE_WSD:
        return fmax(0, fmin(1, (double)(span - at) / (double)period));
    case WEFT_SCHEDULE_POLYNOMIAL:
        return pow(1 - done, s->power > 0 ? s->power : 1);
    case WEFT_SCHEDULE_MULTISTEP:
        return pow(s->gamma, count_milestones_reached(s, s->warmup + at));
    default:
        return 1;
    }
}

/* Up by half a cosine until step warmup - 1, and down by another until step total - 1. */
static double one_cycle_lr(const weft_schedule *s, int64_t step)
{
    int64_t peak = s->warmup > 0 ? s->warmup - 1 : 0, span = s->total - 1 - peak;

    if (step < peak)
        return s->lr + (s->start_lr - s->lr) * half_cosine((double)step / (double)peak);
    step -= peak;
    return s->min_lr +
           (s->lr - s->min_lr) * half_cosine(step < span ? (double)step / (double)span : 1);
}

double weft_schedule_lr(const weft_schedule *s, int64_t step)
{
    if (WF_HANDLE(s)->kind == WEFT_SCHEDULE_ONE_CYCLE) return one_cycle_lr(s, step);
    if (step < s->warmup)
        return s->start_lr + (s->lr - s->start_lr) * (double)(step + 1) / (double)s->warmup;
    return s->min_lr + (s->lr - s->min_lr) * decay_factor(s, step - s->warmup);
}
