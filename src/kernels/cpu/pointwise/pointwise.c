/*
 * pointwise.c: prepare functions of the kernels in pointwise.def, of where and of cast.
 * The formulas become loops in isa/pointwise/pointwise.inc; elementwise.c runs them over strided
 * operands.
 */
#include "kernels/cpu/pointwise/pointwise.h"

#include <stddef.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "kernels/operands/operand_checks.h"

/* NULL: none of its own. */
static const struct wf_pointwise *loops_for_dtype(uint8_t dtype)
{
    switch (dtype) {
    case WEFT_F32:
        return WF_ISA_PICK(wf_pointwise_f32);
    case WEFT_F64:
        return WF_ISA_PICK(wf_pointwise_f64);
    case WEFT_BF16:
        return WF_ISA_PICK(wf_pointwise_bf16);
    case WEFT_I32:
        return WF_ISA_PICK(wf_pointwise_i32);
    case WEFT_I64:
        return WF_ISA_PICK(wf_pointwise_i64);
    case WEFT_U8:
    case WEFT_BOOL:
        return WF_ISA_PICK(wf_pointwise_u8);
    default:
        return NULL;
    }
}

/* Where a kernel's line functions lie in a table: one, or WF_LINE_FORMS of them. */
struct table_entry {
    size_t at;
    int n_forms;
};

/* False where the type has none. */
static bool find_line_functions(uint8_t dtype, struct table_entry entry,
                                wf_elementwise_loop *forms[WF_LINE_FORMS])
{
    const char *loops = (const char *)loops_for_dtype(dtype);

    if (!loops) return false;
    for (int i = 0; i < entry.n_forms; i++)
        forms[i] = ((wf_elementwise_loop *const *)(loops + entry.at))[i];
    return forms[WF_LINE_FULL] != NULL;
}

/* Of bool a sum is "or" and a product "and", as in PyTorch: bytes of 0 and 1. Others have no
 * kernel. */
static bool find_bool_kernel(size_t *at)
{
    if (*at == offsetof(struct wf_pointwise, add)) *at = offsetof(struct wf_pointwise, maximum);
    return *at == offsetof(struct wf_pointwise, mul) ||
           *at == offsetof(struct wf_pointwise, maximum) ||
           *at == offsetof(struct wf_pointwise, minimum);
}

/* truth: the kernel gives bool. */
static weft_status prepare_pointwise(struct wf_kernel_call *k, struct table_entry entry, bool truth)
{
    uint8_t dtype = k->in[0]->dtype, result = truth ? (uint8_t)WEFT_BOOL : dtype;
    uint8_t wide = wf_dtype_is_16_bit_float(dtype) ? (uint8_t)WEFT_F32 : (uint8_t)WEFT_I32;
    const struct wf_cast_where_fill_loops *casts = WF_ISA_PICK(wf_cast_where_fill_loops);
    wf_elementwise_loop *forms[WF_LINE_FORMS] = {NULL};
    struct wf_computed_in in = {NULL, NULL};
    bool found;

    WF_TRY(wf_check_input_dtypes(k, 1, dtype));
    WF_NEED(k->out[0]->dtype == result, WEFT_ERR_DTYPE, "%s: gives %s, not %s", k->op,
            wf_dtypes[result].name, wf_dtypes[k->out[0]->dtype].name);
    if (dtype == WEFT_BOOL && !truth && !find_bool_kernel(&entry.at))
        return wf_fail_no_kernel(k, dtype);
    found = find_line_functions(dtype, entry, forms);
    if (!found && wf_dtypes[dtype].size < wf_dtypes[wide].size) {
        in.load = casts->cast[dtype][wide];
        in.store = truth ? NULL : casts->cast[wide][dtype];
        found = find_line_functions(wide, entry, forms);
    }
    if (!found) return wf_fail_no_kernel(k, dtype);
    return wf_elementwise_prepare_broadcast(k, forms, in);
}

#define PREPARE(name, n_forms, truth)                                                              \
    weft_status wf_cpu_##name(struct wf_kernel_call *k)                                            \
    {                                                                                              \
        struct table_entry entry = {offsetof(struct wf_pointwise, name), n_forms};                 \
                                                                                                   \
        return prepare_pointwise(k, entry, truth);                                                 \
    }
#define WF_UNARY(name, ...) PREPARE(name, 1, false) PREPARE(name##_grad, 1, false)
#define WF_UNARY_BY_OPS(name, ...) PREPARE(name, 1, false)
#define WF_BINARY(name, ...) PREPARE(name, WF_LINE_FORMS, false)
#define WF_TERNARY(name, ...) PREPARE(name, WF_LINE_FORMS, false)
#define WF_WHOLE_BINARY(name, ...) PREPARE(name, WF_LINE_FORMS, false)
#define WF_COMPARE(name, ...) PREPARE(name, WF_LINE_FORMS, true)
#define WF_TEST(name, ...) PREPARE(name, 1, true)
#include "kernels/pointwise.def"

weft_status wf_cpu_where(struct wf_kernel_call *k)
{
    uint8_t dtype = k->out[0]->dtype;

    WF_NEED(k->in[0]->dtype == WEFT_BOOL, WEFT_ERR_DTYPE, "%s: condition is %s, not bool", k->op,
            wf_dtypes[k->in[0]->dtype].name);
    WF_TRY(wf_check_input_dtypes(k, 1, dtype));
    return wf_elementwise_prepare(
        k, WF_ISA_PICK(wf_cast_where_fill_loops)->where[wf_dtypes[dtype].size]);
}

weft_status wf_cpu_cast(struct wf_kernel_call *k)
{
    return wf_elementwise_prepare(
        k, WF_ISA_PICK(wf_cast_where_fill_loops)->cast[k->in[0]->dtype][k->out[0]->dtype]);
}
