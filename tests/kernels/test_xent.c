/* test_xent.c: cross-entropy's three kernels against plain loops, whole and split vocabularies. */
#include "cases.h"

enum { IGNORE = -100 };

/* A rank's columns of a vocabulary. */
static const struct columns {
    int64_t classes, first, count;
} parts[] = {{10, 0, 10}, {10, 0, 4},      {10, 4, 6},   {10, 10, 0},
             {1, 0, 1},   {1000, 0, 1000}, {333, 32, 33}};
enum { PARTS = sizeof parts / sizeof *parts, LEAD = 2, TOKENS = 3, ROWS = LEAD * TOKENS };

/* Plain; class weights; smoothing; all of it. */
static const struct terms {
    bool weighted;
    double smoothing, z_loss;
} terms[] = {{false, 0, 0}, {true, 0, 0}, {false, 0.1, 0}, {true, 0.25, 0.5}, {true, 1, 0}};
enum { TERMS = sizeof terms / sizeof *terms };

struct loss {
    const struct columns *part;
    const struct terms *terms;
    weft_dtype sums;
    struct operand z, m, target, sp, g, weight;
    struct wf_scalars scalars;
};

static struct loss loss_new(const struct columns *part, const struct terms *t, weft_dtype dtype,
                            weft_dtype target, enum lie lie)
{
    struct loss l = {.part = part, .terms = t, .sums = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32};
    int64_t lead[] = {LEAD, TOKENS}, rows[] = {LEAD, TOKENS, part->count};

    l.scalars = (struct wf_scalars){{t->smoothing, t->z_loss}, {IGNORE, part->classes}};
    l.z = operand_noise(dtype, lie, 3, rows, 1);
    l.z.desc.global[2] = part->classes;
    l.z.desc.offset[2] = part->first;
    l.m = operand_noise(l.sums, lie, 2, lead, 2);
    l.g = operand_noise(l.sums, lie, 2, lead, 3);
    l.sp = operand_noise(l.sums, lie, 3, (int64_t[]){2, LEAD, TOKENS}, 4);
    l.weight = operand_noise(l.sums, lie, 1, &part->classes, 5);
    for (int i = 0; i < ROWS; i++) l.sp.values[i] = 2 + i + l.sp.values[i];
    operand_write(&l.sp);
    l.target = operand_new(target, lie, 2, lead);
    for (int i = 0; i < ROWS; i++) /* two rows have the first class of the next rank */
        l.target.values[i] = i == 2 ? (double)IGNORE
                             : i == 3 || i == 5
                                 ? (double)((part->first + part->count) % part->classes)
                                 : (double)(i * 37 % part->classes);
    operand_write(&l.target);
    return l;
}

static void loss_free(struct loss *l)
{
    OPERANDS_FREE(&l->z, &l->m, &l->target, &l->sp, &l->g, &l->weight);
}

static struct operand *weight_of(struct loss *l) { return l->terms->weighted ? &l->weight : NULL; }

static bool is_class(const struct loss *l, int64_t i)
{
    return l->target.values[i] >= 0 && l->target.values[i] < (double)l->part->classes;
}

/* w_j q_j for class j under row i's target. */
static double term(const struct loss *l, int64_t i, int64_t j)
{
    double eps = l->terms->smoothing, w = l->terms->weighted ? l->weight.values[j] : 1;

    return w * ((1 - eps) * ((double)j == l->target.values[i]) + eps / (double)l->part->classes);
}

static double together(const struct loss *l, int64_t i)
{
    double sum = 0;

    for (int64_t j = 0; j < l->part->classes; j++) sum += term(l, i, j);
    return sum;
}

static void check_sum(struct loss *l)
{
    struct operand y = operand_new(l->sums, PLAIN, 3, (int64_t[]){2, LEAD, TOKENS});
    double want[2 * ROWS] = {0};

    for (int64_t i = 0; i < ROWS; i++) {
        const double *z = l->z.values + i * l->part->count, m = l->m.values[i];

        for (int64_t j = 0; j < l->part->count; j++) {
            want[i] += exp(z[j] - m);
            if (is_class(l, i)) want[ROWS + i] += term(l, i, l->part->first + j) * (z[j] - m);
        }
    }
    call(wf_cpu_xent_sum, &y, 4, (struct operand *[]){&l->z, &l->m, &l->target, weight_of(l)},
         &l->scalars);
    expect_near("xent_sum", &y, want, dtype_bound(l->sums));
    operand_free(&y);
}

static void check_loss(struct loss *l)
{
    struct operand y = operand_new(l->sums, PLAIN, 2, (int64_t[]){LEAD, TOKENS});
    struct operand totals = operand_new(l->sums, PLAIN, 1, (int64_t[]){3});
    struct wf_kernel_call k = {.op = "xent_loss", .n_in = 4, .n_out = 2};
    double want[ROWS] = {0}, sums[3] = {0};

    for (int64_t i = 0; i < ROWS; i++) {
        double log_s = log(l->sp.values[i]), lse = l->m.values[i] + log_s;

        if (!is_class(l, i)) continue;
        want[i] = together(l, i) * log_s - l->sp.values[ROWS + i] + l->terms->z_loss * lse * lse;
        sums[0] += want[i];
        sums[1] += l->terms->weighted ? l->weight.values[(int64_t)l->target.values[i]] : 1;
    }
    kernel_run(wf_cpu_xent_loss, &k, (struct operand *[]){&y, &totals},
               (struct operand *[]){&l->sp, &l->m, &l->target, weight_of(l)}, &l->scalars);
    expect_near("xent_loss", &y, want, dtype_bound(l->sums));
    expect_near("xent_loss totals", &totals, sums, 4 * dtype_bound(l->sums));
    OPERANDS_FREE(&y, &totals);
}

static void check_grad(struct loss *l, weft_dtype dtype)
{
    struct operand dz = operand_new(dtype, PLAIN, 3, l->z.desc.shape);

    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < l->part->count && is_class(l, i); j++) {
            int64_t at = i * l->part->count + j;
            double s = l->sp.values[i], lse = l->m.values[i] + log(s);
            double share = exp(l->z.values[at] - l->m.values[i]) / s;

            share *= together(l, i) + 2 * l->terms->z_loss * lse;
            dz.want[at] = l->g.values[i] * (share - term(l, i, l->part->first + j));
        }
    call(wf_cpu_xent_grad, &dz, 6,
         (struct operand *[]){&l->z, &l->m, &l->sp, &l->target, &l->g, weight_of(l)}, &l->scalars);
    expect_near("xent_grad", &dz, dz.want, dtype_bound(dtype));
    operand_free(&dz);
}

WT_UNIT_TIMES(xent__equals_plain_loops_for_any_columns_and_strides, PARTS)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int lie = 0; lie < LIES * TERMS; lie++) {
            struct loss l = loss_new(&parts[_i], &terms[lie / LIES], float_dtypes[d],
                                     lie % 2 ? WEFT_I32 : WEFT_I64, (enum lie)(lie % LIES));

            check_sum(&l);
            check_loss(&l);
            check_grad(&l, float_dtypes[d]);
            loss_free(&l);
        }
}

WT_UNIT(xent__large_logits_neither_overflow_nor_lose_the_loss)
{
    EACH_ISA
    {
        struct operand z = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){1, 40});
        struct operand m = operand_new(WEFT_F32, PLAIN, 1, (int64_t[]){1});
        struct operand target = operand_new(WEFT_I64, PLAIN, 1, (int64_t[]){1});
        struct operand sp = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){2, 1});

        for (int i = 0; i < 40; i++) z.values[i] = i == 7 ? 3000 : i == 8 ? -INFINITY : -3000;
        m.values[0] = 3000;
        target.values[0] = 8;
        operand_write(&z);
        operand_write(&m);
        operand_write(&target);
        call(wf_cpu_xent_sum, &sp, 4, (struct operand *[]){&z, &m, &target, NULL},
             &(struct wf_scalars){.v = {IGNORE}});
        ck_assert_double_eq(sp.values[0], 1);
        ck_assert_double_eq(sp.values[1], -INFINITY);
        OPERANDS_FREE(&z, &m, &target, &sp);
    }
}

WT_UNIT(xent__a_target_that_is_no_class_is_counted_and_its_loss_is_no_number)
{
    EACH_ISA
    {
        struct loss l = loss_new(&parts[2], &terms[3], WEFT_F32, WEFT_I64, PLAIN);
        struct operand y = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){LEAD, TOKENS});
        struct operand totals = operand_new(WEFT_F32, PLAIN, 1, (int64_t[]){3});
        struct wf_kernel_call k = {.op = "xent_loss", .n_in = 4, .n_out = 2};

        l.target.values[1] = 10;
        l.target.values[4] = -1;
        operand_write(&l.target);
        check_sum(&l);
        check_grad(&l, WEFT_F32);
        kernel_run(wf_cpu_xent_loss, &k, (struct operand *[]){&y, &totals},
                   (struct operand *[]){&l.sp, &l.m, &l.target, &l.weight}, &l.scalars);
        for (int i = 0; i < ROWS; i++) ck_assert_int_eq(isnan(y.values[i]) != 0, i == 1 || i == 4);
        ck_assert(isnan(totals.values[0]));
        ck_assert_double_eq(totals.values[2], 2);
        OPERANDS_FREE(&totals, &y);
        loss_free(&l);
    }
}

WT_UNIT(xent__of_no_rows_has_totals)
{
    struct operand sp = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){2, 0});
    struct operand m = operand_new(WEFT_F32, PLAIN, 1, (int64_t[]){0});
    struct operand target = operand_new(WEFT_I64, PLAIN, 1, (int64_t[]){0});
    struct operand y = operand_new(WEFT_F32, PLAIN, 1, (int64_t[]){0});
    struct operand totals = operand_new(WEFT_F32, PLAIN, 1, (int64_t[]){3});
    struct wf_kernel_call k = {.op = "xent_loss", .n_in = 4, .n_out = 2};

    kernel_run(wf_cpu_xent_loss, &k, (struct operand *[]){&y, &totals},
               (struct operand *[]){&sp, &m, &target, NULL},
               &(struct wf_scalars){.v = {IGNORE, 5}});
    expect_near("xent_loss totals", &totals, (double[3]){0}, 0);
    OPERANDS_FREE(&sp, &m, &target, &y, &totals);
}

/* ---- picked elements ---- */

/* Targets have two dims; their number i means a class, or one that is ignored, or another rank's.
 */
static void check_pick(weft_dtype dtype, weft_dtype index, enum lie lie, const int64_t *rows,
                       struct wf_index_range columns, bool weighted)
{
    enum { CLASSES = 150 };
    int64_t shape[] = {rows[0], rows[1], columns.size}, classes[] = {CLASSES};
    struct operand x = operand_noise(dtype, lie, 3, shape, 1), t = operand_new(index, lie, 2, rows);
    struct operand w = operand_noise(dtype, lie, 1, classes, 2),
                   d = operand_noise(dtype, lie, 2, rows, 3);
    struct operand y = operand_new(dtype, PLAIN, 2, rows),
                   weights = operand_new(dtype, PLAIN, 2, rows),
                   dx = operand_new(dtype, PLAIN, 3, shape);
    struct wf_scalars ignored = {.v = {IGNORE}};
    struct wf_kernel_call k = {.op = "nll_pick", .n_in = 3, .n_out = 2};

    x.desc.global[2] = dx.desc.global[2] = CLASSES;
    x.desc.offset[2] = dx.desc.offset[2] = columns.offset;
    for (int64_t i = 0; i < t.desc.numel; i++) {
        int64_t target = i % 5 == 3 ? IGNORE : (31 * i + 2) % CLASSES;
        int64_t column = target - columns.offset;
        double weight = weighted && target >= 0 ? w.values[target] : 1;

        t.values[i] = (double)target;
        if (target == IGNORE || column < 0 || column >= columns.size) continue;
        y.want[i] = weight * x.values[i * columns.size + column];
        weights.want[i] = weight;
        dx.want[i * columns.size + column] = weight * d.values[i];
    }
    operand_write(&t);
    kernel_run(wf_cpu_nll_pick, &k, (struct operand *[]){&y, &weights},
               (struct operand *[]){&x, &t, weighted ? &w : NULL}, &ignored);
    expect_near("nll_pick", &y, y.want, dtype_bound(dtype));
    expect_near("nll_pick's weights", &weights, weights.want, 0);
    call(wf_cpu_nll_pick, &y, 2, (struct operand *[]){&x, &t}, &ignored);
    if (!weighted) expect_near("nll_pick alone", &y, y.want, dtype_bound(dtype));
    call(wf_cpu_nll_pick_grad, &dx, 3, (struct operand *[]){&d, &t, weighted ? &w : NULL},
         &ignored);
    expect_near("nll_pick_grad", &dx, dx.want, dtype_bound(dtype));
    expect_guards(&y);
    expect_guards(&weights);
    expect_guards(&dx);
    OPERANDS_FREE(&x, &t, &w, &d, &y, &weights, &dx);
}

WT_UNIT(pick__equals_plain_loops_for_any_columns_and_strides)
{
    static const int64_t rows[][2] = {{3, 211}, {1, 1}, {40, 2}, {0, 4}};
    static const struct wf_index_range columns[] = {{0, 150}, {61, 33}, {149, 1}, {150, 0}};

    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int i = 0; i < 4 * 4 * LIES; i++)
            check_pick(float_dtypes[d], i % 3 ? WEFT_I32 : WEFT_I64, nth_lie(i / 16), rows[i % 4],
                       columns[i / 4 % 4], (i + d) % 2);
}

int main(void) { return wt_unit_main("xent"); }
