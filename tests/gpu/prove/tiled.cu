/*
 * tiled.cu: the tiled kernels at fixed sizes, for a prover that wants every branch to follow from
 * constants and thread numbers: their bodies, inlined into kernels whose parameters are pointers.
 * Index maps are left out: operands are one matrix, one head's rows.
 */
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/products/product.h"

#define map_offset(map, number) 0
#pragma push_macro("__global__")
#undef __global__
#undef __launch_bounds__
#define __global__ __device__ __forceinline__
#define __launch_bounds__(...)
#include "kernels/cuda/products/tensor_product.cu"
#pragma pop_macro("__global__")

/* Several steps along k, so that every stage of the ring is used again. */
extern "C" __global__ void small_product(const bf16 *a, const bf16 *b, float *c)
{
    product_arguments p = {};

    p.m = p.n = small_form::side;
    p.k = p.lda = p.ldb = p.k_of_split = 5 * DEPTH;
    p.batches = p.tiles_m = p.tiles_n = 1;
    p.a = a;
    p.b = b;
    p.c = c;
    p.c_is_real = p.packed_a = p.packed_b = p.packed_c = true;
    multiply_on_tensor_cores<bf16, small_form, true, true>(p);
}
