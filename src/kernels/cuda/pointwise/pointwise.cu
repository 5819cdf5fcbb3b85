/*
 * pointwise.cu: prepare functions of the kernels in pointwise.def. The formulas are compiled in
 * pointwise_DTYPE.cu.
 */
#include "kernels/cuda/pointwise/pointwise.h"

static const struct wf_cuda_pointwise *const tables[WEFT_DTYPE_COUNT] = {
    &wf_cuda_pointwise_f32, &wf_cuda_pointwise_f64, &wf_cuda_pointwise_bf16, &wf_cuda_pointwise_f16,
    &wf_cuda_pointwise_i32, &wf_cuda_pointwise_i64, &wf_cuda_pointwise_u8,   &wf_cuda_pointwise_u8,
    &wf_cuda_pointwise_i16, &wf_cuda_pointwise_i8};

static_assert(WEFT_F32 == 0 && WEFT_F64 == 1 && WEFT_BF16 == 2 && WEFT_F16 == 3 && WEFT_I32 == 4 &&
                  WEFT_I64 == 5 && WEFT_U8 == 6 && WEFT_BOOL == 7 && WEFT_I16 == 8 && WEFT_I8 == 9,
              "tables has the order of weft_dtype");

/* One of the kernels of a table. */
typedef wf_kernel_run *wf_cuda_pointwise::*kernel_member;

/* Of bool a sum is "or" and a product "and": bytes of 0 and 1. Others have no kernel: NULL. */
static kernel_member bool_kernel(kernel_member kernel)
{
    if (kernel == &wf_cuda_pointwise::add) return &wf_cuda_pointwise::maximum;
    return kernel == &wf_cuda_pointwise::mul || kernel == &wf_cuda_pointwise::maximum ||
                   kernel == &wf_cuda_pointwise::minimum
               ? kernel
               : NULL;
}

static weft_status prepare_pointwise(struct wf_kernel_call *k, kernel_member kernel, bool truth)
{
    uint8_t dtype = k->in[0]->dtype, result = truth ? (uint8_t)WEFT_BOOL : dtype;
    wf_kernel_run *run;

    WF_TRY(wf_check_input_dtypes(k, 1, dtype));
    WF_NEED(k->out[0]->dtype == result, WEFT_ERR_DTYPE, "%s: gives %s, not %s", k->op,
            wf_dtypes[result].name, wf_dtypes[k->out[0]->dtype].name);
    if (dtype == WEFT_BOOL && !truth) kernel = bool_kernel(kernel);
    run = tables[dtype] && kernel ? tables[dtype]->*kernel : NULL;
    if (!run) return wf_cuda_fail_no_kernel(k, dtype);
    return wf_elementwise_prepare(k, run);
}

#define PREPARE(name, truth)                                                                       \
    weft_status wf_cuda_##name(struct wf_kernel_call *k)                                           \
    {                                                                                              \
        return prepare_pointwise(k, &wf_cuda_pointwise::name, truth);                              \
    }
#define WF_UNARY(name, ...) PREPARE(name, false) PREPARE(name##_grad, false)
#define WF_UNARY_BY_OPS(name, ...) PREPARE(name, false)
#define WF_BINARY(name, ...) PREPARE(name, false)
#define WF_TERNARY(name, ...) PREPARE(name, false)
#define WF_WHOLE_BINARY(name, ...) PREPARE(name, false)
#define WF_COMPARE(name, ...) PREPARE(name, true)
#define WF_TEST(name, ...) PREPARE(name, true)
#include "kernels/pointwise.def"
