/* copy.c: elements copied into a tensor of their own. Over another's: pointwise/in_place.c. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"

weft_tensor *weft_clone(weft_tensor *x) { return wf_dispatch_unary_op(WF_OP_copy, x); }

weft_tensor *weft_type_as(weft_tensor *x, const weft_tensor *like)
{
    if (!x || !like) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "type_as"));
    WF_TRY_PTR(wf_tensor_need_alive(like, "type_as"));
    return weft_tensor_dtype(x) == weft_tensor_dtype(like) ? x
                                                           : weft_cast(x, weft_tensor_dtype(like));
}
