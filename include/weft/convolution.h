/*
 * convolution.h: convolutions, pooling and resizing, over the last one to three dims.
 *
 * What weft/ops.h says of every op holds here. Sizes of options are those of the last dims, in
 * their order; what is not given is 0 and means what is said. Names and values are torch's.
 *
 * Batch and channels may be sharded where they are. A convolution's result is sharded in its
 * channels as the weight's dim 0 is, and a partial sum where the channels that go in are sharded;
 * of groups a rank may have some, where they divide. A place (a last dim) that is sharded stays so
 * where each window is a run of its own (stride = kernel size, no padding, even shards of whole
 * windows), and in one and two dims where windows reach no further than a part of the neighbours'
 * places (even shards, as many results as places, or as strides): then only these are sent.
 * Otherwise, and for pooling, it is gathered.
 *
 * ranks: every rank of the inputs' mesh
 * fails: also WEFT_ERR_SHAPE where a window is larger than what it is moved over
 */
#pragma once

#include <weft/tensor.h>

/** Options of weft_conv1d, weft_conv2d and weft_conv3d. */
typedef struct weft_conv_options {
    int64_t stride[3];   /* 0: 1 */
    int64_t padding[3];  /* zeros before and behind */
    int64_t dilation[3]; /* places from tap to tap; 0: 1 */
    int64_t groups;      /* of the channels, which see their own group alone; 0: 1 */
    bool causal;         /* the padding stands before alone: no place sees a later one */
} weft_conv_options;

/**
 * x [N,C,..] or [C,..], w [O,C/groups,..], bias [O] or NULL -> [N,O,..] or [O,..].
 *
 * grad:  to x, w and bias
 */
WEFT_API weft_tensor *weft_conv1d(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                  weft_conv_options options);
WEFT_API weft_tensor *weft_conv2d(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                  weft_conv_options options);
WEFT_API weft_tensor *weft_conv3d(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                  weft_conv_options options);

/** Options of transposed convolutions, as of the convolution that they transpose. */
typedef struct weft_conv_transpose_options {
    int64_t stride[3];         /* 0: 1 */
    int64_t padding[3];        /* places that are left out at both ends */
    int64_t output_padding[3]; /* places more at the end, less than the stride */
    int64_t dilation[3];       /* 0: 1 */
    int64_t groups;            /* 0: 1 */
} weft_conv_transpose_options;

/**
 * x [N,C,..], w [C,O/groups,..], bias [O] or NULL -> [N,O,..]: the gradient that a convolution with
 * this weight gives to its input, and torch's conv_transpose.
 *
 * grad:  to x, w and bias
 */
WEFT_API weft_tensor *weft_conv_transpose1d(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                            weft_conv_transpose_options options);
WEFT_API weft_tensor *weft_conv_transpose2d(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                            weft_conv_transpose_options options);

/** Options of pooling. */
typedef struct weft_pool_options {
    int64_t kernel[3];    /* of the window */
    int64_t stride[3];    /* 0: the window's size */
    int64_t padding[3];   /* before and behind, at most half a window: never a maximum */
    int64_t dilation[3];  /* of a maximum; 0: 1 */
    bool ceil;            /* a last window may reach beyond the end */
    bool exclude_padding; /* from an average's count */
} weft_pool_options;

/**
 * The largest element of each window, x [*,..] -> [*,..]; not-a-number is larger than any number.
 *
 * gives: in `indices` (NULL: not wanted) where it is in the last dims seen as one, i64
 * grad:  to the element that was taken; of equal ones the first. The indices have none
 */
WEFT_API weft_tensor *weft_max_pool1d(weft_tensor *x, weft_pool_options options,
                                      weft_tensor **indices);
WEFT_API weft_tensor *weft_max_pool2d(weft_tensor *x, weft_pool_options options,
                                      weft_tensor **indices);
WEFT_API weft_tensor *weft_max_pool3d(weft_tensor *x, weft_pool_options options,
                                      weft_tensor **indices);

/** The mean of each window. A partial sum stays one. */
WEFT_API weft_tensor *weft_avg_pool1d(weft_tensor *x, weft_pool_options options);
WEFT_API weft_tensor *weft_avg_pool2d(weft_tensor *x, weft_pool_options options);
WEFT_API weft_tensor *weft_avg_pool3d(weft_tensor *x, weft_pool_options options);

/** Means of as many windows as `size` says, which cover a dim evenly. With all sizes 1 it is
 * weft_mean, for which places may be sharded too. */
WEFT_API weft_tensor *weft_adaptive_avg_pool1d(weft_tensor *x, int64_t size);
WEFT_API weft_tensor *weft_adaptive_avg_pool2d(weft_tensor *x, const int64_t size[2]);
WEFT_API weft_tensor *weft_adaptive_avg_pool3d(weft_tensor *x, const int64_t size[3]);

/** How elements between those there are come about. */
typedef enum weft_interpolation {
    WEFT_NEAREST,       /* the one at or before the place (torch's "nearest") */
    WEFT_NEAREST_EXACT, /* the nearest (torch's "nearest-exact") */
    WEFT_LINEAR,        /* of two in each dim: linear, bilinear, trilinear */
    WEFT_CUBIC          /* of four (Keys, 1981, a = -0.75): bicubic */
} weft_interpolation;

/** Options of weft_interpolate. */
typedef struct weft_interpolate_options {
    int64_t size[3]; /* of the result; 0: by scale */
    double scale[3]; /* the result's size in terms of x's, rounded down */
    weft_interpolation mode;
    bool align_corners; /* of linear and cubic: the first and last elements keep their places */
} weft_interpolate_options;

/** x [N,C,..] -> [N,C,..], of one to three last dims. A partial sum stays one.
 *  fails: WEFT_ERR_ARG where neither size nor scale is given */
WEFT_API weft_tensor *weft_interpolate(weft_tensor *x, weft_interpolate_options options);
