/*
 * test_grouped_mm.c: runs of rows, each times a matrix of its own, and the matrices' gradients,
 * against loops over all indices: all rows or a rank's, groups that are empty, one row, several
 * tiles of a GPU's kernel, and more groups than a warp has lanes.
 */
#include <setjmp.h>

#include "base/error.h"
#include "cases.h"

enum { MOST_GROUPS = 70 };

/* [rows of the whole, K] by [groups, K, N]. */
static const struct grouped_case {
    int64_t all_rows, k, n, groups, ends[MOST_GROUPS];
    int64_t first, rows; /* this rank's */
} cases[] = {
    {24, 6, 10, 4, {3, 3, 9, 20}, 0, 24},
    {24, 6, 10, 4, {3, 3, 9, 20}, 2, 9},
    {24, 6, 10, 4, {3, 3, 9, 20}, 24, 0},
    {24, 6, 10, 4, {3, 3, 9, 20}, 21, 3}, /* all behind the last end */
    {24, 6, 10, 4, {24, 24, 24, 24}, 0, 24},
    {24, 6, 10, 4, {0}, 0, 24},
    {1, 1, 1, 1, {1}, 0, 1},
    {5, 0, 3, 2, {2, 5}, 0, 5},
    {5, 3, 0, 2, {2, 5}, 0, 5},
    {5, 3, 4, 0, {0}, 0, 5},
    {0, 3, 4, 2, {0}, 0, 0},
    {130, 33, 70, 3, {1, 66, 129}, 0, 130},    /* tiles of 64, none of them whole */
    {300, 40, 136, 3, {64, 64, 257}, 0, 300},  /* 16-byte packs; a whole tile, and one more row */
    {300, 40, 136, 3, {64, 64, 257}, 63, 200}, /* begins inside a group */
    {200, 129, 65, 2, {7, 199}, 0, 200},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct grouped_case many_groups(int64_t groups, int64_t all_rows)
{
    struct grouped_case c = {all_rows, 16, 24, groups, {0}, 0, all_rows};

    for (int64_t g = 0; g < groups; g++) c.ends[g] = g * g * all_rows / (groups * groups);
    return c;
}

static void loops(const struct grouped_case *c, const struct operand *x, const struct operand *w,
                  const struct operand *d, double *y, double *dw)
{
    for (int64_t row = 0; row < c->rows; row++) {
        int64_t g = 0;

        while (g < c->groups && c->first + row >= c->ends[g]) g++;
        if (g == c->groups) break;
        for (int64_t l = 0; l < c->k; l++)
            for (int64_t j = 0; j < c->n; j++) {
                int64_t of_matrix = (g * c->k + l) * c->n + j;

                y[row * c->n + j] += x->values[row * c->k + l] * w->values[of_matrix];
                dw[of_matrix] += x->values[row * c->k + l] * d->values[row * c->n + j];
            }
    }
}

static void set_box(const struct grouped_case *c, struct operand *rows)
{
    rows->desc.global[0] = c->all_rows;
    rows->desc.offset[0] = c->first;
}

static struct operand ends_new(const struct grouped_case *c, weft_dtype dtype, enum lie lie)
{
    struct operand e = operand_new(dtype, lie, 1, &c->groups);

    for (int64_t g = 0; g < c->groups; g++) e.values[g] = (double)c->ends[g];
    operand_write(&e);
    return e;
}

static void check(const struct grouped_case *c, weft_dtype dtype, enum lie lie, enum lie lie_of_w)
{
    int64_t shapes[][3] = {{c->rows, c->k}, {c->groups, c->k, c->n}, {c->rows, c->n}};
    struct operand x = operand_noise(dtype, lie, 2, shapes[0], 1),
                   w = operand_noise(dtype, lie_of_w, 3, shapes[1], 2);
    struct operand d = operand_noise(dtype, lie, 2, shapes[2], 3),
                   e = ends_new(c, lie % 2 ? WEFT_I32 : WEFT_I64, lie);
    struct operand y = operand_new(dtype, PLAIN, 2, shapes[2]),
                   dw = operand_new(dtype, PLAIN, 3, shapes[1]);
    /* Sums of f32 of k terms lose about sqrt(k) of their last bits. */
    double terms = dtype == WEFT_F32 ? 1 + (double)(c->k + c->rows) / 100 : 1;

    set_box(c, &x);
    set_box(c, &d);
    set_box(c, &y);
    loops(c, &x, &w, &d, y.want, dw.want);
    call(wf_cpu_grouped_mm, &y, 3, (struct operand *[]){&x, &w, &e}, NULL);
    expect_near("grouped_mm", &y, y.want, 2 * terms * dtype_bound(dtype));
    call(wf_cpu_grouped_mm_dw, &dw, 3, (struct operand *[]){&x, &d, &e}, NULL);
    expect_near("grouped_mm_dw", &dw, dw.want, 4 * terms * dtype_bound(dtype));
    expect_guards(&y);
    expect_guards(&dw);
    OPERANDS_FREE(&x, &w, &d, &e, &y, &dw);
}

/* Rows of any lie by matrices of any lie where they are small. */
WT_UNIT_TIMES(grouped__equals_loops, CASES)
{
    const struct grouped_case *c = &cases[_i];
    bool small = c->all_rows * c->k * c->n < 10000;

    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int lies = 0; lies < LIES * LIES; lies += small ? 1 : LIES + 1)
            check(c, float_dtypes[t], (enum lie)(lies % LIES), (enum lie)(lies / LIES));
}

/* More than a warp looks at once; enough tiles that a GPU's kernel takes large ones, of matrices
 * and of rows. */
WT_UNIT(grouped__of_many_groups_and_rows)
{
    struct grouped_case many[] = {many_groups(33, 200), many_groups(MOST_GROUPS, 90),
                                  many_groups(MOST_GROUPS, 300), many_groups(3, 16700),
                                  many_groups(2, 8500)};

    many[2].k = 130;
    many[2].n = 9;
    many[3].k = 5;
    many[3].n = 9;
    many[4].n = 136;
    many[4].ends[1] = 8200;
    for (int i = 0; i < 5; i++)
        for (int t = 0; t < FLOAT_DTYPES; t++)
            for (int lie = 0; lie < (i < 4 ? LIES : 1); lie++)
                check(&many[i], float_dtypes[t], (enum lie)lie, (enum lie)((lie + t) % LIES));
}

/* ---- wrong ends ---- */

static jmp_buf died;
static void jump(void) { longjmp(died, 1); }

static bool dies(const struct grouped_case *c, wf_kernel_prepare *prepare, bool of_rows)
{
    int64_t shapes[][3] = {{c->rows, c->k}, {c->groups, c->k, c->n}, {c->rows, c->n}};
    struct operand x = operand_noise(WEFT_F32, PLAIN, 2, shapes[0], 1);
    struct operand b = operand_noise(WEFT_F32, PLAIN, of_rows ? 3 : 2, shapes[of_rows ? 1 : 2], 2);
    struct operand y = operand_new(WEFT_F32, PLAIN, of_rows ? 2 : 3, shapes[of_rows ? 2 : 1]);
    struct operand e = ends_new(c, WEFT_I64, PLAIN);
    struct wf_kernel_call k = {.op = "grouped_mm", .n_in = 3, .n_out = 1};
    volatile bool dead = false;

    set_box(c, &x);
    k.in[0] = &x.desc, k.in[1] = &b.desc, k.in[2] = &e.desc, k.out[0] = &y.desc;
    ck_assert_int_eq(prepare(&k), WEFT_OK);
    wf_die_set_handler(jump);
    if (setjmp(died) == 0)
        k.run(&k, (void *[]){y.data}, (const void *[]){x.data, b.data, e.data}, NULL);
    else
        dead = true;
    wf_die_set_handler(NULL);
    wf_kernel_call_drop(&k);
    expect_guards(&y);
    OPERANDS_FREE(&x, &b, &e, &y);
    return dead;
}

static bool both_die(const struct grouped_case *c)
{
    bool dead = dies(c, wf_cpu_grouped_mm, true);

    ck_assert(dies(c, wf_cpu_grouped_mm_dw, false) == dead);
    return dead;
}

WT_UNIT(grouped__ends_that_fall_or_lie_behind_the_last_row_are_fatal)
{
    struct grouped_case c = cases[1], many = many_groups(MOST_GROUPS, 90);

    ck_assert(!both_die(&c)); /* ends that other ranks' rows have */
    c.ends[1] = 2;
    ck_assert(both_die(&c));
    c.ends[1] = 3;
    c.ends[0] = -1;
    ck_assert(both_die(&c));
    c.ends[0] = 0;
    c.ends[3] = 25;
    ck_assert(both_die(&c));
    ck_assert(!both_die(&many));
    many.ends[40] = 1000;
    ck_assert(both_die(&many));
    many.ends[40] = many.ends[41];
    many.ends[64] = many.ends[63] - 1;
    ck_assert(both_die(&many));
}

int main(void) { return wt_unit_main("grouped_mm"); }
