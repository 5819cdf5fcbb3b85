/*
 * products.h: products of matrices.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/** a [*,m,k], b [*,k,n] -> [*,m,n]; leading dims broadcast. With ta / tb the last two dims of that
 * input are swapped first. */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_matmul_t(weft_tensor *a, weft_tensor *b, bool ta, bool tb);

/**
 * x [*,K...], w [N...,K...], bias [N...] or NULL -> x wT + bias [*,N...].
 *
 * `k_dims` says how many trailing dims of x and w are contracted (1 for a plain linear layer); the
 * remaining dims of w are the output dims, so that heads can be a dim of their own.
 */
WEFT_API weft_tensor *weft_linear(weft_tensor *x, weft_tensor *w, weft_tensor *bias, int k_dims);

/** Options of weft_linear_with. */
typedef struct weft_linear_options {
    int k_dims;      /* as weft_linear's; 0 means 1 */
    bool transposed; /* the weight is stored as w [K...,N...] (GPT-2's Conv1D): read as it lies */
    bool wide;       /* a product of bf16 or f16 is given in f32, before it is rounded: the result
                        is f32, twice the bytes. With other dtypes nothing changes */
    bool wide_gradient; /* so is the gradient of x: for sums of several. What gave x then gets a
                           gradient in f32; weft_redistribute_with casts it */
} weft_linear_options;

/** weft_linear with options. The result and the gradients have the types of x, w and bias but
 *  where `wide` says f32. */
WEFT_API weft_tensor *weft_linear_with(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                       weft_linear_options options);
