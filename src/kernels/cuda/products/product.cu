/*
 * product.cu: who computes a product: cuBLASLt, or which of our kernels, into how many parts it is
 * split and with which arguments.
 */
#include "kernels/cuda/products/product.h"

#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/index_map.h"
#include "kernels/cuda/products/cublaslt.h"
#include "kernels/cuda/products/epilogue.h"

namespace
{

enum {
    WANTED_TILES = 128,      /* for all multiprocessors of any device */
    SHORTEST_SPLIT = 512,    /* of k */
    SPLIT_STEP = 32,         /* divides into whole steps of our kernels */
    LONGEST_SPLIT = 1 << 30, /* which they count in 32 bits */
    MOST_SPLITS = 32
};

bool on_tensor_cores(const product_shape &s) { return s.dtype == WEFT_BF16 || s.dtype == WEFT_F16; }

int64_t tiles_along(int64_t n, int64_t side) { return (n + side - 1) / side; }

int64_t tiles_of(const product_shape &s, int64_t side)
{
    return tiles_along(s.m, side) * tiles_along(s.n, side) * s.batches;
}

/* From the shape alone: the bits of a product are the same on all devices of an architecture. */
int splits_of(const product_shape &s, int64_t tiles)
{
    int64_t least = tiles_along(s.k, LONGEST_SPLIT), splits = WANTED_TILES / tiles;

    if (splits > s.k / SHORTEST_SPLIT) splits = s.k / SHORTEST_SPLIT;
    if (splits > MOST_SPLITS) splits = MOST_SPLITS;
    if (splits < least) splits = least;
    return (int)(splits > 1 ? splits : 1);
}

template <class Out, class E>
__global__ void __launch_bounds__(BLOCK)
    add_up_splits(const real<E> *partial, int splits, int64_t count, int64_t n, const E *bias,
                  offset_map bias_map, Out *c)
{
    int64_t step = (int64_t)gridDim.x * BLOCK;

    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += step) {
        real<E> sum = 0;

        for (int s = 0; s < splits; s++) sum += partial[s * count + i];
        if (bias) sum += to_real(bias[map_offset(bias_map, i % n)]);
        c[i] = from_real<Out>(sum);
    }
}

template <class Out, class E>
void launch_add_up(const wf_kernel_call *k, const product_plan *plan, const void *partial,
                   const void *bias, void *c)
{
    const product_shape &s = plan->shape;
    int64_t count = s.batches * s.m * s.n, blocks = tiles_along(count, BLOCK);

    if (blocks > wf_cuda_index_limit) blocks = wf_cuda_index_limit;
    WF_CUDA_LAUNCH(k, (add_up_splits<Out, E>), dim3((unsigned)blocks), BLOCK, 0,
                   (const real<E> *)partial, plan->splits, count, s.n, (const E *)bias, s.bias,
                   (Out *)c);
}

void add_up(const wf_kernel_call *k, const product_plan *plan, const void *partial,
            const void *bias, void *c)
{
    with_float_type(plan->shape.dtype, [&](auto e) {
        typedef typename decltype(e)::type E;

        if (plan->shape.wide)
            launch_add_up<real<E>, E>(k, plan, partial, bias, c);
        else
            launch_add_up<E, E>(k, plan, partial, bias, c);
    });
}

/* True where all rows of an operand begin at a multiple of 16 bytes. */
bool rows_are_16_byte_aligned(const product_operand &o, uint8_t dtype, const void *data)
{
    int64_t bytes = (int64_t)wf_dtypes[dtype].size;
    bool packed = (uintptr_t)data % 16 == 0 && o.ld * bytes % 16 == 0;

    for (int d = 0; d < o.batch.n_dims; d++) packed = packed && o.batch.step[d] * bytes % 16 == 0;
    return packed;
}

void run_own(const wf_kernel_call *k, const product_plan *plan, const void *a, const void *b,
             const void *bias, void *c, void *scratch)
{
    bool split = plan->splits > 1;
    product_arguments args = wf_cuda_product_arguments(plan, a, b, split ? scratch : c);
    int64_t tiles = tiles_of(plan->shape, plan->side);

    args.bias = split ? NULL : bias;
    for (; args.first_tile < tiles; args.first_tile += wf_cuda_index_limit) {
        int64_t left = tiles - args.first_tile;
        dim3 grid((unsigned)(left < wf_cuda_index_limit ? left : wf_cuda_index_limit),
                  (unsigned)plan->splits);

        WF_CUDA_LAUNCH(k, plan->kernel.run, grid, plan->kernel.threads, plan->kernel.shared, args);
    }
    if (split) add_up(k, plan, scratch, bias, c);
}

/* With all that is beside the product, or without it. */
void choose_library(struct product_plan *plan, const char *op, size_t *scratch)
{
    product_shape plain = plan->shape;

    plan->cublaslt = wf_cublaslt_product_new(plan->shape, op, scratch);
    if (plan->cublaslt || (!plain.epilogue && !plain.summed)) return;
    plain.epilogue = WF_EPILOGUE_NONE;
    plain.summed = WF_SUMMED_NONE;
    plain.keeps_product = false;
    plan->plain = true;
    plan->cublaslt = wf_cublaslt_product_new(plain, op, scratch);
}

/* The product alone. */
void run_plain(const wf_kernel_call *k, const product_plan *plan, const product_data &data,
               void *product)
{
    product_data alone = data;

    alone.c = product;
    alone.scale = 1;
    alone.read = NULL;
    alone.kept_product = alone.sum = NULL;
    if (plan->cublaslt && plan->plain && wf_cublaslt_supports(alone))
        wf_cublaslt_product_run(plan->cublaslt, alone);
    else
        run_own(k, plan, data.a, data.b, data.bias, product, data.scratch);
}

} // namespace

bool wf_cuda_product_has_large_tiles(const product_shape &s)
{
    return s.dtype != WEFT_F64 && tiles_of(s, 128) >= WANTED_TILES;
}

product_arguments wf_cuda_product_arguments(const product_plan *plan, const void *a, const void *b,
                                            void *c)
{
    const product_shape &s = plan->shape;
    int64_t steps = tiles_along(tiles_along(s.k, SPLIT_STEP), plan->splits);
    product_arguments args = {};

    args.m = s.m;
    args.n = s.n;
    args.k = s.k;
    args.lda = s.a.ld;
    args.ldb = s.b.ld;
    args.batches = s.batches;
    args.k_of_split = steps * SPLIT_STEP;
    args.a_batch = s.a.batch;
    args.b_batch = s.b.batch;
    args.bias_map = s.bias;
    args.a = a;
    args.b = b;
    args.c = c;
    args.c_is_real = s.wide || plan->splits > 1 || !on_tensor_cores(s);
    args.packed_a = rows_are_16_byte_aligned(s.a, s.dtype, a);
    args.packed_b = rows_are_16_byte_aligned(s.b, s.dtype, b);
    args.packed_c = s.n % 4 == 0 && (uintptr_t)c % 16 == 0;
    args.tiles_m = (unsigned)tiles_along(s.m, plan->side);
    args.tiles_n = (unsigned)tiles_along(s.n, plan->side);
    return args;
}

void wf_cuda_product_prepare(struct product_plan *plan, const char *op)
{
    const product_shape &s = plan->shape;
    bool large = wf_cuda_product_has_large_tiles(s);
    size_t real_bytes = s.dtype == WEFT_F64 ? sizeof(double) : sizeof(float);
    size_t lt_scratch = 0;

    plan->side = large ? 128 : 64;
    plan->splits = splits_of(s, tiles_of(s, plan->side));
    if (plan->splits > 1)
        plan->scratch = (size_t)(plan->splits * s.batches * s.m * s.n) * real_bytes;
    plan->kernel = on_tensor_cores(s)
                       ? wf_cuda_tensor_product(s.dtype, s.a.turned, s.b.turned, large)
                       : wf_cuda_plain_product(s.dtype, s.a.turned, s.b.turned, large);
    if (s.k > 0) choose_library(plan, op, &lt_scratch);
    if (lt_scratch > plan->scratch) plan->scratch = lt_scratch;
    wf_cuda_check_launch(gpu_allow_shared(plan->kernel.run, plan->kernel.shared), op);
}

void wf_cuda_product_free(struct product_plan *plan) { wf_cublaslt_product_free(plan->cublaslt); }

void wf_cuda_product_run(const wf_kernel_call *k, const struct product_plan *plan,
                         const struct product_data &data)
{
    const product_shape &s = plan->shape;
    void *product = s.keeps_product ? data.kept_product : data.c;

    if (plan->cublaslt && !plan->plain && wf_cublaslt_supports(data)) {
        wf_cublaslt_product_run(plan->cublaslt, data);
        return;
    }
    run_plain(k, plan, data, product);
    if (s.epilogue) wf_cuda_finish_product(k, s, product, data);
    if (s.summed) wf_cuda_sum_operand(k, s, data.a, data.b, data.sum);
}
