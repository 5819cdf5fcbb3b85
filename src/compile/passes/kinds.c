/* kinds.c: which kernels memory bounds, and along what they go. */
#include "compile/passes/kinds.h"

#include "ops/op_table.h"

static enum wf_chain_kind kind_of_numbers(const char *numbers)
{
    return numbers[0] == 'L' || numbers[0] == 'T' ? WF_KIND_LIBRARY : WF_KIND_BY_ELEMENT;
}

enum wf_chain_kind wf_chain_kind_of(enum wf_kernel kernel)
{
    switch (kernel) {
#define WF_UNARY(name, scalars, numbers, ...)                                                      \
    case WF_KERNEL_##name:                                                                         \
        return kind_of_numbers(#numbers);                                                          \
    case WF_KERNEL_##name##_grad:                                                                  \
        return kind_of_numbers(#numbers);
#define WF_UNARY_BY_OPS(name, scalars, numbers, ...)                                               \
    case WF_KERNEL_##name:                                                                         \
        return kind_of_numbers(#numbers);
#define WF_BINARY(name, numbers, ...)                                                              \
    case WF_KERNEL_##name:                                                                         \
        return kind_of_numbers(#numbers);
#define WF_TERNARY(name, scalars, numbers, ...)                                                    \
    case WF_KERNEL_##name:                                                                         \
        return kind_of_numbers(#numbers);
#define WF_WHOLE_BINARY(name, ...)                                                                 \
    case WF_KERNEL_##name:                                                                         \
        return WF_KIND_BY_ELEMENT;
#define WF_COMPARE(name, ...)                                                                      \
    case WF_KERNEL_##name:                                                                         \
        return WF_KIND_BY_ELEMENT;
#define WF_TEST(name, ...)                                                                         \
    case WF_KERNEL_##name:                                                                         \
        return WF_KIND_BY_ELEMENT;
#include "kernels/pointwise.def"
    case WF_KERNEL_where:
    case WF_KERNEL_cast:
    case WF_KERNEL_copy:
        return WF_KIND_BY_ELEMENT;
    case WF_KERNEL_softmax:
    case WF_KERNEL_softmax_grad:
    case WF_KERNEL_log_softmax:
    case WF_KERNEL_log_softmax_grad:
        return WF_KIND_SOFTMAX;
    case WF_KERNEL_layer_norm:
    case WF_KERNEL_layer_norm_grad:
        return WF_KIND_LAYER_NORM;
    case WF_KERNEL_rms_norm:
    case WF_KERNEL_rms_norm_grad:
        return WF_KIND_RMS_NORM;
    case WF_KERNEL_swiglu:
    case WF_KERNEL_swiglu_grad:
        return WF_KIND_SWIGLU;
    case WF_KERNEL_sum:
    case WF_KERNEL_max:
    case WF_KERNEL_min:
    case WF_KERNEL_prod:
    case WF_KERNEL_count_nonzero:
        return WF_KIND_REDUCTION;
    default:
        return WF_KIND_NONE;
    }
}

bool wf_is_cheap_to_repeat(const struct wf_list_node *node)
{
    if (node->kind != WF_LIST_KERNEL || node->in_place || node->draws || !node->plan) return false;
    for (int i = 0; i < node->n_in; i++)
        if (node->plan->absent[i]) return false;
    return node->n_in > 0 && wf_chain_kind_of(wf_ops[node->plan->op].kernel) != WF_KIND_NONE;
}
