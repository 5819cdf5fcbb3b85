/*
 * shape.h: the same elements in another shape, cut or joined.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/* ---- shape; views share storage where strides allow ---- */
/** The same elements in another shape, one of whose sizes may be -1: a view, or a copy where this
 * rank's strides allow none. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *x, const int64_t *shape, int ndim);
/**
 * The same elements in another shape without a copy.
 *
 * What both say of shards: flattening dims of which an inner one is sharded gives a strided shard,
 * unflattening that gives the shard back, and nothing is sent; where no placement holds what the
 * ranks have (an uneven shard of a dim with others behind it) the input is redistributed first,
 * which weft_guard_open can forbid.
 * fails: WEFT_ERR_SHAPE where a copy would be needed: where dims that are joined do not lie as one.
 *        That follows from this rank's strides, and ends the job where those of other ranks may
 *        differ: where shards differ in shape, or come from weft_from_local without a stride
 */
WEFT_API weft_tensor *weft_view(weft_tensor *x, const int64_t *shape, int ndim);
/** Dims `start` to `end`, both included, as one; all as one; one as several, of whose sizes one may
 *  be -1. */
WEFT_API weft_tensor *weft_flatten(weft_tensor *x, int start, int end);
WEFT_API weft_tensor *weft_ravel(weft_tensor *x);
WEFT_API weft_tensor *weft_unflatten(weft_tensor *x, int dim, const int64_t *sizes, int n);
/** Without those of the named dims (n = 0: of all) that have size 1; with a new one before dim
 *  `dim`. */
WEFT_API weft_tensor *weft_squeeze(weft_tensor *x, const int *dims, int n);
WEFT_API weft_tensor *weft_unsqueeze(weft_tensor *x, int dim);
/** At least 1, 2 or 3 dims, as PyTorch's atleast_1d, 2d and 3d add them: [n] -> [1,n], [1,n,1];
 *  [n,m] -> [n,m,1]. */
WEFT_API weft_tensor *weft_atleast_nd(weft_tensor *x, int ndim);
WEFT_API weft_tensor *weft_permute(weft_tensor *x, const int *order);
WEFT_API weft_tensor *weft_transpose(weft_tensor *x, int dim0, int dim1);
/** Dims from[i] become dims to[i]; the others keep their order. */
WEFT_API weft_tensor *weft_movedim(weft_tensor *x, const int *from, const int *to, int n);
/** The transpose of a matrix; what has fewer dims as it is. */
WEFT_API weft_tensor *weft_t(weft_tensor *x);
/**
 * Elements [start, end) of a dim; negative bounds count from the end.
 *
 * ranks: every rank of x's mesh. Of a dim that is sharded a small slice is sent alone, by one
 *        all-reduce, and is replicated along its axes then; for a longer one the dim is brought
 *        together
 * fails: WEFT_ERR_ARG for bounds outside the dim
 * grad:  zeros elsewhere; nothing is sent for the gradient of a small slice
 */
WEFT_API weft_tensor *weft_slice(weft_tensor *x, int dim, int64_t start, int64_t end);
/**
 * x[start:end:step] as Python takes it: negative bounds count from the end, and bounds beyond the
 * dim are at its end (INT64_MAX: to the end). A view; otherwise as weft_slice.
 * fails: WEFT_ERR_ARG for a step that is not positive
 */
WEFT_API weft_tensor *weft_slice_step(weft_tensor *x, int dim, int64_t start, int64_t end,
                                      int64_t step);
/** `length` elements from `start` on; otherwise as weft_slice. */
WEFT_API weft_tensor *weft_narrow(weft_tensor *x, int dim, int64_t start, int64_t length);
/** One element of a dim, which disappears; otherwise as weft_slice. */
WEFT_API weft_tensor *weft_select(weft_tensor *x, int dim, int64_t index);
/** `n` pieces by sizes[] (NULL: equal ones); pieces are written to out[]. A dim that is cut is
 *  brought together once.
 *  fails: WEFT_ERR_SHAPE unless sizes add up, or `n` divides the dim */
WEFT_API weft_status weft_split(weft_tensor **out, weft_tensor *x, int dim, const int64_t *sizes,
                                int n);
/** Pieces of `size` elements, the last one of what is left; room for ceil(dim / size).
 *  gives: their number, -1 with an error */
WEFT_API int weft_split_size(weft_tensor **out, weft_tensor *x, int dim, int64_t size);
/** At most `n` pieces of ceil(dim / n) elements (PyTorch: chunk).
 *  gives: their number, which may be less than n; -1 with an error */
WEFT_API int weft_split_chunks(weft_tensor **out, int n, weft_tensor *x, int dim);
/** `n` pieces whose sizes differ by at most one, the larger ones first (PyTorch: tensor_split). */
WEFT_API weft_status weft_split_even(weft_tensor **out, int n, weft_tensor *x, int dim);
/** Each element of a dim, which disappears; room for as many as the dim has. */
WEFT_API weft_status weft_unbind(weft_tensor **out, weft_tensor *x, int dim);
/** Tensors one behind the other along a dim, which have the same sizes in the others. Of several
 *  dtypes, as torch, the one in which they meet; a tensor [0] joins any. fails: WEFT_ERR_SHAPE */
WEFT_API weft_tensor *weft_cat(weft_tensor *const *x, int n, int dim);
/** Joined along a new dim; along dim 1 (of single dims 0); along dim 0 as rows. */
WEFT_API weft_tensor *weft_stack(weft_tensor *const *x, int n, int dim);
WEFT_API weft_tensor *weft_hstack(weft_tensor *const *x, int n);
WEFT_API weft_tensor *weft_vstack(weft_tensor *const *x, int n);
/** Repeat dims of size 1 (and new leading dims) without copying; -1 keeps a size. */
WEFT_API weft_tensor *weft_expand(weft_tensor *x, const int64_t *shape, int ndim);
WEFT_API weft_tensor *weft_expand_as(weft_tensor *x, const weft_tensor *like);
/**
 * Row-major, with each dim so many times, one after the other: repeats[] are aligned at the last
 * dim. weft_repeat wants one for each dim at least. Repeating a dim that is sharded gives a strided
 * shard; x itself where nothing is repeated.
 */
WEFT_API weft_tensor *weft_tile(weft_tensor *x, const int64_t *repeats, int n);
WEFT_API weft_tensor *weft_repeat(weft_tensor *x, const int64_t *repeats, int n);
/** Each element of a dim so many times, beside itself. */
WEFT_API weft_tensor *weft_repeat_interleave(weft_tensor *x, int64_t repeats, int dim);
/** The named dims the other way round, copied; n = 0: a copy. */
WEFT_API weft_tensor *weft_flip(weft_tensor *x, const int *dims, int n);
/** Dim dims[i] turned by shifts[i]: element j goes to j + shift, and from the end to the start.
 *  dims NULL, one shift: all elements as one row. */
WEFT_API weft_tensor *weft_roll(weft_tensor *x, const int64_t *shifts, const int *dims, int n);

/** What stands around a padded tensor. */
typedef enum weft_pad_mode {
    WEFT_PAD_CONSTANT,  /* a value */
    WEFT_PAD_REFLECT,   /* the elements mirrored, without the first and the last one */
    WEFT_PAD_REPLICATE, /* the first and the last one */
    WEFT_PAD_CIRCULAR   /* the elements from the other end */
} weft_pad_mode;

/**
 * Elements before and after those of the last n_dims dims: pads[0] and pads[1] of the last one,
 * pads[2] and pads[3] of the one before it, and so on, as PyTorch's F.pad takes them. With
 * WEFT_PAD_CONSTANT negative numbers take elements away.
 *
 * A partial sum stays one when it is padded with 0; with another value it is reduced first. A dim
 * that is padded cannot stay cut.
 * fails: WEFT_ERR_SHAPE where a dim is too short
 */
WEFT_API weft_tensor *weft_pad(weft_tensor *x, const int64_t *pads, int n_dims, weft_pad_mode mode,
                               double value);
/** Of matrices [*,n,m] what lies on or below / above diagonal number `diagonal` (0: the main one,
 *  positive: above it), zeros elsewhere. */
WEFT_API weft_tensor *weft_tril(weft_tensor *x, int64_t diagonal);
WEFT_API weft_tensor *weft_triu(weft_tensor *x, int64_t diagonal);
/** A diagonal of the matrices that two dims make, as the last dim: a view where they lie row-major.
 */
WEFT_API weft_tensor *weft_diagonal(weft_tensor *x, int64_t offset, int dim0, int dim1);
/** Matrices with the last dim on a diagonal, zeros elsewhere; weft_diag does that with a vector,
 *  and takes the diagonal of a matrix. */
WEFT_API weft_tensor *weft_diag_embed(weft_tensor *x, int64_t offset);
WEFT_API weft_tensor *weft_diag(weft_tensor *x, int64_t offset);
/**
 * A row-major copy, or x itself where it is row-major already. As with weft_reshape that may differ
 * between ranks, whose shards differ: backward takes a write in place to one for a write to both.
 */
WEFT_API weft_tensor *weft_contiguous(weft_tensor *x);
/** A row-major copy with storage of its own. */
WEFT_API weft_tensor *weft_clone(weft_tensor *x);
/** x in the dtype of `like`. */
WEFT_API weft_tensor *weft_type_as(weft_tensor *x, const weft_tensor *like);
/**
 * Write x over the elements of `into`, which may be a view of a larger tensor with any strides; x
 * may be another view of it, and counts as it was before. x is cast, expanded to the shape of
 * `into`, and redistributed to its layout, so that a result of any op goes into a tensor that there
 * is (torch's `out=`); into a partial sum x is written as terms that add up to it.
 *
 * ranks: every rank of the tensors' mesh
 * grad:  none; a backward that saved the old elements is refused
 * fails: WEFT_ERR_SHAPE when x does not expand to the shape, or one of them alone is distributed
 *        and x no number; WEFT_ERR_STATE when `into` is the result of a recorded op, or several of
 *        its elements lie at one place (weft_expand)
 */
WEFT_API weft_status weft_copy_(weft_tensor *into, weft_tensor *x);
/** The same values outside the tape. grad: none */
WEFT_API weft_tensor *weft_detach(weft_tensor *x);
