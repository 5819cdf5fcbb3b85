/*
 * test_like_cpu.c: CUDA kernels beside the CPU's, on the same operands: those that promise the
 * CPU's bits, and those that only move elements. Shards are boxes and no boxes, operands are
 * strided.
 */
#include "both_devices.h"

#include <setjmp.h>

#include "base/error.h"
#include <weft/random.h>

/* ---- shards ---- */

/* A dim of the whole, and the ranges of it that a shard has. */
struct ranges {
    int64_t global;
    int n;
    struct wf_index_range of[3];
};

struct shard {
    int ndim;
    struct ranges dim[3];
};

static const struct shard shards[] = {
    {0, {{0}}},
    {1, {{1, 1, {{0, 1}}}}},
    {1, {{5000, 1, {{0, 5000}}}}},
    {1, {{5000, 1, {{1237, 2001}}}}},
    {1, {{5000, 3, {{3, 9}, {100, 1}, {4001, 999}}}}},
    {2, {{30, 1, {{7, 11}}}, {50, 1, {{0, 50}}}}},
    {2, {{30, 1, {{0, 30}}}, {50, 1, {{13, 17}}}}},
    {2, {{30, 2, {{3, 5}, {20, 4}}}, {50, 2, {{1, 3}, {41, 9}}}}},
    {2, {{30, 1, {{3, 5}}}, {50, 1, {{49, 1}}}}},
    {2, {{30, 1, {{30, 0}}}, {50, 1, {{0, 50}}}}},
    {3, {{6, 1, {{1, 4}}}, {10, 2, {{0, 3}, {9, 1}}}, {20, 1, {{0, 20}}}}},
    {2, {{1 << 20, 1, {{(1 << 20) - 1, 1}}}, {1 << 14, 1, {{5, 300}}}}}, /* beyond 32 bits */
};
enum { SHARDS = sizeof shards / sizeof *shards };

static struct wf_index_ranges *runs_of(const struct shard *s)
{
    struct wf_index_ranges *runs = calloc(1, sizeof *runs);
    bool box = true;

    for (int d = 0; d < s->ndim; d++) {
        box = box && s->dim[d].n == 1;
        runs->count[d] = s->dim[d].n;
        runs->of[d] = (struct wf_index_range *)(uintptr_t)s->dim[d].of;
    }
    if (!box) return runs;
    free(runs);
    return NULL;
}

static struct operand shard_operand(const struct shard *s, weft_dtype dtype, enum lie lie)
{
    int64_t shape[3] = {0};
    struct operand o;

    for (int d = 0; d < s->ndim; d++)
        for (int r = 0; r < s->dim[d].n; r++) shape[d] += s->dim[d].of[r].size;
    o = operand_new(dtype, lie, s->ndim, shape);
    for (int d = 0; d < s->ndim; d++) {
        o.desc.global[d] = s->dim[d].global;
        o.desc.offset[d] = s->dim[d].of[0].offset;
    }
    o.desc.runs = runs_of(s);
    return o;
}

static void shard_free(struct operand *o)
{
    free(o->desc.runs);
    operand_free(o);
}

/* ---- elements that are a function of their place ---- */

static void check_fill(struct kernel kernel, const struct shard *s, weft_dtype dtype, enum lie lie,
                       const struct wf_scalars *scalars)
{
    struct operand y[2] = {shard_operand(s, dtype, lie), shard_operand(s, dtype, lie)};

    run_both(&kernel, y, 0, NULL, NULL, scalars);
    expect_same_bits(y, kernel.name);
    shard_free(&y[0]);
    shard_free(&y[1]);
}

/* ---- random numbers ---- */

static const struct random_case {
    struct kernel kernel;
    int last_dtype; /* and all before it */
    struct wf_scalars scalars;
} random_cases[] = {
    {KERNEL(uniform), WEFT_F16, {.s = {-2, 3}, .v = {5, 7}}},
    {KERNEL(uniform), WEFT_F16, {.s = {1, 1.001}, .v = {-1, 1}}},
    {KERNEL(normal), WEFT_F16, {.s = {-2, 3}, .v = {5, 7}}},
    {KERNEL(trunc_normal), WEFT_F16, {.s = {0, 1, -3, 1.5}, .v = {5, 7}}},
    {KERNEL(trunc_normal), WEFT_F16, {.s = {0, 2, 3, 40}, .v = {5, 8}}},
    {KERNEL(log_normal), WEFT_F16, {.s = {0.5, 2}, .v = {5, 7}}},
    {KERNEL(exponential), WEFT_F16, {.s = {1.5}, .v = {5, 7}}},
    {KERNEL(geometric), WEFT_U8, {.s = {0.01}, .v = {5, 7}}},
    {KERNEL(geometric), WEFT_U8, {.s = {1e-12}, .v = {5, 7}}},
    {KERNEL(bernoulli), WEFT_BOOL, {.s = {0.3}, .v = {5, 7}}},
    {KERNEL(bernoulli), WEFT_BOOL, {.s = {1}, .v = {5, 7}}},
    {KERNEL(randint), WEFT_BOOL, {.v = {5, 7, -100, 201}}},
    {KERNEL(randint), WEFT_I64, {.v = {5, 7, INT64_MIN, -1}}},
};
enum { RANDOM_CASES = sizeof random_cases / sizeof *random_cases };

WT_UNIT(random__has_the_bits_of_the_cpu)
{
    for (int i = 0; i < RANDOM_CASES; i++)
        for (int t = 0; t <= random_cases[i].last_dtype; t++)
            for (int s = 0; s < SHARDS; s++)
                check_fill(random_cases[i].kernel, &shards[s], (weft_dtype)t,
                           s % 4 == 3 ? GAPS : PLAIN, &random_cases[i].scalars);
}

static const struct {
    struct kernel kernel;
    double s;
} with_input[] = {
    {KERNEL(dropout), 0.1}, {KERNEL(dropout), 0}, {KERNEL(dropout), 1}, {KERNEL(bernoulli_of), 0}};

WT_UNIT(dropout__has_the_bits_of_the_cpu)
{
    for (int i = 0; i < 4 * FLOAT_DTYPES * SHARDS * LIES; i++) {
        const struct shard *s = &shards[i / 12 % SHARDS];
        weft_dtype dtype = float_dtypes[i / 4 % FLOAT_DTYPES];
        struct wf_scalars scalars = {.s = {with_input[i % 4].s}, .v = {11, 3}};
        struct operand y[2] = {shard_operand(s, dtype, PLAIN), shard_operand(s, dtype, PLAIN)};
        struct operand x = shard_operand(s, dtype, nth_lie(i / 12 / SHARDS));
        uint64_t state = 3;

        for (int64_t j = 0; j < x.desc.numel; j++) x.values[j] = fabs(noise(&state));
        operand_write(&x);
        run_both(&with_input[i % 4].kernel, y, 1, (struct operand *[]){&x}, NULL, &scalars);
        expect_same_bits(y, with_input[i % 4].kernel.name);
        shard_free(&x);
        shard_free(&y[0]);
        shard_free(&y[1]);
    }
}

WT_UNIT(randperm__has_the_bits_of_the_cpu)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 1000, 1024, 1025, 5000, 70001};

    for (int i = 0; i < 9 * 2 * 3; i++) {
        int64_t n = sizes[i / 6];
        struct shard s = {1, {{n, 1, {{0, n}}}}};
        struct wf_scalars scalars = {.v = {i, 4}};

        if (i % 3 == 1 && n > 6) s.dim[0] = (struct ranges){n, 1, {{3, n - 5}}};
        if (i % 3 == 2 && n > 6) s.dim[0] = (struct ranges){n, 2, {{1, 2}, {5, n - 5}}};
        check_fill((struct kernel)KERNEL(randperm), &s, i / 3 % 2 ? WEFT_I32 : WEFT_I64,
                   i % 2 ? SPREAD : PLAIN, &scalars);
    }
}

/* ---- multinomial ---- */

/* Rows of weights, of which some are 0; `alike`: all others are 1, so that sums are exact and times
 * decide, or draws hit a sum. */
static void weigh(struct operand *x, bool alike)
{
    uint64_t state = 17;

    for (int64_t i = 0; i < x->desc.numel; i++) {
        double w = noise(&state);

        x->values[i] = i % x->desc.shape[1] % 5 == 2 ? 0 : alike ? 1 : w * w * w * w;
    }
    operand_write(x);
}

static void check_multinomial(weft_dtype dtype, enum lie lie, int64_t width, int64_t n,
                              bool replacement, bool sharded)
{
    struct shard rows = {2, {{9, 1, {{0, 9}}}, {width, 1, {{0, width}}}}};
    struct shard results = {2, {{9, 1, {{0, 9}}}, {n, 1, {{0, n}}}}};
    union wf_op_attrs attrs = {.multinomial = {.n = n, .replacement = replacement}};
    struct wf_scalars scalars = {.v = {77, 1}};
    struct operand x, y[2];

    if (sharded) rows.dim[0] = results.dim[0] = (struct ranges){9, 2, {{1, 3}, {7, 2}}};
    x = shard_operand(&rows, dtype, lie);
    y[0] = shard_operand(&results, WEFT_I64, PLAIN);
    y[1] = shard_operand(&results, WEFT_I64, PLAIN);
    weigh(&x, width % 2);
    run_both(&(struct kernel)KERNEL(multinomial), y, 1, (struct operand *[]){&x}, &attrs, &scalars);
    expect_same_bits(y, "multinomial");
    shard_free(&x);
    shard_free(&y[0]);
    shard_free(&y[1]);
}

WT_UNIT(multinomial__draws_what_the_cpu_draws)
{
    static const int64_t widths[] = {1, 2, 5, 257, 1024, 5001};
    static const int64_t counts[] = {1, 3, 300};

    for (int i = 0; i < 6 * 3 * 2 * FLOAT_DTYPES; i++) {
        int64_t width = widths[i % 6], n = counts[i / 6 % 3];
        bool replacement = i / 18 % 2;

        if (!replacement && n > width - width / 5 - 1) n = width - width / 5 - (width > 2);
        if (!replacement && n > 20) n = 20;
        check_multinomial(float_dtypes[i / 36], nth_lie(i), width, n, replacement, i % 7 == 3);
    }
}

/* The number in (0, 1) of one of the first four results, from both planes. */
static double uniform_of(const struct wf_scalars *scalars, int result)
{
    uint64_t seed = (uint64_t)scalars->v[0], draw = (uint64_t)scalars->v[1];
    uint32_t key[] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, word[2][4];

    for (int plane = 0; plane < 2; plane++, draw |= (uint64_t)1 << 63) {
        uint32_t counter[] = {0, 0, (uint32_t)draw, (uint32_t)(draw >> 32)};

        weft_philox(word[plane], counter, key);
    }
    return (word[0][result] >> 5) * 0x1p-27 + ((word[1][result] >> 7) + 0.5) * 0x1p-52;
}

/* Where a draw meets a sum, its last bit decides: sums of `parts` weights each that are u and what
 * is left of 1, moved by `off` in the last place. Each of the first four draws by turns. */
WT_UNIT(multinomial__draws_what_the_cpu_draws_at_a_sum)
{
    for (int i = 0; i < 7 * 5 * 20; i++) {
        int64_t parts = (int64_t[]){1, 2, 3, 100, 1025, 300, 7}[i % 7], shape[] = {2 * parts};
        struct wf_scalars scalars = {.v = {i / 35, 5}};
        const int draw = i / 35 % 4;
        const int64_t n = draw + 1;
        union wf_op_attrs attrs = {.multinomial = {.n = n, .replacement = true}};
        struct operand x = operand_new(WEFT_F64, PLAIN, 1, shape);
        struct operand y[2] = {operand_new(WEFT_I64, PLAIN, 1, &n),
                               operand_new(WEFT_I64, PLAIN, 1, &n)};
        double u = uniform_of(&scalars, draw);

        for (int64_t j = 0; j < 2 * parts; j++)
            x.values[j] = (j < parts ? u : 1 - u) / (double)parts * (1 + (i / 7 % 5 - 2) * 0x1p-52);
        operand_write(&x);
        run_both(&(struct kernel)KERNEL(multinomial), y, 1, (struct operand *[]){&x}, &attrs,
                 &scalars);
        expect_same_bits(y, "multinomial");
        ck_assert(fabs(y[0].values[draw] - (double)parts) <= 1);
        operand_free(&x);
        operand_free(&y[0]);
        operand_free(&y[1]);
    }
}

static jmp_buf died;
static void jump(void) { longjmp(died, 1); }

static bool multinomial_dies(double weight, int64_t n)
{
    static const int64_t shape[] = {6}, drawn[] = {1};
    struct operand x = operand_new(WEFT_F32, PLAIN, 1, shape);
    struct operand y = operand_new(WEFT_I64, PLAIN, 1, drawn);
    union wf_op_attrs attrs = {.multinomial = {.n = n, .replacement = n == 1}};
    struct wf_kernel_call k = {.op = "multinomial",
                               .n_in = 1,
                               .n_out = 1,
                               .in = {&x.desc},
                               .out = {&y.desc},
                               .attrs = &attrs};
    volatile bool dead = false;
    int64_t out[6];

    x.values[3] = weight;
    operand_write(&x);
    ck_assert_int_eq(wf_cuda_multinomial(&k), WEFT_OK);
    wf_die_set_handler(jump);
    if (setjmp(died) == 0)
        k.run(&k, (void *[]){out}, (const void *[]){x.data}, &(struct wf_scalars){0});
    else
        dead = true;
    wf_die_set_handler(NULL);
    wf_free(k.prep);
    operand_free(&x);
    operand_free(&y);
    return dead;
}

WT_UNIT(multinomial__refuses_rows_that_are_none)
{
    ck_assert(!multinomial_dies(1, 1));
    ck_assert(multinomial_dies(0, 1));
    ck_assert(multinomial_dies(-1, 1));
    ck_assert(multinomial_dies(NAN, 1));
    ck_assert(multinomial_dies(INFINITY, 1));
    ck_assert(multinomial_dies(1, 2));
}

/* ---- targets ---- */

static bool nll_pick_dies(double target)
{
    static const int64_t rows[] = {6}, shape[] = {6, 5};
    struct operand x = operand_noise(WEFT_F32, PLAIN, 2, shape, 1);
    struct operand t = operand_new(WEFT_I32, PLAIN, 1, rows);
    struct operand y = operand_new(WEFT_F32, PLAIN, 1, rows);
    struct wf_kernel_call k = {
        .op = "nll_pick", .n_in = 2, .n_out = 1, .in = {&x.desc, &t.desc}, .out = {&y.desc}};
    volatile bool dead = false;

    t.values[3] = target;
    operand_write(&t);
    ck_assert_int_eq(wf_cuda_nll_pick(&k), WEFT_OK);
    wf_die_set_handler(jump);
    if (setjmp(died) == 0)
        k.run(&k, (void *[]){y.data, NULL}, (const void *[]){x.data, t.data},
              &(struct wf_scalars){.v = {-100}});
    else
        dead = true;
    wf_die_set_handler(NULL);
    wf_free(k.prep);
    OPERANDS_FREE(&x, &t, &y);
    return dead;
}

WT_UNIT(nll_pick__refuses_targets_that_are_no_class)
{
    ck_assert(!nll_pick_dies(4));
    ck_assert(!nll_pick_dies(-100));
    ck_assert(nll_pick_dies(5));
    ck_assert(nll_pick_dies(-1));
}

/* ---- ranges ---- */

WT_UNIT(ranges__have_the_bits_of_the_cpu)
{
    static const struct wf_scalars scalars[] = {{.s = {0.1, 0.3}, .v = {-3, 2}},
                                                {.s = {-5, 1e-3}, .v = {1, 7}},
                                                {.s = {3, 3}, .v = {0, 0}}};

    for (int i = 0; i < SHARDS * 3; i++)
        for (int t = 0; t < WEFT_C64; t++) {
            const struct shard *s = &shards[i / 3];

            check_fill((struct kernel)KERNEL(arange), s, (weft_dtype)t, PLAIN, &scalars[i % 3]);
            if (t < WF_FLOAT_DTYPES && s->ndim == 1)
                check_fill((struct kernel)KERNEL(linspace), s, (weft_dtype)t, PLAIN,
                           &scalars[i % 3]);
            if (s->ndim > 1)
                check_fill((struct kernel)KERNEL(fill_band), s, (weft_dtype)t, PLAIN,
                           &scalars[i % 3]);
        }
}

/* ---- slices of shards ---- */

static void check_slice(const struct shard *whole, int dim, int64_t start, int64_t length,
                        bool grad, weft_dtype dtype, enum lie lie)
{
    static const struct kernel kernels[] = {KERNEL(slice_masked), KERNEL(slice_grad)};
    struct shard slice = *whole;
    union wf_op_attrs attrs = {.slice = {.dim = dim, .length = length}};
    struct wf_scalars scalars = {.v = {start}};
    struct operand x, y[2];

    slice.dim[dim] = (struct ranges){length, 1, {{0, length}}};
    x = shard_operand(grad ? &slice : whole, dtype, lie);
    for (int i = 0; i < 2; i++) y[i] = shard_operand(grad ? whole : &slice, dtype, PLAIN);
    operand_whole(&x, 4, 100);
    run_both(&kernels[grad], y, 1, (struct operand *[]){&x}, &attrs, &scalars);
    expect_same_bits(y, kernels[grad].name);
    shard_free(&x);
    shard_free(&y[0]);
    shard_free(&y[1]);
}

WT_UNIT(slices__of_shards_are_the_cpus)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_U8, WEFT_F64};

    for (int i = 0; i < SHARDS * 2 * 3 * 2 * 4; i++) {
        const struct shard *s = &shards[i % SHARDS];
        int dim = i / SHARDS % 3, which = i / SHARDS / 3;
        int64_t global = s->dim[dim].global, start = which % 2 ? global / 3 : 0;
        int64_t length = which / 2 % 2 ? global - start : (global - start) / 2;

        if (dim >= s->ndim || global > 10000) continue;
        check_slice(s, dim, start, length, which / 4 % 2, dtypes[i / 5 % 4], nth_lie(i));
    }
}

int main(void) { return wt_unit_main("like_cpu"); }
