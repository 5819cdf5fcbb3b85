/*
 * ops.h: operations on tensors, plain or distributed: a header per family, and what is so for all.
 *
 * Every function here: all inputs on one mesh (or all plain; plain one-element tensors mix with
 * anything); NULL in gives NULL out; the result belongs to the open scope; sharding follows the
 * op's row in src/ops/ops.def (docs/reference/ops.md). Unless said otherwise:
 * ranks: every rank of the inputs' mesh (an input may have to be redistributed)
 * fails: WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, or WEFT_ERR_LAYOUT for a mixture of plain and distributed
 * grad:  to every floating-point input
 */
#pragma once

#include <weft/attention.h>
#include <weft/complex.h>
#include <weft/convolution.h>
#include <weft/in_place.h>
#include <weft/indexing.h>
#include <weft/losses.h>
#include <weft/normalization.h>
#include <weft/pointwise.h>
#include <weft/products.h>
#include <weft/reductions.h>
#include <weft/scans.h>
#include <weft/shape.h>
