/* test_embedding.c: rows by index from any box of the table, and the gradient that adds them back.
 */
#include <setjmp.h>

#include "operands.h"

#include "base/error.h"

enum { ROWS = 9, COLS = 7, TOKENS = 12 };

/* Which rows and columns of a ROWS x COLS table a rank holds. */
static const struct box {
    int64_t row, rows, col, cols;
} boxes[] = {{0, 9, 0, 7}, {0, 5, 0, 7}, {5, 4, 0, 7}, {9, 0, 0, 7}, {0, 9, 3, 4}, {2, 3, 7, 0}};
enum { BOXES = sizeof boxes / sizeof *boxes };

static const union wf_op_attrs all_rows = {.embedding_grad = {.rows = ROWS, .padding_row = -1}};

static void set_box(struct wf_tensor_desc *d, const struct box *b)
{
    d->global[0] = ROWS;
    d->global[1] = COLS;
    d->offset[0] = b->row;
    d->offset[1] = b->col;
}

static struct operand indices(weft_dtype dtype, enum lie lie)
{
    struct operand index = operand_new(dtype, lie, 2, (int64_t[]){3, TOKENS / 3});

    for (int64_t i = 0; i < TOKENS; i++)
        index.values[i] = (double)(i * i * 5 % ROWS); /* some rows twice, some never */
    operand_write(&index);
    return index;
}

static void check_lookup(const struct box *b, weft_dtype dtype, weft_dtype index_dtype,
                         enum lie lie)
{
    struct operand table = operand_noise(dtype, lie, 2, (int64_t[]){b->rows, b->cols}, 1);
    struct operand index = indices(index_dtype, lie);
    struct operand y = operand_new(dtype, PLAIN, 3, (int64_t[]){3, TOKENS / 3, b->cols});
    double want[TOKENS * COLS] = {0};

    set_box(&table.desc, b);
    for (int64_t i = 0; i < TOKENS; i++) {
        int64_t row = (int64_t)index.values[i] - b->row;

        for (int64_t j = 0; j < b->cols && row >= 0 && row < b->rows; j++)
            want[i * b->cols + j] = table.values[row * b->cols + j];
    }
    call(wf_cpu_embedding, &y, 2, (struct operand *[]){&table, &index}, NULL);
    expect_near("embedding", &y, want, 0);
    OPERANDS_FREE(&table, &index, &y);
}

WT_UNIT_TIMES(embedding__takes_rows_of_its_box_and_zeros_elsewhere, BOXES)
{
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int lie = 0; lie < LIES; lie++) {
            check_lookup(&boxes[_i], float_dtypes[d], WEFT_I32, (enum lie)lie);
            check_lookup(&boxes[_i], float_dtypes[d], WEFT_I64, (enum lie)lie);
        }
}

static void check_grad(const struct box *b, weft_dtype dtype, weft_dtype index_dtype, enum lie lie)
{
    struct operand d = operand_noise(dtype, lie, 3, (int64_t[]){3, TOKENS / 3, b->cols}, 2);
    struct operand index = indices(index_dtype, lie);
    struct operand table = operand_new(dtype, PLAIN, 2, (int64_t[]){b->rows, b->cols});
    double want[ROWS * COLS] = {0};

    set_box(&table.desc, b);
    for (int64_t i = 0; i < TOKENS; i++) {
        int64_t row = (int64_t)index.values[i] - b->row;

        for (int64_t j = 0; j < b->cols && row >= 0 && row < b->rows; j++)
            want[row * b->cols + j] += d.values[i * b->cols + j];
    }
    call_with(wf_cpu_embedding_grad, &all_rows, &table, 2, (struct operand *[]){&d, &index}, NULL);
    expect_near("embedding_grad", &table, want, dtype_bound(dtype));
    OPERANDS_FREE(&table, &index, &d);
}

WT_UNIT_TIMES(embedding_grad__adds_the_rows_of_its_box_and_zeros_the_rest, BOXES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int lie = 0; lie < LIES; lie++) {
            check_grad(&boxes[_i], float_dtypes[d], WEFT_I32, (enum lie)lie);
            check_grad(&boxes[_i], float_dtypes[d], WEFT_I64, (enum lie)lie);
        }
}

/* 257 times 1 + 2^-7 (exact in bf16): the sum exists only if partial sums keep more than 8 bits. */
WT_UNIT(embedding_grad__sums_bf16_in_f32)
{
    struct operand d = operand_new(WEFT_BF16, PLAIN, 2, (int64_t[]){257, 1});
    struct operand index = operand_new(WEFT_I64, PLAIN, 1, (int64_t[]){257});
    struct operand table = operand_new(WEFT_BF16, PLAIN, 2, (int64_t[]){2, 1});

    for (int64_t i = 0; i < 257; i++) {
        d.values[i] = 1 + 1.0 / 128;
        index.values[i] = 1;
    }
    operand_write(&d);
    operand_write(&index);
    call_with(wf_cpu_embedding_grad, &all_rows, &table, 2, (struct operand *[]){&d, &index}, NULL);
    expect_near("embedding_grad", &table, (double[]){0, 257 * (1 + 1.0 / 128)}, 1.0 / 256);
    OPERANDS_FREE(&table, &index, &d);
}

/* More tokens than a block of a GPU keeps the rows of. */
WT_UNIT(embedding_grad__of_many_tokens)
{
    enum { MANY = 9000, WIDE = 2 };
    struct operand d = operand_noise(WEFT_F32, PLAIN, 2, (int64_t[]){MANY, WIDE}, 2);
    struct operand index = operand_new(WEFT_I32, PLAIN, 1, (int64_t[]){MANY});
    struct operand table = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){ROWS, WIDE});
    double want[ROWS * WIDE] = {0};

    for (int64_t i = 0; i < MANY; i++) index.values[i] = (double)(i * i / 7 % ROWS);
    operand_write(&index);
    for (int64_t n = 0; n < MANY * WIDE; n++)
        want[(int64_t)index.values[n / WIDE] * WIDE + n % WIDE] += d.values[n];
    call_with(wf_cpu_embedding_grad, &all_rows, &table, 2, (struct operand *[]){&d, &index}, NULL);
    expect_near("embedding_grad", &table, want, 1e-4);
    OPERANDS_FREE(&table, &index, &d);
}

/* A table per item, many tokens of few rows, and a row that takes nothing. */
static void check_batch(weft_dtype dtype, int64_t padding)
{
    enum { ITEMS = 2, LONG = 700, FEW = 3, WIDE = 72 };
    int64_t shape[] = {ITEMS, FEW, WIDE};
    struct operand table = operand_noise(dtype, PLAIN, 3, shape, 1);
    struct operand index = operand_new(WEFT_I32, PLAIN, 2, (int64_t[]){ITEMS, LONG});
    struct operand y = operand_new(dtype, PLAIN, 3, (int64_t[]){ITEMS, LONG, WIDE});
    struct operand d = operand_noise(dtype, PLAIN, 3, (int64_t[]){ITEMS, LONG, WIDE}, 3);
    struct operand dtable = operand_new(dtype, PLAIN, 3, shape);
    const union wf_op_attrs attrs = {.embedding_grad = {.rows = FEW, .padding_row = padding}};
    struct wf_kernel_call k = {.op = "embedding", .n_in = 2, .n_out = 1};
    struct wf_kernel_call grad = {.op = "embedding_grad", .n_in = 2, .n_out = 1, .attrs = &attrs};
    double *rows = calloc(ITEMS * LONG * WIDE, sizeof *rows), sums[ITEMS * FEW * WIDE] = {0};

    for (int64_t i = 0; i < ITEMS * LONG; i++) index.values[i] = (double)(i * i % 7 % FEW);
    operand_write(&index);
    for (int64_t n = 0; n < ITEMS * LONG * WIDE; n++) {
        int64_t i = n / WIDE, row = (int64_t)index.values[i];
        int64_t at = (i / LONG * FEW + row) * WIDE + n % WIDE;

        rows[n] = table.values[at];
        if (row != padding) sums[at] += d.values[n];
    }
    kernel_run(wf_cpu_embedding, &k, (struct operand *[]){&y}, (struct operand *[]){&table, &index},
               NULL);
    expect_near("embedding", &y, rows, 0);
    kernel_run(wf_cpu_embedding_grad, &grad, (struct operand *[]){&dtable},
               (struct operand *[]){&d, &index}, NULL);
    expect_near("embedding_grad", &dtable, sums, dtype_bound(dtype));
    for (int i = 0; i < 5; i++)
        operand_free((struct operand *[]){&table, &index, &y, &d, &dtable}[i]);
    free(rows);
}

WT_UNIT(embedding__with_a_table_per_item)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int64_t padding = -1; padding < 2; padding += 2) check_batch(float_dtypes[d], padding);
}

static jmp_buf died;
static void jump(void) { longjmp(died, 1); }

static bool dies(int64_t bad, const struct box *b)
{
    struct operand table = operand_noise(WEFT_F32, PLAIN, 2, (int64_t[]){b->rows, b->cols}, 1);
    struct operand index = operand_new(WEFT_I64, PLAIN, 1, (int64_t[]){1});
    struct operand y = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){1, b->cols});
    struct wf_kernel_call k = {.op = "embedding", .n_in = 2, .n_out = 1};
    volatile bool dead = false;

    set_box(&table.desc, b);
    index.values[0] = (double)bad;
    operand_write(&index);
    k.in[0] = &table.desc, k.in[1] = &index.desc, k.out[0] = &y.desc;
    ck_assert_int_eq(wf_cpu_embedding(&k), WEFT_OK);
    wf_die_set_handler(jump);
    if (setjmp(died) == 0)
        k.run(&k, (void *[]){y.data}, (const void *[]){table.data, index.data}, NULL);
    else
        dead = true;
    wf_die_set_handler(NULL);
    wf_kernel_call_drop(&k);
    OPERANDS_FREE(&table, &index, &y);
    return dead;
}

WT_UNIT(embedding__an_index_outside_the_global_table_is_fatal)
{
    ck_assert(dies(ROWS, &boxes[0]));
    ck_assert(dies(-1, &boxes[0]));
    ck_assert(dies(ROWS, &boxes[1]));
    ck_assert(!dies(ROWS - 1, &boxes[1])); /* another rank's row */
}

int main(void) { return wt_unit_main("embedding"); }
