/*
 * dispatch_op.h: the ops and what a call of one declares; wf_dispatch_op, through which every op
 * passes, is an upcall (base/upcalls.h): gradients are written with ops.
 */
#pragma once

#include "base/upcalls.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

enum wf_op {
#define WF_OP(name, ...) WF_OP_##name,
#define WF_VIEW(name, ...) WF_OP_##name,
#include "ops/ops.def"
#undef WF_OP
#undef WF_VIEW
    WF_OP_COUNT
};

/** What a call declares beside its tensors. Attributes are part of the plan's key, scalars never.
 */
struct wf_op_args {
    int attr_words;    /* of eight bytes: how much of them is given */
    const void *attrs; /* the struct that the op's row names (kernels/op_attrs.def) */
    struct wf_scalars scalars;
    bool draws; /* scalars v[0] and v[1] are a generator's seed and the number of a draw */
    struct wf_layout *want; /* the layout the result should have if that costs nothing more; for ops
                               without inputs, the layout it has */
    weft_tensor *into;      /* write the result here instead of making a tensor */
};

/** Attributes for an initialiser of wf_op_args: WF_ATTRS(slice, .dim = 0, .length = 4). */
#define WF_ATTRS(name, ...)                                                                        \
    .attr_words = (int)(sizeof(struct wf_##name##_attrs) / sizeof(uint64_t)),                      \
    .attrs = &(const struct wf_##name##_attrs)                                                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/** Words of attributes of whose last array only the first n elements are given. */
#define WF_ATTR_WORDS(name, array, n)                                                              \
    ((int)((offsetof(struct wf_##name##_attrs, array) +                                            \
            (size_t)(n) * sizeof(((struct wf_##name##_attrs *)0)->array[0])) /                     \
           sizeof(uint64_t)))

static inline weft_tensor *wf_dispatch_op_one_output(enum wf_op op, weft_tensor *const *in, int n,
                                                     const struct wf_op_args *args)
{
    return wf_dispatch_op(op, in, n, args, NULL);
}

static inline weft_tensor *wf_dispatch_unary_op(enum wf_op op, weft_tensor *a)
{
    weft_tensor *in[] = {a};

    return wf_dispatch_op(op, in, 1, NULL, NULL);
}

/**
 * A row-major copy where x cannot be seen in another shape as it lies. That follows from this
 * rank's strides, so other ranks may go on with x itself: a write to either counts as one to both.
 */
weft_tensor *wf_copy_row_major_for_view(weft_tensor *x);

static inline weft_tensor *wf_dispatch_binary_op(enum wf_op op, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *in[] = {a, b};

    return wf_dispatch_op(op, in, 2, NULL, NULL);
}
