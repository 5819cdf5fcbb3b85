/* loop_nest.c: merging of dims. */
#include "kernels/operands/loop_nest.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"

struct wf_operand_strides wf_strides_broadcast(const struct wf_tensor_desc *in,
                                               const int64_t *shape, int ndim)
{
    struct wf_operand_strides s = {.bytes = wf_dtypes[in->dtype].size};
    int missing = ndim - in->ndim;

    for (int d = missing; d < ndim; d++) {
        bool repeated = in->shape[d - missing] == 1 && shape[d] != 1;

        s.stride[d] = repeated ? 0 : in->stride[d - missing];
    }
    return s;
}

struct wf_operand_strides wf_strides_row_major(int64_t bytes, const int64_t *shape, int ndim)
{
    struct wf_operand_strides s = {.bytes = bytes};

    wf_row_major_strides(s.stride, shape, ndim);
    return s;
}

static void add_or_merge_dim(struct wf_loop_nest *nest, int64_t size, int d,
                             const struct wf_operand_strides *operands)
{
    struct wf_loop_dim added = {.size = size}, *before = nest->dim + nest->n_dims - 1;
    bool joins = nest->n_dims > 0;

    for (int i = 0; i < nest->n_operands; i++) {
        added.step[i] = operands[i].stride[d] * operands[i].bytes;
        joins = joins && before->step[i] == added.step[i] * size;
    }
    if (joins)
        added.size *= before->size;
    else
        nest->n_dims++;
    nest->dim[nest->n_dims - 1] = added;
}

void wf_loop_nest_make(struct wf_loop_nest *nest, const int64_t *shape, int ndim,
                       const struct wf_operand_strides *operands, int n_operands)
{
    memset(nest, 0, sizeof *nest);
    nest->n_operands = n_operands;
    nest->count = 1;
    for (int d = 0; d < ndim; d++) {
        nest->count *= shape[d];
        if (shape[d] != 1) add_or_merge_dim(nest, shape[d], d, operands);
    }
}

void wf_loop_nest_of_dims(struct wf_loop_nest *nest, const struct wf_tensor_desc *x, int64_t dims,
                          bool in_set)
{
    struct wf_operand_strides operands[2] = {{.bytes = wf_dtypes[x->dtype].size}};
    int64_t shape[WEFT_MAX_DIMS];
    int n = 0;

    for (int d = 0; d < x->ndim; d++) {
        if (((dims >> d) & 1) != in_set) continue;
        operands[0].stride[n] = x->stride[d];
        shape[n++] = x->shape[d];
    }
    operands[1] = wf_strides_row_major(operands[0].bytes, shape, n);
    wf_loop_nest_make(nest, shape, n, operands, 2);
}

struct wf_loop_dim wf_loop_nest_remove_dim(struct wf_loop_nest *nest, int d)
{
    struct wf_loop_dim taken = {.size = 1};

    if (d < 0) return taken;
    taken = nest->dim[d];
    nest->n_dims--;
    memmove(nest->dim + d, nest->dim + d + 1, (size_t)(nest->n_dims - d) * sizeof taken);
    nest->count = 1;
    for (int i = 0; i < nest->n_dims; i++) nest->count *= nest->dim[i].size;
    return taken;
}
