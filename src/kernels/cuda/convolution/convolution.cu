/*
 * convolution.cu: a convolution and its two gradients as calls of the kernels of this folder: which
 * of them, into how many parts the sum is split, with which arguments.
 *
 *   x [N,(G,)C,S...]   w [(G,)O,C,K...]   bias [(G,)O] or NULL   y, d [N,(G,)O,T...]
 *
 * Where a group has few rows, results are summed one by one; elsewhere they are products of tiles.
 */
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/prepare.h"

namespace
{

enum pass { FORWARD, DX, DW };
enum { X, W, Y, BIAS, OPERANDS };
enum {
    FEW = 8,                 /* rows, or columns of dw, for which a tile would be mostly empty */
    WANTED_BLOCKS = 256,     /* for all multiprocessors of any device */
    SHORTEST_SPLIT = 512,    /* of what is summed over */
    LONGEST_SPLIT = 1 << 20, /* places are counted in 32 bits from a split's first */
    SPLIT_STEP = 32,         /* whole steps of every kernel */
    MOST_SPLITS = 64
};

struct convolution {
    conv_arguments arguments;
    conv_kernel kernel;
    int splits;
    int64_t blocks; /* for kernels of tiles */
};

/* Which input of the call an operand is; -1: none, or the result. */
const int input_of[][OPERANDS] = {{0, 1, -1, 2}, {-1, 1, 0, -1}, {1, -1, 0, -1}};

/* Strides of an operand whose dims are [first, group, second, S...], or for w [group, ...]. */
struct conv_strides {
    int64_t group, first, second, place[WF_SPATIAL];
};

conv_strides strides_of(const wf_tensor_desc *d, bool grouped, bool is_w)
{
    int at = 2 + grouped, last = d->ndim - 1;
    conv_strides s = {};

    if (grouped) s.group = d->stride[is_w ? 0 : 1];
    s.first = d->stride[is_w && grouped ? 1 : 0];
    s.second = d->stride[at - 1];
    for (int i = last; i >= at; i--) s.place[WF_SPATIAL - 1 - (last - i)] = d->stride[i];
    return s;
}

struct conv_sizes {
    int64_t images, groups, in, out;
    int64_t x[WF_SPATIAL], w[WF_SPATIAL], y[WF_SPATIAL]; /* places; 1 where there is no such dim */
    int64_t stride[WF_SPATIAL], dilation[WF_SPATIAL], before[WF_SPATIAL];
};

conv_sizes sizes_of(const wf_tensor_desc *const *d, const wf_conv_attrs &a)
{
    int grouped = a.grouped;
    conv_sizes s = {};

    s.images = d[X]->shape[0];
    s.groups = grouped ? d[X]->shape[1] : 1;
    s.in = d[X]->shape[1 + grouped];
    s.out = d[Y]->shape[1 + grouped];
    for (int i = 0; i < WF_SPATIAL; i++) {
        int of = i - (WF_SPATIAL - a.dims), dim = 2 + grouped + of;

        s.x[i] = of < 0 ? 1 : d[X]->shape[dim];
        s.w[i] = of < 0 ? 1 : d[W]->shape[dim];
        s.y[i] = of < 0 ? 1 : d[Y]->shape[dim];
        s.stride[i] = of < 0 ? 1 : a.stride[of];
        s.dilation[i] = of < 0 ? 1 : a.dilation[of];
        s.before[i] = of < 0 ? 0 : a.before[of];
    }
    return s;
}

int64_t product_of(const int64_t *size) { return size[0] * size[1] * size[2]; }

/* Whether kernels can count in 32 bits. */
bool within_limit(const conv_sizes &s)
{
    bool within = product_of(s.x) < CONV_LIMIT && product_of(s.y) < CONV_LIMIT;

    within = within && s.groups * s.out < CONV_LIMIT && s.groups * s.in < CONV_LIMIT;
    within = within && (s.in > s.out ? s.in : s.out) * product_of(s.w) < CONV_LIMIT;
    for (int i = 0; i < WF_SPATIAL; i++) {
        within = within && s.stride[i] < CONV_LIMIT && s.before[i] < CONV_LIMIT;
        within = within && s.y[i] * s.stride[i] < 2 * (int64_t)CONV_LIMIT;
        within = within && s.w[i] * s.dilation[i] < CONV_LIMIT;
    }
    return within;
}

/* Of an empty dim nothing is ever divided. */
divisor divisor_of_size(int64_t size) { return divisor_of((uint32_t)(size > 0 ? size : 1)); }

void set_dims(conv_arguments *a, enum pass pass, const conv_sizes &s, const conv_strides &plain,
              const conv_strides &gathered)
{
    bool dx = pass == DX;

    for (int i = 0; i < WF_SPATIAL; i++) {
        conv_dim *dim = &a->dim[i];

        dim->places = divisor_of_size(dx ? s.x[i] : s.y[i]);
        dim->taps = divisor_of_size(s.w[i]);
        dim->place_step = (int32_t)(dx ? 1 : s.stride[i]);
        dim->tap_step = (int32_t)(dx ? -s.dilation[i] : s.dilation[i]);
        dim->before = (int32_t)(dx ? -s.before[i] : s.before[i]);
        dim->divided_by = divisor_of_size(dx ? s.stride[i] : 1);
        dim->size = (int32_t)(dx ? s.y[i] : s.x[i]);
        dim->stride = gathered.place[i];
        dim->plain_stride = plain.place[i];
    }
}

/* What a group's matrices have, and where operands lie; of bias and result too. */
void set_sizes(conv_arguments *a, enum pass pass, const conv_sizes &s,
               const wf_tensor_desc *const *d, bool grouped)
{
    conv_strides x = strides_of(d[X], grouped, false), w = strides_of(d[W], grouped, true),
                 y = strides_of(d[Y], grouped, false);
    const conv_strides &plain = pass == DW ? y : w, &gathered = pass == DX ? y : x;
    int64_t taps = product_of(s.w), plane = product_of(pass == DX ? s.x : s.y);

    set_dims(a, pass, s, plain, gathered);
    a->groups = s.groups;
    a->rows = pass == DX ? s.in : s.out;
    a->channels = (uint32_t)(pass == DX ? s.out : s.in);
    a->columns = pass == DW ? s.in * taps : s.images * plane;
    a->depth = pass == DW ? s.images * plane : a->channels * taps;
    a->plane = divisor_of_size(plane);
    a->row_divisor = divisor_of_size(a->rows);
    a->wide_plane = wide_divisor_of(plane);
    a->wide_planes = wide_divisor_of(s.groups * a->rows);
    a->gathered_stride = {gathered.first, gathered.group, gathered.second};
    if (pass == DW)
        a->plain_stride = {y.group, y.second, y.first};
    else if (pass == DX)
        a->plain_stride = {w.group, w.second, w.first};
    else
        a->plain_stride = {w.group, w.first, w.second};
    if (d[BIAS]) a->bias_stride = {grouped ? d[BIAS]->stride[0] : 0, d[BIAS]->stride[grouped]};
    a->result_stride.row = pass == DW ? a->columns : plane;
    a->result_stride.group = a->rows * a->result_stride.row;
    a->result_stride.image = s.groups * a->result_stride.group;
    a->results = s.groups * a->rows * a->columns;
}

/* From the sizes alone: the bits are the same on all devices. */
int splits_of(const conv_arguments &a, int64_t blocks)
{
    int64_t least = (a.depth + LONGEST_SPLIT - 1) / LONGEST_SPLIT, splits = WANTED_BLOCKS / blocks;

    if (splits > a.depth / SHORTEST_SPLIT) splits = a.depth / SHORTEST_SPLIT;
    if (splits > MOST_SPLITS) splits = MOST_SPLITS;
    if (splits < least) splits = least;
    return (int)(splits > 1 ? splits : 1);
}

void choose_kernel(convolution *p, enum pass pass, uint8_t dtype, const conv_sizes &s)
{
    conv_arguments *a = &p->arguments;
    bool dw = pass == DW, few = a->rows <= FEW || (dw && a->columns <= FEW), divided = false;
    int64_t row_tiles, column_tiles, steps;

    for (int i = 0; i < WF_SPATIAL; i++) divided = divided || (pass == DX && s.stride[i] != 1);
    p->kernel =
        few ? wf_cuda_window_sum(dtype, dw, divided) : wf_cuda_window_product(dtype, dw, divided);
    p->splits = 1;
    if (!p->kernel.rows) return;
    row_tiles = (a->rows + p->kernel.rows - 1) / p->kernel.rows;
    column_tiles = (a->columns + p->kernel.columns - 1) / p->kernel.columns;
    a->row_tiles = wide_divisor_of(row_tiles);
    a->column_tiles = wide_divisor_of(column_tiles);
    p->blocks = a->groups * row_tiles * column_tiles;
    p->splits = splits_of(*a, p->blocks);
    steps = (a->depth + SPLIT_STEP - 1) / SPLIT_STEP;
    a->depth_of_split = (steps + p->splits - 1) / p->splits * SPLIT_STEP;
    /* Splits are whole steps, so that fewer may have all of it: none begins behind its end. */
    if (p->splits > 1) p->splits = (int)((a->depth + a->depth_of_split - 1) / a->depth_of_split);
    a->partial = p->splits > 1;
}

/* Of all splits, in their order. */
template <class E>
__global__ void __launch_bounds__(BLOCK)
    add_up_splits(conv_arguments p, const real<E> *partial, int splits, wide_divisor rows, E *y)
{
    int64_t step = (int64_t)gridDim.x * BLOCK;

    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < p.results; i += step) {
        real<E> sum = 0;

        for (int s = 0; s < splits; s++) sum += partial[s * p.results + i];
        if (p.bias) {
            int64_t plane = divide_wide(i, p.wide_plane), image = divide_wide(plane, p.wide_planes);
            int64_t channel = plane - image * (int64_t)p.wide_planes.value;
            int64_t group = divide_wide(channel, rows), row = channel - group * p.rows;

            sum +=
                to_real(((const E *)p.bias)[group * p.bias_stride.group + row * p.bias_stride.row]);
        }
        y[i] = from_real<E>(sum);
    }
}

/* Kernels of one result per thread: whole planes in each launch. */
void run_by_planes(const wf_kernel_call *k, const convolution *p, conv_arguments a)
{
    int64_t plane = (int64_t)a.plane.value, planes = a.results / plane;
    int64_t at_once = wf_cuda_index_limit / plane;

    if (at_once < 1) at_once = 1;
    for (; a.first_block < planes; a.first_block += at_once) {
        a.end_block = a.first_block + at_once < planes ? a.first_block + at_once : planes;
        WF_CUDA_LAUNCH(k, p->kernel.run, blocks_for((a.end_block - a.first_block) * plane, BLOCK),
                       p->kernel.threads, 0, a);
    }
}

void run_by_tiles(const wf_kernel_call *k, const convolution *p, conv_arguments a, void *scratch)
{
    if (a.partial) {
        a.result = scratch;
        a.bias = NULL;
    }
    a.packed = a.result_stride.row % 4 == 0 && (uintptr_t)a.result % 16 == 0;
    for (; a.first_block < p->blocks; a.first_block += wf_cuda_index_limit) {
        int64_t left = p->blocks - a.first_block;
        dim3 grid((unsigned)(left < wf_cuda_index_limit ? left : wf_cuda_index_limit),
                  (unsigned)p->splits);

        WF_CUDA_LAUNCH(k, p->kernel.run, grid, p->kernel.threads, 0, a);
    }
}

template <class E>
void add_up(const wf_kernel_call *k, const convolution *p, const conv_arguments &a,
            const void *partial)
{
    int64_t blocks = (a.results + BLOCK - 1) / BLOCK;

    if (blocks > wf_cuda_index_limit) blocks = wf_cuda_index_limit;
    WF_CUDA_LAUNCH(k, add_up_splits<E>, dim3((unsigned)blocks), BLOCK, 0, a,
                   (const real<E> *)partial, p->splits, wide_divisor_of(a.rows), (E *)a.result);
}

template <enum pass pass>
void run_convolution(const wf_kernel_call *k, void *const *out, const void *const *in,
                     const wf_scalars *)
{
    const convolution *p = (const convolution *)k->prep;
    const int *from = input_of[pass];
    conv_arguments a = p->arguments;
    size_t real_bytes = k->out[0]->dtype == WEFT_F64 ? sizeof(double) : sizeof(float);
    void *scratch = NULL;

    a.plain = in[from[pass == DW ? Y : W]];
    a.gathered = in[from[pass == DX ? Y : X]];
    a.bias = pass == FORWARD && k->n_in > from[BIAS] ? in[from[BIAS]] : NULL;
    a.result = out[0];
    if (!p->kernel.rows) {
        run_by_planes(k, p, a);
        return;
    }
    if (a.partial) scratch = wf_cuda_scratch((size_t)(p->splits * a.results) * real_bytes);
    run_by_tiles(k, p, a, scratch);
    if (!a.partial) return;
    with_float_type(k->out[0]->dtype,
                    [&](auto e) { add_up<typename decltype(e)::type>(k, p, a, scratch); });
}

weft_status prepare_convolution(wf_kernel_call *k, enum pass pass)
{
    static wf_kernel_run *const runs[] = {run_convolution<FORWARD>, run_convolution<DX>,
                                          run_convolution<DW>};
    const wf_tensor_desc *d[OPERANDS] = {NULL};
    uint8_t dtype = k->out[0]->dtype;
    conv_sizes sizes;
    convolution *p;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, dtype));
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    for (int i = 0; i < OPERANDS; i++) {
        int from = input_of[pass][i];

        d[i] = from >= 0 && from < k->n_in ? k->in[from] : i == BIAS ? NULL : k->out[0];
    }
    sizes = sizes_of(d, k->attrs->conv);
    WF_NEED_LOCAL(within_limit(sizes), WEFT_ERR_SHAPE,
                  "%s: on a GPU places, taps and channels are below 2^29", k->op);
    k->prep = p = WF_NEW(convolution);
    k->run = runs[pass];
    set_sizes(&p->arguments, pass, sizes, d, k->attrs->conv.grouped);
    choose_kernel(p, pass, dtype, sizes);
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_conv(struct wf_kernel_call *k)
{
    return prepare_convolution(k, FORWARD);
}

extern "C" weft_status wf_cuda_conv_dx(struct wf_kernel_call *k)
{
    return prepare_convolution(k, DX);
}

extern "C" weft_status wf_cuda_conv_dw(struct wf_kernel_call *k)
{
    return prepare_convolution(k, DW);
}
