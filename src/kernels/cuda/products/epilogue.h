/* epilogue.h: what stands behind a product or beside it, by launches of our own. */
#pragma once

#include "kernels/cuda/products/product.h"

/** data.c: the epilogue of `product`, which may be data.c itself. */
void wf_cuda_finish_product(const wf_kernel_call *k, const product_shape &shape,
                            const void *product, const product_data &data);

/** out: the sum over k of the operand that shape.summed names, one thread for each element: for
 * calls whose operands are not aligned. */
void wf_cuda_sum_operand(const wf_kernel_call *k, const product_shape &shape, const void *a,
                         const void *b, void *out);
