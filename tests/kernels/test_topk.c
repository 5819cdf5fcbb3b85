/* test_topk.c: the largest elements of rows against a sorted row, and the gradient that puts them
 * back. */
#include "cases.h"

enum { TOPK_DTYPES = WEFT_I64 + 1 };

static const struct topk_case {
    int64_t lead[2], n, k;
    bool labelled;
} cases[] = {
    {{2, 3}, 1, 1, false},      {{2, 3}, 7, 3, false},    {{1, 5}, 33, 33, true},
    {{3, 1}, 5, 9, true},       {{2, 2}, 0, 4, false},    {{0, 2}, 5, 2, false},
    {{1, 4}, 2000, 5, true},    {{1, 2}, 9000, 6, false}, {{2, 1}, 8200, 64, true},
    {{1, 3}, 700, 90, true},    {{1, 2}, 3000, 70, true}, {{2, 40}, 16, 2, false},
    {{1, 3}, 200, 1100, false},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The index of a row's first element where it has no labels: 0 is one that can be told from none.
 */
static int64_t first_index(const struct topk_case *c) { return (c - cases) % 2 ? 0 : 5; }

struct ranked {
    double value, label;
};

/* Larger first, what is no number before all, the smaller label first of equal ones. */
static int by_rank(const void *av, const void *bv)
{
    const struct ranked *a = av, *b = bv;

    if (isnan(a->value) != isnan(b->value)) return isnan(a->value) ? -1 : 1;
    if (!isnan(a->value) && a->value != b->value) return a->value > b->value ? -1 : 1;
    return a->label < b->label ? -1 : a->label > b->label;
}

/* Few different values, so that many are equal; labels in no order, some of them negative. */
static void fill(struct operand *x, struct operand *labels, int64_t n)
{
    operand_whole(x, 3, 9);
    for (int64_t i = 0; i < x->desc.numel; i++) {
        if (wf_dtypes[x->desc.dtype].is_float && i % 11 == 4) x->values[i] = (double)NAN;
        labels->values[i] = i % 5 == 3 ? -1 : (double)((i % n * 7 + 2) % (10 * n));
    }
    operand_write(x);
    operand_write(labels);
}

static int64_t sort_row(const struct topk_case *c, const struct operand *x,
                        const struct operand *labels, int64_t row, struct ranked *sorted)
{
    int64_t have = 0, n = c->n;

    for (int64_t j = 0; j < n; j++) {
        double label = labels ? labels->values[row * n + j] : (double)(first_index(c) + j);

        if (label >= 0) sorted[have++] = (struct ranked){x->values[row * n + j], label};
    }
    qsort(sorted, (size_t)have, sizeof *sorted, by_rank);
    return have;
}

static double lowest(weft_dtype dtype)
{
    return dtype == WEFT_I32   ? INT32_MIN
           : dtype == WEFT_I64 ? (double)INT64_MIN
                               : -(double)INFINITY;
}

static void expect_row(const struct topk_case *c, int64_t row, int64_t have,
                       const struct ranked *sorted, const struct operand *values,
                       const struct operand *indices)
{
    for (int64_t i = 0; i < c->k; i++) {
        double value = values->values[row * c->k + i], index = indices->values[row * c->k + i];
        double want = i < have ? sorted[i].value : lowest((weft_dtype)values->desc.dtype);
        double label = i < have ? sorted[i].label : -1;

        if (index == label && (value == want || (isnan(value) && isnan(want)))) continue;
        ck_abort_msg("n %d k %d %s: row %d has %g (%g) at %d, not %g (%g)", (int)c->n, (int)c->k,
                     wf_dtypes[values->desc.dtype].name, (int)row, value, index, (int)i, want,
                     label);
    }
}

static void check(const struct topk_case *c, weft_dtype dtype, enum lie lie)
{
    int64_t from[] = {c->lead[0], c->lead[1], c->n}, to[] = {c->lead[0], c->lead[1], c->k};
    struct operand x = operand_new(dtype, lie, 3, from),
                   labels = operand_new(WEFT_I64, lie, 3, from);
    struct operand values = operand_new(dtype, PLAIN, 3, to);
    struct operand indices = operand_new(WEFT_I64, PLAIN, 3, to);
    struct ranked *sorted = malloc((size_t)(c->n + 1) * sizeof *sorted);
    struct wf_kernel_call k = {.op = "topk",
                               .n_in = 2,
                               .n_out = 2,
                               .attrs = &(union wf_op_attrs){.topk = {.k = c->k, .fewer = true}}};

    fill(&x, &labels, c->n);
    kernel_run(wf_cpu_topk, &k, (struct operand *[]){&values, &indices},
               (struct operand *[]){&x, c->labelled ? &labels : NULL},
               &(struct wf_scalars){.v = {first_index(c)}});
    for (int64_t row = 0; row < c->lead[0] * c->lead[1]; row++) {
        int64_t have = sort_row(c, &x, c->labelled ? &labels : NULL, row, sorted);

        expect_row(c, row, have, sorted, &values, &indices);
    }
    expect_guards(&values);
    expect_guards(&indices);
    operand_free(&x);
    operand_free(&labels);
    operand_free(&values);
    operand_free(&indices);
    free(sorted);
}

WT_UNIT_TIMES(topk__equals_a_sorted_row, CASES)
{
    EACH_ISA
    for (int t = 0; t < TOPK_DTYPES; t++)
        for (int lie = 0; lie < LIES; lie++) check(&cases[_i], (weft_dtype)t, (enum lie)lie);
}

/* Rows of ten elements, of which this rank has some; indices outside them and negative ones too. */
static void check_grad(weft_dtype dtype, enum lie lie, int64_t first, int64_t n)
{
    int64_t from[] = {4, 3}, to[] = {4, n};
    struct operand d = operand_new(dtype, lie, 2, from),
                   indices = operand_new(WEFT_I64, lie, 2, from);
    struct operand dx = operand_new(dtype, PLAIN, 2, to);
    struct wf_kernel_call k = {.op = "topk_grad", .n_in = 2, .n_out = 1};
    double want[40] = {0};

    operand_whole(&d, 5, 20);
    for (int64_t i = 0; i < 12; i++) {
        int64_t index = i == 5 ? -1 : (i * 4 + i / 3) % 10, at = index - first;

        indices.values[i] = (double)index;
        if (at >= 0 && at < n) want[i / 3 * n + at] = d.values[i];
    }
    operand_write(&indices);
    dx.desc.global[1] = 10;
    dx.desc.offset[1] = first;
    kernel_run(wf_cpu_topk_grad, &k, (struct operand *[]){&dx}, (struct operand *[]){&d, &indices},
               NULL);
    expect_near("topk_grad", &dx, want, 0);
    expect_guards(&dx);
    operand_free(&d);
    operand_free(&indices);
    operand_free(&dx);
}

WT_UNIT(topk_grad__puts_elements_where_they_were)
{
    for (int t = 0; t < TOPK_DTYPES; t++)
        for (int lie = 0; lie < LIES; lie++) {
            check_grad((weft_dtype)t, (enum lie)lie, 0, 10);
            check_grad((weft_dtype)t, (enum lie)lie, 4, 3);
            check_grad((weft_dtype)t, (enum lie)lie, 10, 0);
        }
}

WT_UNIT(topk__refuses_what_it_lacks)
{
    static const int64_t shape[] = {4};
    struct operand x = operand_new(WEFT_BOOL, PLAIN, 1, shape);
    struct wf_kernel_call k = {
        .op = "topk", .n_in = 1, .n_out = 1, .in = {&x.desc}, .out = {&x.desc}};

    ck_assert_int_eq(wf_cpu_topk(&k), WEFT_ERR_DTYPE);
    weft_error_clear();
    operand_free(&x);
}

int main(void) { return wt_unit_main("topk"); }
