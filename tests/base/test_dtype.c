/* test_dtype.c: what is said of dtypes, and of numbers that are none. */
#include <string.h>

#include <weft/dtype.h>

#include "base/elements/dtype.h"
#include "support/mpi_check.h"

WT_UNIT(dtype__each_has_a_name_and_a_size)
{
    static const char *const names[] = {
        [WEFT_F32] = "f32", [WEFT_F64] = "f64", [WEFT_BF16] = "bf16", [WEFT_F16] = "f16",
        [WEFT_I32] = "i32", [WEFT_I64] = "i64", [WEFT_U8] = "u8",     [WEFT_BOOL] = "bool",
        [WEFT_I16] = "i16", [WEFT_I8] = "i8",   [WEFT_C64] = "c64"};
    static const size_t sizes[] = {[WEFT_F32] = 4, [WEFT_F64] = 8, [WEFT_BF16] = 2, [WEFT_F16] = 2,
                                   [WEFT_I32] = 4, [WEFT_I64] = 8, [WEFT_U8] = 1,   [WEFT_BOOL] = 1,
                                   [WEFT_I16] = 2, [WEFT_I8] = 1,  [WEFT_C64] = 8};

    ck_assert_int_eq(sizeof names / sizeof *names, WEFT_DTYPE_COUNT);
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        ck_assert_str_eq(weft_dtype_name((weft_dtype)i), names[i]);
        ck_assert_uint_eq(weft_dtype_size((weft_dtype)i), sizes[i]);
    }
}

WT_UNIT(dtype__floats_come_first)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        ck_assert_int_eq(weft_dtype_is_float((weft_dtype)i), i < WF_FLOAT_DTYPES);
        ck_assert_int_eq(wf_dtype_is_float((unsigned)i), i < WF_FLOAT_DTYPES);
        ck_assert_int_eq(wf_dtype_is_16_bit_float((unsigned)i),
                         i < WF_FLOAT_DTYPES && weft_dtype_size((weft_dtype)i) == 2);
    }
}

WT_UNIT(dtype__says_which_reductions_it_has)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++)
        for (int r = 0; r < WEFT_REDUCE_COUNT; r++) {
            bool want = i != WEFT_U8 && i != WEFT_BOOL;

            if (r == WEFT_NORM) want = i < WF_FLOAT_DTYPES;
            if (i == WEFT_C64) want = r == WEFT_SUM || r == WEFT_MASKED;
            ck_assert_int_eq(wf_dtype_can_reduce((unsigned)i, (weft_reduce)r), want);
        }
}

WT_UNIT(dtype__a_number_that_is_none_has_no_size)
{
    static const int numbers[] = {WEFT_DTYPE_COUNT, WEFT_DTYPE_COUNT + 1, -1};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *name = weft_dtype_name((weft_dtype)numbers[i]);

        ck_assert_uint_eq(weft_dtype_size((weft_dtype)numbers[i]), 0);
        for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++)
            ck_assert_str_ne(name, weft_dtype_name((weft_dtype)dtype));
    }
}

int main(void) { return wt_unit_main("dtype"); }
