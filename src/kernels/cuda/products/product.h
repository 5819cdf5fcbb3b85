/*
 * product.h: the one matrix product that every kernel of this folder uses.
 *
 *   C[m,n] = op(A) op(B) (+ bias[n] on every row), for each entry of a batch; C is row-major
 *
 * cuBLASLt computes it where it is there and knows how (cublaslt.h), elsewhere our own kernels: on
 * tensor cores for bf16 and f16 (tensor_product.cu), with plain arithmetic for f32 and f64
 * (plain_product.cu).
 */
#pragma once

#include "kernels/cuda/element.h"
#include "kernels/cuda/offset_map.h"

/** Where A or B lies. */
struct product_operand {
    int64_t ld;
    bool turned;      /* A is stored [k,m], B is stored [n,k] */
    offset_map batch; /* number of a batch entry -> its matrix */
};

/** What is asked. */
struct product_shape {
    uint8_t dtype;      /* a float */
    bool wide;          /* of bf16 and f16: C is f32 */
    bool has_bias;      /* a bias may come */
    bool keeps_product; /* it is written beside what the epilogue makes of it */
    uint8_t epilogue;   /* enum wf_epilogue */
    uint8_t summed;     /* enum wf_summed_operand, whose sum over k is written beside it */
    int64_t m, n, k, batches;
    product_operand a, b;
    offset_map bias; /* number of a column -> its element */
};

/** What a kernel is given. Partial results of splits are f32 or f64, [splits][batches][m][n]. */
struct product_arguments {
    int64_t m, n, k, lda, ldb, batches;
    int64_t k_of_split; /* a multiple of every tile's depth */
    offset_map a_batch, b_batch, bias_map;
    const void *a, *b, *bias;
    void *c;
    bool c_is_real;            /* C has the computing type: it is wide, or partial */
    bool packed_a, packed_b;   /* every row begins at a multiple of 16 bytes */
    bool packed_c;             /* and every four columns at a multiple of four elements */
    unsigned tiles_m, tiles_n; /* of C */
    int64_t first_tile;        /* of this launch */
};

/** A kernel, whose blockIdx.x counts tiles of all batch entries and blockIdx.y splits, and what it
 * is launched with. */
struct product_kernel {
    void (*run)(product_arguments p);
    unsigned threads;
    size_t shared;
};

/** A chosen way to compute a product; constant over the hits of a plan. */
struct product_plan {
    product_shape shape;
    product_kernel kernel;
    int64_t side;                      /* of a tile of C */
    int splits;                        /* of k */
    size_t scratch;                    /* bytes that run needs */
    struct cublaslt_product *cublaslt; /* NULL: our own kernel */
    bool plain; /* cuBLASLt computes the product alone, and launches of our own what is beside it */
};

/** Whether tiles of 128 x 128, where there are any, are enough for all multiprocessors. */
bool wf_cuda_product_has_large_tiles(const product_shape &s);

/** What our own kernels are given, but for the bias, from plan's shape, side and splits. */
product_arguments wf_cuda_product_arguments(const product_plan *plan, const void *a, const void *b,
                                            void *c);

void wf_cuda_product_prepare(struct product_plan *plan, const char *op);
void wf_cuda_product_free(struct product_plan *plan);

/** What a product is computed from, and where to. */
struct product_data {
    const void *a, *b;
    const void *bias; /* may be NULL even where one was announced */
    void *c;
    const void *read;   /* by the epilogue, of C's shape; NULL: nothing */
    double scale;       /* 1 unless the epilogue is SCALE */
    void *kept_product; /* of C's shape; NULL: it is not kept */
    void *sum;          /* over k; NULL: none */
    void *scratch;      /* plan->scratch bytes, aligned to 256 */
};

void wf_cuda_product_run(const wf_kernel_call *k, const struct product_plan *plan,
                         const struct product_data &data);

/** large: tiles of 128 x 128, otherwise of 64 x 64. */
product_kernel wf_cuda_tensor_product(uint8_t dtype, bool turned_a, bool turned_b, bool large);
product_kernel wf_cuda_plain_product(uint8_t dtype, bool turned_a, bool turned_b, bool large);

/* ---- in kernels ---- */

/** The tile of a block. Tiles are counted within bands of rows, so that blocks that run at one time
 * find their operands in the cache. */
struct product_tile_place {
    int64_t batch, row, column; /* of its first element */
    int64_t row_end;            /* of its group (grouped_mm.h) */
    int64_t k_begin, k_end;
};

template <int side>
__device__ __forceinline__ product_tile_place product_place(const product_arguments &p)
{
    const unsigned band_rows = 8; /* of tiles */
    int64_t tile = p.first_tile + blockIdx.x, tiles = (int64_t)p.tiles_m * p.tiles_n;
    product_tile_place at;

    at.batch = tile / tiles;
    unsigned number = (unsigned)(tile - at.batch * tiles), band = number / (band_rows * p.tiles_n);
    unsigned first = band * band_rows, rows_left = p.tiles_m - first;
    unsigned rows = rows_left > band_rows ? band_rows : rows_left;
    unsigned in_band = number - first * p.tiles_n;

    at.row = (int64_t)(first + in_band % rows) * side;
    at.column = (int64_t)(in_band / rows) * side;
    at.k_begin = blockIdx.y * p.k_of_split;
    at.k_end = at.k_begin + p.k_of_split;
    if (at.k_end > p.k) at.k_end = p.k;
    return at;
}

/** Whether the block has a tile; where the rows of C end that a tile may have. */
__device__ __forceinline__ bool tile_is_there(const product_arguments &, const product_tile_place &)
{
    return true;
}
__device__ __forceinline__ int64_t end_of_rows(const product_arguments &p,
                                               const product_tile_place &)
{
    return p.m;
}

/** Where C, or its partial result, begins for a tile's batch entry and split, in elements. */
__device__ __forceinline__ int64_t product_c_offset(const product_arguments &p,
                                                    const product_tile_place &at)
{
    return (blockIdx.y * p.batches + at.batch) * p.m * p.n;
}
