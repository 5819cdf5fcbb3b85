/* schedule.c: learning rates by step. Pure. */
#include <math.h>

#include <weft/optim.h>

/* How much of the way from lr to min_lr is left at `done` in [0, 1]. */
static double left(weft_schedule_kind kind, double done)
{
    switch (kind) {
    case WEFT_SCHEDULE_LINEAR:
        return 1 - done;
    case WEFT_SCHEDULE_COSINE:
        return 0.5 * (1 + cos(acos(-1.0) * done));
    default:
        return 1;
    }
}

double weft_schedule_lr(const weft_schedule *schedule, int64_t step)
{
    const weft_schedule *s = schedule;
    int64_t span = s->total - s->warmup, at = step - s->warmup;
    double done;

    if (at < 0) return s->lr * (double)(step + 1) / (double)s->warmup;
    done = at < span ? (double)at / (double)span : 1;
    return s->min_lr + (s->lr - s->min_lr) * left(s->kind, done);
}
