/*
 * products.h: products of matrices.
 *
 * Of floats, and where no weight or bias is spoken of, of i32 and i64, which wrap.
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/**
 * a [*,m,k], b [*,k,n] -> [*,m,n]; leading dims broadcast. A vector stands for a row on the left, a
 * column on the right, and the result is without that dim: [k] and [k] give a number.
 */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);
/** With ta / tb the last two dims of that input are swapped first. Both have two dims or more. */
WEFT_API weft_tensor *weft_matmul_t(weft_tensor *a, weft_tensor *b, bool ta, bool tb);

/** The same of exactly two matrices, of two batches of as many matrices, of a matrix and a vector,
 * of two vectors. */
WEFT_API weft_tensor *weft_mm(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bmm(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_mv(weft_tensor *a, weft_tensor *v);
WEFT_API weft_tensor *weft_dot(weft_tensor *a, weft_tensor *b);
/** a [m], b [n] -> [m,n], the product of every two elements. */
WEFT_API weft_tensor *weft_outer(weft_tensor *a, weft_tensor *b);
/** a [m..], b [p..] -> [m p, ..]: every element of a times all of b, of at most four dims. */
WEFT_API weft_tensor *weft_kron(weft_tensor *a, weft_tensor *b);

/**
 * beta t + alpha (a b), of matrices (mm), batches (bmm), a matrix and a vector (mv), two vectors
 * (outer). t repeats where a dim is missing or 1; of a product that is a partial sum it counts
 * once, without a message. With beta 0 t is not read, and has no gradient.
 *
 * fails: WEFT_ERR_SHAPE, also where t would make the result larger than the product
 */
WEFT_API weft_tensor *weft_addmm(weft_tensor *t, weft_tensor *a, weft_tensor *b, double beta,
                                 double alpha);
WEFT_API weft_tensor *weft_baddbmm(weft_tensor *t, weft_tensor *a, weft_tensor *b, double beta,
                                   double alpha);
WEFT_API weft_tensor *weft_addmv(weft_tensor *t, weft_tensor *a, weft_tensor *v, double beta,
                                 double alpha);
WEFT_API weft_tensor *weft_addr(weft_tensor *t, weft_tensor *a, weft_tensor *b, double beta,
                                double alpha);

/**
 * Sums of products named by letters: "bmk,kn->bmn". Of one tensor or two; an ellipsis stands for
 * dims that broadcast; without an arrow the result has the letters that stand once, by alphabet.
 *
 * Any dim may be sharded where it is: a letter of the result gives a shard of it, one that is
 * summed a partial sum. Where letters of a batch stand beside several contracted ones (or several
 * of one operand alone) those are joined, and the dims behind the first of them are gathered.
 *
 * fails: WEFT_ERR_ARG for an equation that cannot be read, a letter twice in one term, more than
 *        two tensors; WEFT_ERR_SHAPE for sizes that differ (1 repeats)
 */
WEFT_API weft_tensor *weft_einsum(const char *equation, weft_tensor *const *in, int n);

/** The sum over n pairs of dims, of a and of b; the result has the others of a, then those of b. */
WEFT_API weft_tensor *weft_tensordot(weft_tensor *a, weft_tensor *b, const int *a_dims,
                                     const int *b_dims, int n);

/**
 * Runs of rows, each times a matrix of its own: x [T,K], w [G,K,N], ends [G] -> [T,N]. Floats.
 *
 * Group g are the rows from where the one before ended to ends[g], which ascend; rows behind the
 * last end are 0. `ends` is i32 or i64, and read where the product is computed: it never makes a
 * new plan. (torch._grouped_mm)
 * fails: an end below the one before, or beyond T, ends the job
 * grad:  to x and w
 */
WEFT_API weft_tensor *weft_grouped_mm(weft_tensor *x, weft_tensor *w, weft_tensor *ends);

/**
 * Eigenvalues, ascending [*,N], of the symmetric matrices (x + xT) / 2; x [*,N,N] of f32 or f64,
 * which is computed in f64. `vectors`: NULL, or where the eigenvectors go, in columns [*,N,N]; of
 * each the largest element is positive.
 *
 * ranks: every rank of x's mesh; matrices are made whole, leading dims stay as they are
 * fails: WEFT_ERR_SHAPE, WEFT_ERR_DTYPE. What is not finite gives NaN
 * grad:  symmetric, through both; as in torch infinite where two eigenvalues are equal and vectors
 *        have a gradient
 */
WEFT_API weft_tensor *weft_eigh(weft_tensor *x, weft_tensor **vectors);

/**
 * x = U diag(s) vh, x [*,M,N] of f32 or f64, computed in f64. With K the smaller of M and N: U
 * [*,M,K], s [*,K], descending, vh [*,K,N]; s and vh: where they go, or NULL. The largest element
 * of each column of U is positive.
 *
 * ranks, fails: as weft_eigh
 * grad:  through all three; as in torch it is infinite where singular values are equal, or 0, and
 *        U or vh has a gradient
 */
WEFT_API weft_tensor *weft_svd(weft_tensor *x, weft_tensor **s, weft_tensor **vh);

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
