/*
 * complex.h: complex numbers, WEFT_C64.
 *
 * A c64 tensor is a view of f32 pairs, real parts first. Made, moved, copied, redistributed and
 * seen in other shapes it is like any other; weft_add, weft_sub, weft_mul, weft_neg,
 * weft_mul_scalar, weft_div_scalar, weft_sum, weft_cat and weft_cast (to c64) compute with it,
 * beside real operands too, f64 among them; all other ops refuse it with WEFT_ERR_DTYPE. A gradient
 * is dL/d(real part) + i dL/d(imaginary part), as in PyTorch. Partial sums of it are reduced, other
 * partial results are not.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh
 */
#pragma once

#include <weft/tensor.h>

/** x [*] of c64 as [*,2] of f32, and the other way: the same bytes, but a copy where pairs do not
 *  lie together. A last dim that is sharded is brought together first.
 *  fails: WEFT_ERR_DTYPE, WEFT_ERR_SHAPE */
WEFT_API weft_tensor *weft_view_as_real(weft_tensor *x);
WEFT_API weft_tensor *weft_view_as_complex(weft_tensor *x);

/** With the other sign of the imaginary part: a copy, where PyTorch keeps a flag. Real tensors as
 * they are. */
WEFT_API weft_tensor *weft_conj(weft_tensor *x);
