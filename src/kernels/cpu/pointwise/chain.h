/*
 * chain.h: several formulas of pointwise.def, one after another, on values that stay in registers:
 * for f32 and formulas of one operation, which cost less than loading and storing their operands.
 * Each gives the bits of its own kernel.
 */
#pragma once

#include "kernels/cpu/isa.h"

enum wf_chain_code {
    WF_CHAIN_NONE, /* no such formula */
    WF_CHAIN_STORE,
    WF_CHAIN_STORE_FAR, /* past the cache; at a multiple of 64 bytes, and a fence before others read
                           it */
    WF_CHAIN_NEG,
    WF_CHAIN_ABS,
    WF_CHAIN_RELU,
    WF_CHAIN_SQUARE,
    WF_CHAIN_ADD_SCALAR,
    WF_CHAIN_RSUB_SCALAR,
    WF_CHAIN_MUL_SCALAR,
    WF_CHAIN_DIV_SCALAR,
    /* with an array: value OP array, and array OP value */
    WF_CHAIN_ADD,
    WF_CHAIN_MUL,
    WF_CHAIN_SUB,
    WF_CHAIN_DIV,
    WF_CHAIN_SUB_FROM,
    WF_CHAIN_DIV_INTO
};

/** A formula of a chain. */
struct wf_chain_op {
    enum wf_chain_code code;
    float s;
    const float *array; /* as long as the chain's */
    float *to;          /* of the two that store */
};

struct wf_chain_loops {
    /** `from` through the ops; what they do not store is lost. */
    void (*run)(int64_t n, const float *from, const struct wf_chain_op *ops, int n_ops);
};

WF_ISA_TABLE(struct wf_chain_loops, wf_chain_loops)

/** What a kernel is to a chain whose value comes in as operand `value`; `both`: as both operands.
 * WF_CHAIN_NONE: it has no such formula. */
enum wf_chain_code wf_chain_code_of(enum wf_kernel kernel, int value, bool both);
