/*
 * promotion.c: operands of several dtypes. The dtype in which they meet is that of
 * torch.result_type: the higher of the kinds bool, integer, float and complex; of one kind the type
 * that holds both, where operands without dims only count when their kind is higher. Each operand
 * is cast by an op of its own before the call (dtensor/dispatch/slow_path.c), so gradients are cast
 * back.
 */
#include <weft/pointwise.h>

#include "base/elements/dtype.h"
#include "ops/op_functions.h"
#include "ops/op_table.h"

enum { BOOLS, INTEGERS, FLOATS, COMPLEX, NO_DTYPE = WEFT_DTYPE_COUNT };

static int kind_of(weft_dtype dtype)
{
    if (dtype == WEFT_C64) return COMPLEX;
    return dtype == WEFT_BOOL ? BOOLS : wf_dtype_is_float(dtype) ? FLOATS : INTEGERS;
}

/* Of one kind: the larger; of two of one size, neither of which holds the other, the next. */
static weft_dtype larger_of_kind(weft_dtype a, weft_dtype b)
{
    if (a == b) return a;
    if (wf_dtypes[a].size != wf_dtypes[b].size)
        return wf_dtypes[a].size > wf_dtypes[b].size ? a : b;
    return kind_of(a) == FLOATS ? WEFT_F32 : WEFT_I16;
}

static weft_dtype meet(weft_dtype a, weft_dtype b)
{
    if ((int)a == NO_DTYPE) return b;
    if ((int)b == NO_DTYPE) return a;
    if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
    return larger_of_kind(a, b);
}

weft_dtype wf_common_dtype(weft_dtype a, weft_dtype b) { return meet(a, b); }

static weft_dtype common_dtype(const struct wf_infer *call, int first)
{
    weft_dtype of_arrays = (weft_dtype)NO_DTYPE, of_numbers = (weft_dtype)NO_DTYPE;

    for (int i = first; i < call->n_in; i++) {
        weft_dtype dtype = (weft_dtype)call->in[i]->desc.dtype;

        if (call->in[i]->desc.ndim > 0)
            of_arrays = meet(of_arrays, dtype);
        else
            of_numbers = meet(of_numbers, dtype);
    }
    if ((int)of_arrays == NO_DTYPE || (int)of_numbers == NO_DTYPE)
        return meet(of_arrays, of_numbers);
    return kind_of(of_numbers) > kind_of(of_arrays) ? of_numbers : of_arrays;
}

bool wf_promotion(const struct wf_infer *call, weft_dtype *dtype, uint32_t *cast)
{
    int first = call->row->promotes == WF_PROMOTES_CHOSEN;

    *cast = 0;
    if (call->row->promotes == WF_PROMOTES_NOTHING) return false;
    *dtype = common_dtype(call, first);
    if (call->row->promotes == WF_PROMOTES_FLOATS && kind_of(*dtype) < FLOATS) *dtype = WEFT_F32;
    for (int i = first; i < call->n_in; i++)
        *cast |= (uint32_t)(call->in[i]->desc.dtype != *dtype) << i;
    return *cast != 0;
}

bool wf_number_is_whole(double number) { return number == floor(number); }

weft_tensor *wf_promote_beside_numbers(weft_tensor *x, const double *numbers, int n)
{
    bool whole = true;

    if (kind_of((weft_dtype)x->layout->desc.dtype) >= FLOATS) return x;
    for (int i = 0; i < n; i++) whole &= wf_number_is_whole(numbers[i]);
    if (!whole) return weft_cast(x, WEFT_F32);
    return x->layout->desc.dtype == WEFT_BOOL ? weft_cast(x, WEFT_I64) : x;
}
