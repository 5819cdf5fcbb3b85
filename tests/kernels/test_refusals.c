/* test_refusals.c: dtypes that kernels do not have are refused when a call is prepared. */
#include "operands.h"

static const struct {
    const char *name;
    wf_kernel_prepare *prepare;
    weft_dtype out;
    int n_in;
    weft_dtype in[2];
} cases[] = {
    {"exp of integers", wf_cpu_exp, WEFT_I32, 1, {WEFT_I32}},
    {"add of mixed dtypes", wf_cpu_add, WEFT_F32, 2, {WEFT_F32, WEFT_F64}},
    {"add of both kinds of 16 bits", wf_cpu_add, WEFT_F16, 2, {WEFT_BF16, WEFT_F16}},
    {"sum of bool", wf_cpu_sum, WEFT_BOOL, 1, {WEFT_BOOL}},
    {"matmul of bytes", wf_cpu_matmul, WEFT_U8, 2, {WEFT_U8, WEFT_U8}},
    {"matmul of integers of two sizes", wf_cpu_matmul, WEFT_I64, 2, {WEFT_I32, WEFT_I64}},
    {"conv of integers", wf_cpu_conv, WEFT_I32, 2, {WEFT_I32, WEFT_I32}},
    {"resample of integers", wf_cpu_resample, WEFT_I32, 1, {WEFT_I32}},
    {"max_pool of integers", wf_cpu_max_pool, WEFT_I32, 1, {WEFT_I32}},
    {"matmul of integers to f32", wf_cpu_matmul, WEFT_F32, 2, {WEFT_I32, WEFT_I32}},
    {"uniform integers", wf_cpu_uniform, WEFT_I64, 0, {0}},
    {"embedding by f32", wf_cpu_embedding, WEFT_F32, 2, {WEFT_F32, WEFT_F32}},
};

WT_UNIT_TIMES(kernels__refuse_dtypes_that_they_do_not_have, sizeof cases / sizeof *cases)
{
    static const int64_t shape[] = {2, 2};
    struct operand y = operand_new(cases[_i].out, PLAIN, 2, shape);
    struct operand a = operand_new(cases[_i].in[0], PLAIN, 2, shape);
    struct operand b = operand_new(cases[_i].in[1], PLAIN, 2, shape);
    struct wf_kernel_call k = {.op = cases[_i].name,
                               .n_in = cases[_i].n_in,
                               .n_out = 1,
                               .in = {&a.desc, &b.desc},
                               .out = {&y.desc}};
    weft_status status = cases[_i].prepare(&k);

    ck_assert_msg(status == WEFT_ERR_DTYPE, "%s: status %d", cases[_i].name, status);
    ck_assert_msg(weft_error_message()[0] && !k.prep, "%s", cases[_i].name);
    weft_error_clear();
    OPERANDS_FREE(&y, &a, &b);
}

int main(void) { return wt_unit_main("refusals"); }
