/* cublaslt.h: products by NVIDIA's library, where it is there. */
#pragma once

#include "kernels/cuda/products/product.h"

struct cublaslt_product;

/** Choose how cuBLASLt is to compute a product, and how many bytes of scratch it needs. gives: NULL
 * where it is not to be used, or does not know how: then our own kernels do. */
struct cublaslt_product *wf_cublaslt_product_new(const product_shape &shape, const char *op,
                                                 size_t *scratch);
void wf_cublaslt_product_free(struct cublaslt_product *product);

/** Whether operands begin where the choice supposes. */
bool wf_cublaslt_supports(const struct product_data &data);

void wf_cublaslt_product_run(const struct cublaslt_product *product,
                             const struct product_data &data);
