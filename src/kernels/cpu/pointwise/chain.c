/* chain.c: which kernels can be part of a chain. */
#include "kernels/cpu/pointwise/chain.h"

enum wf_chain_code wf_chain_code_of(enum wf_kernel kernel, int value, bool both)
{
    switch (kernel) {
    case WF_KERNEL_neg:
        return WF_CHAIN_NEG;
    case WF_KERNEL_abs:
        return WF_CHAIN_ABS;
    case WF_KERNEL_relu:
        return WF_CHAIN_RELU;
    case WF_KERNEL_square:
        return WF_CHAIN_SQUARE;
    case WF_KERNEL_add_scalar:
        return WF_CHAIN_ADD_SCALAR;
    case WF_KERNEL_rsub_scalar:
        return WF_CHAIN_RSUB_SCALAR;
    case WF_KERNEL_mul_scalar:
        return WF_CHAIN_MUL_SCALAR;
    case WF_KERNEL_div_scalar:
        return WF_CHAIN_DIV_SCALAR;
    case WF_KERNEL_mul:
        return both ? WF_CHAIN_SQUARE : WF_CHAIN_MUL;
    case WF_KERNEL_add:
        return both ? WF_CHAIN_NONE : WF_CHAIN_ADD;
    case WF_KERNEL_sub:
        return both ? WF_CHAIN_NONE : value == 0 ? WF_CHAIN_SUB : WF_CHAIN_SUB_FROM;
    case WF_KERNEL_div:
        return both ? WF_CHAIN_NONE : value == 0 ? WF_CHAIN_DIV : WF_CHAIN_DIV_INTO;
    default:
        return WF_CHAIN_NONE;
    }
}
