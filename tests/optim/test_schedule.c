/* test_schedule.c: learning rates by step, against formulas and figures that PyTorch's schedulers
 * are tested with. They are pure, so one rank is enough. */
/* ranks: 1 */
#include <math.h>

#include <weft/weft.h>

#include "support/mpi_check.h"

static bool is(const weft_schedule *s, int64_t step, double want)
{
    return fabs(weft_schedule_lr(s, step) - want) < 1e-12;
}

WT_TEST(schedule__rises_then_falls)
{
    weft_schedule cosine = {
        .kind = WEFT_SCHEDULE_COSINE, .lr = 1, .min_lr = 0.1, .warmup = 4, .total = 12};
    weft_schedule line = cosine, short_one = cosine;
    weft_schedule flat = {.kind = WEFT_SCHEDULE_CONSTANT, .lr = 0.5};

    line.kind = short_one.kind = WEFT_SCHEDULE_LINEAR;
    short_one.total = 2;
    WT_ALL(weft_schedule_lr(&cosine, 0) == 0.25);
    WT_ALL(weft_schedule_lr(&cosine, 3) == 1);
    WT_ALL(weft_schedule_lr(&cosine, 4) == 1);
    WT_ALL(fabs(weft_schedule_lr(&cosine, 8) - 0.55) < 1e-15);
    WT_ALL(fabs(weft_schedule_lr(&cosine, 6) - (0.1 + 0.45 * (1 + sqrt(0.5)))) < 1e-15);
    WT_ALL(fabs(weft_schedule_lr(&line, 6) - (0.1 + 0.9 * 0.75)) < 1e-15);
    WT_ALL(fabs(weft_schedule_lr(&line, 12) - 0.1) < 1e-15);
    WT_ALL(fabs(weft_schedule_lr(&cosine, 1000) - 0.1) < 1e-15);
    WT_ALL(weft_schedule_lr(&flat, 0) == 0.5 && weft_schedule_lr(&flat, 1000) == 0.5);
    WT_ALL(weft_schedule_lr(&short_one, 5) == 0.1);
}

static double at(weft_schedule s, weft_schedule_kind kind, int64_t step)
{
    s.kind = kind;
    return weft_schedule_lr(&s, step);
}

WT_TEST(schedule__multiplies_or_restarts)
{
    weft_schedule s = {.lr = 1, .min_lr = 0, .warmup = 4, .gamma = 0.5, .period = 3};
    weft_schedule above = s;

    above.min_lr = 0.2;
    for (int kind = WEFT_SCHEDULE_STEP; kind <= WEFT_SCHEDULE_RESTARTS; kind++) {
        WT_ALL(at(s, (weft_schedule_kind)kind, 1) == 0.5);
        WT_ALL(at(s, (weft_schedule_kind)kind, 4) == 1);
    }
    WT_ALL(at(s, WEFT_SCHEDULE_STEP, 6) == 1 && at(s, WEFT_SCHEDULE_STEP, 7) == 0.5);
    WT_ALL(at(s, WEFT_SCHEDULE_STEP, 12) == 0.25 && at(above, WEFT_SCHEDULE_STEP, 12) == 0.4);
    WT_ALL(at(s, WEFT_SCHEDULE_EXPONENTIAL, 7) == 0.125);
    WT_ALL(fabs(at(s, WEFT_SCHEDULE_INVERSE_SQRT, 16) - 0.5) < 1e-15);
    WT_ALL(fabs(at(s, WEFT_SCHEDULE_RESTARTS, 5) - 0.75) < 1e-15);
    WT_ALL(at(s, WEFT_SCHEDULE_RESTARTS, 7) == 1 && at(s, WEFT_SCHEDULE_RESTARTS, 10) == 1);
}

WT_TEST(schedule__stays_then_falls)
{
    const weft_schedule s = {
        .kind = WEFT_SCHEDULE_WSD, .lr = 1, .min_lr = 0.2, .warmup = 2, .total = 20, .period = 8};
    weft_schedule sudden = s;

    sudden.period = 0;
    WT_ALL(weft_schedule_lr(&s, 0) == 0.5 && weft_schedule_lr(&s, 2) == 1);
    WT_ALL(weft_schedule_lr(&s, 11) == 1 && weft_schedule_lr(&s, 12) == 1);
    WT_ALL(fabs(weft_schedule_lr(&s, 14) - 0.8) < 1e-15);
    WT_ALL(fabs(weft_schedule_lr(&s, 19) - 0.3) < 1e-15);
    WT_ALL(weft_schedule_lr(&s, 20) == 0.2 && weft_schedule_lr(&s, 1000) == 0.2);
    WT_ALL(weft_schedule_lr(&sudden, 19) == 1 && weft_schedule_lr(&sudden, 20) == 0.2);
}

/* The last entry is the rate from there on. */
static void follows(const weft_schedule *s, const double *want, int n)
{
    for (int step = 0; step < n + 3; step++) WT_ALL(is(s, step, want[step < n ? step : n - 1]));
}

WT_TEST(multistep__falls_at_milestones)
{
    static const int64_t milestones[] = {2, 5, 9};
    weft_schedule s = {.kind = WEFT_SCHEDULE_MULTISTEP,
                       .lr = 0.05,
                       .gamma = 0.1,
                       .milestones = milestones,
                       .n_milestones = 3};

    follows(&s, (double[]){0.05, 0.05, 5e-3, 5e-3, 5e-3, 5e-4, 5e-4, 5e-4, 5e-4, 5e-5}, 10);
    s.warmup = 4; /* milestones stay where they are */
    follows(&s, (double[]){0.0125, 0.025, 0.0375, 0.05, 5e-3, 5e-4, 5e-4, 5e-4, 5e-4, 5e-5}, 10);
    s.milestones = NULL;
    s.n_milestones = 0;
    s.warmup = 0;
    follows(&s, (double[]){0.05}, 1);
}

WT_TEST(polynomial__falls_to_its_end)
{
    weft_schedule s = {.kind = WEFT_SCHEDULE_POLYNOMIAL, .lr = 0.05, .total = 5, .power = 0.9};
    weft_schedule line = {
        .kind = WEFT_SCHEDULE_LINEAR, .lr = 2, .min_lr = 1, .warmup = 3, .total = 9};

    for (int step = 0; step < 10; step++)
        WT_ALL(is(&s, step, step < 5 ? 0.05 * pow(1 - step / 5.0, 0.9) : 0));
    s = line;
    s.kind = WEFT_SCHEDULE_POLYNOMIAL;
    for (int step = 0; step < 12; step++) WT_ALL(is(&s, step, weft_schedule_lr(&line, step)));
    s.power = 2;
    WT_ALL(is(&s, 6, 1.25) && is(&s, 9, 1));
}

WT_TEST(warmup__begins_where_it_is_told)
{
    weft_schedule s = {.kind = WEFT_SCHEDULE_LINEAR,
                       .start_lr = 0.5,
                       .lr = 1,
                       .min_lr = 0.2,
                       .warmup = 2,
                       .total = 6};

    follows(&s, (double[]){0.75, 1, 1, 0.8, 0.6, 0.4, 0.2}, 7);
}

/* SGDR: as PyTorch counts, step by step. */
WT_TEST(restarts__grow)
{
    for (int64_t growth = 0; growth < 5; growth++) {
        weft_schedule s = {.kind = WEFT_SCHEDULE_RESTARTS,
                           .lr = 0.5,
                           .min_lr = 1e-10,
                           .period = 10,
                           .growth = growth};
        int64_t at = 0, period = 10;

        for (int64_t step = 0; step < 200; step++) {
            WT_ALL(
                is(&s, step,
                   1e-10 + (0.5 - 1e-10) * (1 + cos(acos(-1) * (double)at / (double)period)) / 2));
            if (++at < period) continue;
            at -= period;
            period *= growth > 1 ? growth : 1;
        }
    }
}

WT_TEST(one_cycle__rises_and_falls)
{
    weft_schedule s = {.kind = WEFT_SCHEDULE_ONE_CYCLE,
                       .start_lr = 1,
                       .lr = 25,
                       .min_lr = 0.5,
                       .warmup = 3,
                       .total = 10};
    weft_schedule momentum = {.kind = WEFT_SCHEDULE_ONE_CYCLE,
                              .start_lr = 22,
                              .lr = 1,
                              .min_lr = 22,
                              .warmup = 3,
                              .total = 10};

    for (int step = 0; step < 12; step++) {
        double fall = (1 + cos(acos(-1) * (step < 9 ? (step - 2) / 7.0 : 1))) / 2;

        WT_ALL(is(&s, step, step < 2 ? 1 + 12 * step : 0.5 + 24.5 * fall));
        WT_ALL(is(&momentum, step, step < 2 ? 22 - 10.5 * step : 22 - 21 * fall));
    }
    s.warmup = 0;
    WT_ALL(is(&s, 0, 25) && is(&s, 9, 0.5));
    s.total = 1;
    WT_ALL(is(&s, 1, 0.5));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "schedule"); }
