/* test_reduce.c: sum and max over every set of dims against plain loops. */
#include "cases.h"

static const struct sizes reduce_shapes[] = {
    {0, {0}},       {1, {0}},          {1, {1}},       {1, {5000}},   {2, {8, 8}},
    {2, {0, 4}},    {2, {3, 0}},       {2, {70, 300}}, {2, {300, 3}}, {3, {4, 5, 33}},
    {3, {2, 1, 6}}, {4, {2, 3, 4, 5}}, {2, {130, 33}},
};
enum { REDUCE_SHAPES = sizeof reduce_shapes / sizeof *reduce_shapes };

/* Shape of the result with reduced dims as 1, and the number in it that element i goes to. */
static void result_shape(const struct wf_tensor_desc *x, int64_t mask, int64_t *shape)
{
    for (int d = 0; d < x->ndim; d++) shape[d] = mask >> d & 1 ? 1 : x->shape[d];
}

static void check(bool max, weft_dtype dtype, enum lie lie, const struct sizes *s, int64_t mask)
{
    struct operand x = operand_new(dtype, lie, s->ndim, s->n), y;
    struct wf_scalars scalars = {.s = {wf_dtypes[dtype].is_float && !max ? 0.125 : 1}};
    int64_t shape[WEFT_MAX_DIMS] = {0};

    operand_whole(&x, 5, 60);
    result_shape(&x.desc, mask, shape);
    y = operand_new(dtype, PLAIN, s->ndim, shape);
    for (int64_t i = 0; i < y.desc.numel && max; i++)
        y.want[i] = dtype == WEFT_I32   ? INT32_MIN
                    : dtype == WEFT_I64 ? (double)INT64_MIN
                                        : -INFINITY;
    for (int64_t i = 0; i < x.desc.numel; i++) {
        double *to = &y.want[broadcast_number(&y.desc, &x.desc, i)];

        *to = max ? fmax(*to, x.values[i]) : *to + x.values[i] * scalars.s[0];
    }
    call_with(max ? wf_cpu_max : wf_cpu_sum,
              &(union wf_op_attrs){.reduce = {.dims = (uint32_t)mask}}, &y, 1,
              (struct operand *[]){&x}, &scalars);
    for (int64_t i = 0; i < y.desc.numel; i++)
        if (isinf(y.want[i]) && y.values[i] == y.want[i]) y.values[i] = y.want[i] = 0;
    expect_near(max ? "max" : "sum", &y, y.want, wf_dtype_is_16_bit_float(dtype) ? 5e-3 : 0);
    expect_guards(&y);
    OPERANDS_FREE(&x, &y);
}

WT_UNIT(reductions__equal_plain_loops)
{
    EACH_ISA
    for (int t = WEFT_F32; t <= WEFT_I64; t++)
        for (int i = 0; i < REDUCE_SHAPES; i++) {
            const struct sizes *s = &reduce_shapes[i];

            for (int64_t mask = 0; mask < 1 << s->ndim; mask++) {
                check(false, (weft_dtype)t, nth_lie(i + t + (int)mask), s, mask);
                check(true, (weft_dtype)t, nth_lie(i + t + (int)mask + 1), s, mask);
            }
        }
}

WT_UNIT(sum__of_floats_keeps_its_bits)
{
    static const int64_t shape[] = {1 << 16, 3};
    struct wf_scalars scalars = {.s = {1}};

    EACH_ISA
    for (int64_t mask = 1; mask < 4; mask += 2) {
        struct operand x = operand_noise(WEFT_F32, PLAIN, 2, shape, 9), y;
        int64_t to[] = {1, mask & 2 ? 1 : 3};
        double want[3] = {0};

        for (int64_t i = 0; i < x.desc.numel; i++) x.values[i] += 1;
        operand_write(&x);
        for (int64_t i = 0; i < x.desc.numel; i++) want[mask & 2 ? 0 : i % 3] += x.values[i];
        y = operand_new(WEFT_F32, PLAIN, 2, to);
        call_with(wf_cpu_sum, &(union wf_op_attrs){.reduce = {.dims = (uint32_t)mask}}, &y, 1,
                  (struct operand *[]){&x}, &scalars);
        expect_near("long sum", &y, want, 3e-7);
        OPERANDS_FREE(&x, &y);
    }
}

WT_UNIT(max__passes_nan_on)
{
    static const int64_t shape[] = {2, 100};
    struct wf_scalars scalars = {.s = {1}};

    EACH_ISA
    for (int at = 0; at < 100; at++)
        for (int64_t mask = 1; mask < 3; mask++) {
            struct operand x = operand_noise(WEFT_F32, PLAIN, 2, shape, 9), y;
            int64_t to[] = {mask & 1 ? 1 : 2, mask & 2 ? 1 : 100};

            x.values[at] = NAN;
            operand_write(&x);
            y = operand_new(WEFT_F32, PLAIN, 2, to);
            call_with(wf_cpu_max, &(union wf_op_attrs){.reduce = {.dims = (uint32_t)mask}}, &y, 1,
                      (struct operand *[]){&x}, &scalars);
            ck_assert(isnan(y.values[mask & 1 ? at : 0]));
            ck_assert(!isnan(y.values[mask & 1 ? (at + 1) % 100 : 1]));
            OPERANDS_FREE(&x, &y);
        }
}

/* Along rows and columns, of more elements than a vector has. */
WT_UNIT(count__sees_zeros_of_either_sign_alone)
{
    static const double values[] = {0, -0.0, 1e-40, -1e-40, NAN, INFINITY, -1};
    static const int64_t shape[] = {70, 70};
    struct wf_scalars scalars = {.s = {1}};

    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (uint32_t dims = 1; dims <= 2; dims++) {
            struct operand x = operand_new(float_dtypes[t], PLAIN, 2, shape);
            struct operand y = operand_new(WEFT_I64, PLAIN, 2,
                                           (int64_t[]){dims == 1 ? 1 : 70, dims == 1 ? 70 : 1});
            double want[70] = {0};

            for (int i = 0; i < 70 * 70; i++) x.values[i] = values[(i / 70 + i % 70) % 7];
            operand_write(&x);
            operand_read(&x); /* 1e-40 may be 0 in the dtype */
            for (int i = 0; i < 70 * 70; i++) want[dims == 1 ? i % 70 : i / 70] += x.values[i] != 0;
            call_with(wf_cpu_count_nonzero, &(union wf_op_attrs){.reduce = {.dims = dims}}, &y, 1,
                      (struct operand *[]){&x}, &scalars);
            expect_near("count", &y, want, 0);
            OPERANDS_FREE(&x, &y);
        }
}

int main(void) { return wt_unit_main("reduce"); }
