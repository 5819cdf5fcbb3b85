/*
 * collectives.c: a tensor goes from every placement to every other on the GPUs and is the same
 * afterwards, a NaN too; how fast a large one goes.
 */
#include <math.h>
#include <stdlib.h>

#include "gpu/check/check.h"
#include "gpu/check/report.h"
#include "gpu/check/timing.h"

static const char *const placements[] = {"R", "S(0)", "S(1)", "P"};
enum {
    PLACEMENTS = sizeof placements / sizeof *placements,
    TARGETS = PLACEMENTS - 1 /* without P */
};

static weft_tensor *redistributed(weft_tensor *t, const char *to)
{
    return t ? weft_redistribute(t, weft_placements(weft_tensor_mesh(t), to)) : NULL;
}

/* After both moves a whole tensor again; NULL: one failed. */
static weft_tensor *there_and_back(weft_tensor *x, weft_mesh *mesh, const char *from,
                                   const char *to)
{
    weft_tensor *t = weft_distribute_tensor(x, mesh, weft_placements(mesh, "S(0)"), -1);

    t = redistributed(redistributed(t, from), to);
    return t ? weft_full_tensor(t) : NULL;
}

static double largest_square(weft_tensor *difference)
{
    return weft_item(weft_amax(weft_mul(difference, difference), NULL, 0, false));
}

static void check_shape(weft_mesh *mesh, int64_t rows, int64_t columns)
{
    for (int pair = 0; pair < PLACEMENTS * TARGETS; pair++) {
        const char *from = placements[pair / TARGETS], *to = placements[pair % TARGETS];
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = weft_empty(WEFT_F32, (int64_t[]){rows, columns}, 2), *y;

        weft_manual_seed(3);
        if (weft_randint_(x, -8, 9, NULL) != WEFT_OK) abort(); /* whose sums are exact */
        y = there_and_back(x, mesh, from, to);
        if (y)
            report_add((struct report_line){.group = "collectives",
                                            .figure = "largest squared difference",
                                            .bound = REPORT_AT_MOST,
                                            .value = largest_square(weft_sub(y, x)),
                                            .claim = "redistribution keeps values"},
                       "%lld x %lld: %s to %s", (long long)rows, (long long)columns, from, to);
        else
            report_failure("collectives", "redistribution keeps values", "%lld x %lld: %s to %s",
                           (long long)rows, (long long)columns, from, to);
        weft_scope_close(scope);
    }
}

/* ---- maxima and minima ---- */

enum { NUMBERS = 96 };

/* What a rank has: number after number, and a NaN in every third place on one rank, another in
 * each. */
static float term(int rank, int i)
{
    return i % 3 == 1 && i / 3 % weft_world_size() == rank ? NAN : (float)(i + rank);
}

/* Elements that are wrong; -1: it failed. */
static double count_wrong(weft_tensor *result, bool largest)
{
    double got[NUMBERS], wrong = 0;

    if (!result || weft_read_f64(result, got, NUMBERS) != WEFT_OK) return -1;
    for (int i = 0; i < NUMBERS; i++) {
        bool nan = i % 3 == 1;

        wrong += nan ? !isnan(got[i]) : got[i] != i + (largest ? weft_world_size() - 1 : 0);
    }
    return wrong;
}

/* A NaN stays whichever rank has it: NCCL itself would lose it. */
static void check_extremes(weft_mesh *mesh, weft_dtype dtype, const char *from)
{
    weft_device before = weft_set_default_device(WEFT_CUDA);
    weft_scope *scope = weft_scope_open();
    float mine[NUMBERS];
    weft_tensor *t;
    double wrong;

    for (int i = 0; i < NUMBERS; i++) mine[i] = term(weft_world_rank(), i);
    t = weft_cast(weft_from_data(WEFT_F32, (int64_t[]){NUMBERS}, 1, mine), dtype);
    t = weft_from_local(t, mesh, weft_placements(mesh, from), NULL);
    wrong = count_wrong(redistributed(t, "R"), from[3] == 'a');
    if (wrong < 0)
        report_failure("collectives", "redistribution keeps values", "NaN: %s of %s", from,
                       weft_dtype_name(dtype));
    else
        report_add((struct report_line){.group = "collectives",
                                        .figure = "wrong elements",
                                        .bound = REPORT_AT_MOST,
                                        .value = wrong,
                                        .claim = "redistribution keeps values"},
                   "NaN: %s of %s", from, weft_dtype_name(dtype));
    weft_scope_close(scope);
    weft_set_default_device(before);
}

/* ---- speed ---- */

struct move {
    weft_tensor *t;
    const char *to;
};

static void run_move(void *payload)
{
    struct move *move = payload;

    redistributed(move->t, move->to);
}

static void measure(weft_mesh *mesh, const char *from, const char *to)
{
    enum { ROWS = 4096, COLUMNS = 4096 };
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){ROWS, COLUMNS}, 2, 0);
    struct move move = {.to = to};
    double seconds;

    move.t =
        redistributed(weft_distribute_tensor(x, mesh, weft_placements(mesh, "S(0)"), -1), from);
    seconds = timing_of(run_move, &move);
    report_add((struct report_line){.group = "collectives",
                                    .figure = "GB/s of the tensor",
                                    .value = 4e-9 * (double)(ROWS * COLUMNS) / seconds},
               "64 MiB: %s to %s", from, to);
    weft_scope_close(scope);
}

void check_collectives(weft_mesh *mesh)
{
    check_shape(mesh, 64, 48);
    check_shape(mesh, 37, 5);
    for (int i = 0; i < 4; i++) {
        weft_dtype dtype = (weft_dtype[]){WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16}[i];

        check_extremes(mesh, dtype, "P(max)");
        check_extremes(mesh, dtype, "P(min)");
    }
    measure(mesh, "P", "R");
    measure(mesh, "S(0)", "R");
    measure(mesh, "P", "S(0)");
    measure(mesh, "S(0)", "S(1)");
}
