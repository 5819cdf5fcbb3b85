/*
 * product_operands.h: two operands of a kernel as the matrices of one product. An operand is read
 * as it lies or, where no matrix lies in it, copied into scratch first.
 */
#pragma once

#include "kernels/cuda/prepare.h"
#include "kernels/cuda/products/product.h"

extern "C" {
#include "kernels/cuda/driver_kernels.h"
#include "kernels/operands/matrix_view.h"
}

struct matrix_operand {
    struct wf_tensor_desc lies; /* what is read */
    struct wf_matrix_view view; /* of a single matrix */
    struct wf_strided_copy copy;
    size_t scratch; /* bytes of the copy, 0: none */
};

/** What a kernel keeps: in[0] and in[1], and how they are multiplied. */
struct product_of_operands {
    matrix_operand left, right;
    product_plan product;
    int read; /* the operand that the epilogue reads; -1: none */
};

/** Which dims of an operand are its matrix: [first, split) are rows, [split, ndim) columns; and
 * whether it is turned before it is multiplied. */
struct matrix_dims {
    int first, split;
    bool turn;
};

/** How one operand is read. */
void wf_cuda_describe_operand(matrix_operand *o, const wf_tensor_desc *d, const matrix_dims &dims);

/** The same of a matrix [rows, columns] that must not lie turned. */
void wf_cuda_describe_rows(matrix_operand *o, const wf_tensor_desc *d);

/** x itself, or its copy in scratch. */
const void *wf_cuda_copy_operand_if_needed(const matrix_operand *o, const void *x, void *scratch);

/** Describe k's product, but for its batch and its bias, which the caller adds before
 * wf_cuda_product_prepare. The result is k->prep. */
product_of_operands *wf_cuda_product_of_operands(wf_kernel_call *k, const matrix_dims &left,
                                                 const matrix_dims &right);
