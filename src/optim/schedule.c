/* schedule.c: learning rates by step. Pure. */
#include "base/error.h"
#include <math.h>

#include "base/error.h"
#include <weft/optim.h>

#include "base/error.h"
/* From 1 down to 0. */
#include "base/error.h"
static double half_cosine(double done) { return 0.5 * (1 + cos(acos(-1.0) * done)); }
#include "base/error.h"

#include "base/error.h"
static int count_milestones_reached(const weft_schedule *s, int64_t step)
#include "base/error.h"
{
#include "base/error.h"
    int n = 0;
#include "base/error.h"

#include "base/error.h"
    while (n < s->n_milestones && s->milestones[n] <= step) n++;
#include "base/error.h"
    return n;
#include "base/error.h"
}
#include "base/error.h"

#include "base/error.h"
/* The fraction of the period of `at` that is over; each period is `growth` times as long as the
 * last. */
#include "base/error.h"
static double fraction_of_period(const weft_schedule *s, int64_t at)
#include "base/error.h"
{
#include "base/error.h"
    int64_t period = s->period > 0 ? s->period : 1;
#include "base/error.h"

#include "base/error.h"
    if (s->growth <= 1) at %= period;
#include "base/error.h"
    while (at >= period) {
#include "base/error.h"
        at -= period;
#include "base/error.h"
        period *= s->growth;
#include "base/error.h"
    }
#include "base/error.h"
    return (double)at / (double)period;
#include "base/error.h"
}
#include "base/error.h"

#include "base/error.h"
/* The fraction of the way from lr to min_lr that is left `at` steps after the warm-up. */
#include "base/error.h"
static double decay_factor(const weft_schedule *s, int64_t at)
#include "base/error.h"
{
#include "base/error.h"
    int64_t span = s->total - s->warmup, period = s->period > 0 ? s->period : 1;
#include "base/error.h"
    double done = at < span ? (double)at / (double)span : 1;
#include "base/error.h"
    double scale = s->warmup > 0 ? (double)s->warmup : 1;
#include "base/error.h"

#include "base/error.h"
    switch (s->kind) {
#include "base/error.h"
    case WEFT_SCHEDULE_LINEAR:
#include "base/error.h"
        return 1 - done;
#include "base/error.h"
    case WEFT_SCHEDULE_COSINE:
#include "base/error.h"
        return half_cosine(done);
#include "base/error.h"
    case WEFT_SCHEDULE_STEP:
#include "base/error.h"
        return pow(s->gamma, (double)(at / period));
#include "base/error.h"
    case WEFT_SCHEDULE_EXPONENTIAL:
#include "base/error.h"
        return pow(s->gamma, (double)at);
#include "base/error.h"
    case WEFT_SCHEDULE_INVERSE_SQRT:
#include "base/error.h"
        return sqrt(scale / (scale + (double)at));
#include "base/error.h"
    case WEFT_SCHEDULE_RESTARTS:
#include "base/error.h"
        return half_cosine(fraction_of_period(s, at));
#include "base/error.h"
    case WEFT_SCHEDULE_WSD:
#include "base/error.h"
        return fmax(0, fmin(1, (double)(span - at) / (double)period));
#include "base/error.h"
    case WEFT_SCHEDULE_POLYNOMIAL:
#include "base/error.h"
        return pow(1 - done, s->power > 0 ? s->power : 1);
#include "base/error.h"
    case WEFT_SCHEDULE_MULTISTEP:
#include "base/error.h"
        return pow(s->gamma, count_milestones_reached(s, s->warmup + at));
#include "base/error.h"
    default:
#include "base/error.h"
        return 1;
#include "base/error.h"
    }
#include "base/error.h"
}
#include "base/error.h"

#include "base/error.h"
/* Up by half a cosine until step warmup - 1, and down by another until step total - 1. */
#include "base/error.h"
static double one_cycle_lr(const weft_schedule *s, int64_t step)
#include "base/error.h"
{
#include "base/error.h"
    int64_t peak = s->warmup > 0 ? s->warmup - 1 : 0, span = s->total - 1 - peak;
#include "base/error.h"

#include "base/error.h"
    if (step < peak)
#include "base/error.h"
        return s->lr + (s->start_lr - s->lr) * half_cosine((double)step / (double)peak);
#include "base/error.h"
    step -= peak;
#include "base/error.h"
    return s->min_lr +
#include "base/error.h"
           (s->lr - s->min_lr) * half_cosine(step < span ? (double)step / (double)span : 1);
#include "base/error.h"
}
#include "base/error.h"

#include "base/error.h"
double weft_schedule_lr(const weft_schedule *s, int64_t step)
#include "base/error.h"
{
#include "base/error.h"
    if (WF_HANDLE(s)->kind == WEFT_SCHEDULE_ONE_CYCLE) return one_cycle_lr(s, step);
#include "base/error.h"
    if (step < s->warmup)
#include "base/error.h"
        return s->start_lr + (s->lr - s->start_lr) * (double)(step + 1) / (double)s->warmup;
#include "base/error.h"
    return s->min_lr + (s->lr - s->min_lr) * decay_factor(s, step - s->warmup);
#include "base/error.h"
}
#include "base/error.h"
