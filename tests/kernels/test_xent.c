/* test_xent.c: cross-entropy's three kernels against plain loops, whole and split vocabularies. */
#include <setjmp.h>

#include "operands.h"

#include "base/error.h"

enum { IGNORE = -100 };

/* A rank's columns of a vocabulary. */
static const struct columns {
    int64_t classes, first, count;
} parts[] = {{10, 0, 10}, {10, 0, 4},      {10, 4, 6},   {10, 10, 0},
             {1, 0, 1},   {1000, 0, 1000}, {333, 32, 33}};
enum { PARTS = sizeof parts / sizeof *parts, LEAD = 2, TOKENS = 3, ROWS = LEAD * TOKENS };

struct loss {
    const struct columns *part;
    weft_dtype sums;
    struct operand z, m, target, sp, g;
    double want_sp[2 * ROWS];
    struct wf_scalars scalars;
};

static struct loss loss_new(const struct columns *part, weft_dtype dtype, weft_dtype target,
                            enum lie lie)
{
    struct loss l = {.part = part, .sums = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32};
    int64_t lead[] = {LEAD, TOKENS}, rows[] = {LEAD, TOKENS, part->count};

    l.scalars.v[0] = IGNORE;
    l.z = operand_noise(dtype, lie, 3, rows, 1);
    l.z.desc.global[2] = part->classes;
    l.z.desc.offset[2] = part->first;
    l.m = operand_noise(l.sums, lie, 2, lead, 2);
    l.g = operand_noise(l.sums, lie, 2, lead, 3);
    l.sp = operand_noise(l.sums, lie, 3, (int64_t[]){2, LEAD, TOKENS}, 4);
    for (int i = 0; i < ROWS; i++) l.sp.values[i] = 2 + i + l.sp.values[i];
    operand_write(&l.sp);
    l.target = operand_new(target, lie, 2, lead);
    for (int i = 0; i < ROWS; i++)
        l.target.values[i] = i == 2 ? IGNORE : (double)(i * 37 % part->classes);
    operand_write(&l.target);
    return l;
}

static void loss_free(struct loss *l)
{
    operand_free(&l->z);
    operand_free(&l->m);
    operand_free(&l->target);
    operand_free(&l->sp);
    operand_free(&l->g);
}

/* The column of this part that row i's target is, or -1. */
static int64_t column(const struct loss *l, int64_t i)
{
    int64_t c = (int64_t)l->target.values[i] - l->part->first;

    return l->target.values[i] != IGNORE && c >= 0 && c < l->part->count ? c : -1;
}

static void check_sum(struct loss *l)
{
    struct operand y = operand_new(l->sums, PLAIN, 3, (int64_t[]){2, LEAD, TOKENS});
    struct wf_kcall k = {.op = "xent_sum", .n_in = 3, .n_out = 1};
    double want[2 * ROWS] = {0};

    for (int64_t i = 0; i < ROWS; i++) {
        const double *z = l->z.values + i * l->part->count;

        for (int64_t j = 0; j < l->part->count; j++) want[i] += exp(z[j] - l->m.values[i]);
        if (column(l, i) >= 0) want[ROWS + i] = z[column(l, i)] - l->m.values[i];
    }
    kernel_run(wf_cpu_xent_sum, &k, (struct operand *[]){&y},
               (struct operand *[]){&l->z, &l->m, &l->target}, &l->scalars);
    expect_near("xent_sum", &y, want, dtype_bound(l->sums));
    operand_free(&y);
}

static void check_loss(struct loss *l)
{
    struct operand y = operand_new(l->sums, PLAIN, 2, (int64_t[]){LEAD, TOKENS});
    struct wf_kcall k = {.op = "xent_loss", .n_in = 2, .n_out = 1};
    double want[ROWS] = {0};

    for (int64_t i = 0; i < ROWS; i++)
        if (l->target.values[i] != IGNORE) want[i] = log(l->sp.values[i]) - l->sp.values[ROWS + i];
    kernel_run(wf_cpu_xent_loss, &k, (struct operand *[]){&y},
               (struct operand *[]){&l->sp, &l->target}, &l->scalars);
    expect_near("xent_loss", &y, want, dtype_bound(l->sums));
    operand_free(&y);
}

static void check_grad(struct loss *l, weft_dtype dtype)
{
    struct operand dz = operand_new(dtype, PLAIN, 3, l->z.desc.shape);
    struct wf_kcall k = {.op = "xent_grad", .n_in = 5, .n_out = 1};
    double *want = calloc((size_t)dz.desc.numel + 1, sizeof *want);

    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < l->part->count && l->target.values[i] != IGNORE; j++) {
            int64_t at = i * l->part->count + j;
            double share = exp(l->z.values[at] - l->m.values[i]) / l->sp.values[i];

            want[at] = l->g.values[i] * (share - (j == column(l, i)));
        }
    kernel_run(wf_cpu_xent_grad, &k, (struct operand *[]){&dz},
               (struct operand *[]){&l->z, &l->m, &l->sp, &l->target, &l->g}, &l->scalars);
    expect_near("xent_grad", &dz, want, dtype_bound(dtype));
    free(want);
    operand_free(&dz);
}

START_TEST(xent__equals_plain_loops_for_any_columns_and_strides)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int lie = 0; lie < LIES; lie++) {
            struct loss l =
                loss_new(&parts[_i], float_dtypes[d], lie % 2 ? WEFT_I32 : WEFT_I64, (enum lie)lie);

            check_sum(&l);
            check_loss(&l);
            check_grad(&l, float_dtypes[d]);
            loss_free(&l);
        }
}
END_TEST

START_TEST(xent__large_logits_neither_overflow_nor_lose_the_loss)
{
    EACH_ISA
    {
        struct operand z = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){1, 40});
        struct operand m = operand_new(WEFT_F32, PLAIN, 1, (int64_t[]){1});
        struct operand target = operand_new(WEFT_I64, PLAIN, 1, (int64_t[]){1});
        struct operand sp = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){2, 1});
        struct wf_kcall k = {.op = "xent_sum", .n_in = 3, .n_out = 1};

        for (int i = 0; i < 40; i++) z.values[i] = i == 7 ? 3000 : i == 8 ? -INFINITY : -3000;
        m.values[0] = 3000;
        target.values[0] = 8;
        operand_write(&z);
        operand_write(&m);
        operand_write(&target);
        kernel_run(wf_cpu_xent_sum, &k, (struct operand *[]){&sp},
                   (struct operand *[]){&z, &m, &target}, &(struct wf_scalars){.v = {IGNORE}});
        ck_assert_double_eq(sp.values[0], 1);
        ck_assert_double_eq(sp.values[1], -INFINITY);
        operand_free(&z);
        operand_free(&m);
        operand_free(&target);
        operand_free(&sp);
    }
}
END_TEST

static jmp_buf died;
static void jump(void) { longjmp(died, 1); }

static bool dies(double target)
{
    struct loss l = loss_new(&parts[2], WEFT_F32, WEFT_I64, PLAIN);
    struct operand y = operand_new(WEFT_F32, PLAIN, 3, (int64_t[]){2, LEAD, TOKENS});
    struct wf_kcall k = {.op = "xent_sum",
                         .n_in = 3,
                         .n_out = 1,
                         .in = {&l.z.desc, &l.m.desc, &l.target.desc},
                         .out = {&y.desc}};
    volatile bool dead = false;

    l.target.values[4] = target;
    operand_write(&l.target);
    ck_assert_int_eq(wf_cpu_xent_sum(&k), WEFT_OK);
    wf_die_set_handler(jump);
    if (setjmp(died) == 0)
        k.run(&k, (void *[]){y.data}, (const void *[]){l.z.data, l.m.data, l.target.data},
              &l.scalars);
    else
        dead = true;
    wf_die_set_handler(NULL);
    k.drop(k.prep);
    operand_free(&y);
    loss_free(&l);
    return dead;
}

START_TEST(xent__a_target_outside_the_classes_is_fatal_unless_ignored)
{
    ck_assert(dies(10));
    ck_assert(dies(-1));
    ck_assert(!dies(IGNORE));
    ck_assert(!dies(0)); /* another rank's column */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xent");
    TCase *cases = tcase_create("all");

    tcase_set_timeout(cases, 0);
    tcase_add_loop_test(cases, xent__equals_plain_loops_for_any_columns_and_strides, 0, PARTS);
    tcase_add_test(cases, xent__large_logits_neither_overflow_nor_lose_the_loss);
    tcase_add_test(cases, xent__a_target_outside_the_classes_is_fatal_unless_ignored);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
