/*
 * reference.c: the serial truth. One element at a time, by the definition of the tree: n terms are
 * split at the largest power of two below n.
 */
#include "reference.h"

#include <string.h>

#include "base/elements/dtype.h"

static uint64_t scramble(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void reference_element(void *out, weft_dtype dtype, int rank, size_t index, unsigned salt)
{
    uint64_t bits = scramble((uint64_t)index * 64 + (uint64_t)rank + ((uint64_t)salt << 48));
    double unit = (double)(bits >> 11) / 4503599627370496.0 - 1.0; /* [-1, 1) */

    if (weft_dtype_is_float(dtype))
        wf_dtypes[dtype].store(out, unit * 3);
    else
        memcpy(out, &bits, weft_dtype_size(dtype));
}

#define TREE(name, type, sum, product)                                                             \
    static type name(weft_dtype dtype, weft_reduce reduce, int low, int n, size_t index,           \
                     unsigned salt)                                                                \
    {                                                                                              \
        type a, b;                                                                                 \
        int split = 1;                                                                             \
                                                                                                   \
        if (n == 1) return name##_leaf(dtype, low, index, salt);                                   \
        while (split * 2 < n) split *= 2;                                                          \
        a = name(dtype, reduce, low, split, index, salt);                                          \
        b = name(dtype, reduce, low + split, n - split, index, salt);                              \
        if (reduce == WEFT_MAX) return a > b ? a : b;                                              \
        if (reduce == WEFT_MIN) return a < b ? a : b;                                              \
        return reduce == WEFT_SUM ? (type)(sum) : (type)(product);                                 \
    }

#define LEAF(name, type)                                                                           \
    static type name##_leaf(weft_dtype dtype, int rank, size_t index, unsigned salt)               \
    {                                                                                              \
        type value;                                                                                \
                                                                                                   \
        reference_element(&value, dtype, rank, index, salt);                                       \
        return value;                                                                              \
    }

LEAF(tree_f64, double)
LEAF(tree_i32, int32_t)
LEAF(tree_i64, int64_t)

static float tree_f32_leaf(weft_dtype dtype, int rank, size_t index, unsigned salt)
{
    char bytes[8];

    reference_element(bytes, dtype, rank, index, salt);
    return (float)wf_dtypes[dtype].load(bytes);
}

TREE(tree_f32, float, a + b, a *b)
TREE(tree_f64, double, a + b, a *b)
TREE(tree_i32, int32_t, (uint32_t)a + (uint32_t)b, (uint32_t)a *(uint32_t)b)
TREE(tree_i64, int64_t, (uint64_t)a + (uint64_t)b, (uint64_t)a *(uint64_t)b)

void reference_reduce(void *out, weft_dtype dtype, weft_reduce reduce, int ranks, size_t index,
                      unsigned salt)
{
    switch (dtype) {
    case WEFT_F64:
        *(double *)out = tree_f64(dtype, reduce, 0, ranks, index, salt);
        break;
    case WEFT_I32:
        *(int32_t *)out = tree_i32(dtype, reduce, 0, ranks, index, salt);
        break;
    case WEFT_I64:
        *(int64_t *)out = tree_i64(dtype, reduce, 0, ranks, index, salt);
        break;
    case WEFT_F32:
        *(float *)out = tree_f32(dtype, reduce, 0, ranks, index, salt);
        break;
    default:
        wf_dtypes[dtype].store(out, (double)tree_f32(dtype, reduce, 0, ranks, index, salt));
        break;
    }
}
