/* schedule.c: learning rates by step. Pure. */
#include <math.h>

#include <weft/optim.h>

static double half_cosine(double done) { return 0.5 * (1 + cos(acos(-1.0) * done)); }

/* How much of the way from lr to min_lr is left `at` steps after the warm-up. */
static double left(const weft_schedule *s, int64_t at)
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
        return half_cosine((double)(at % period) / (double)period);
    case WEFT_SCHEDULE_WSD:
        return fmax(0, fmin(1, (double)(span - at) / (double)period));
    default:
        return 1;
    }
}

double weft_schedule_lr(const weft_schedule *s, int64_t step)
{
    if (step < s->warmup) return s->lr * (double)(step + 1) / (double)s->warmup;
    return s->min_lr + (s->lr - s->min_lr) * left(s, step - s->warmup);
}
