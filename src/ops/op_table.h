/*
 * op_table.h: the columns of a row of ops.def, and the arguments of its functions.
 */
#pragma once

#include "autograd/tape.h"
#include "ops/dispatch_op.h"

/** A call while its plan is made: global metadata only, equal on every rank. */
struct wf_infer {
    const struct wf_op_row *row;
    const char *name; /* for messages */
    int n_in, n_out;
    const struct wf_layout *in[WF_MAX_IN]; /* NULL: optional input left out */
    const union wf_op_attrs *attrs;        /* in the row's member */
    int attr_words;                        /* how much of them is given */
    const struct wf_layout *want;
    bool in_place; /* the result is written over a tensor of the layout `want` */
    bool requires_grad;
    struct {
        weft_dtype dtype;
        int ndim; /* -1: output not made */
        int64_t shape[WEFT_MAX_DIMS];
    } out[WF_MAX_OUT]; /* filled in by the shape function */
    bool averages;     /* and this: what ranks make of their shards is averaged, not added up */
    double norm_power; /* and this, where partial outputs are norms */
};

/** Letters of a rule, one per dim: 0 may not be sharded; dims with the same letter > 0 are sharded
 * alike. */
struct wf_dim_labels {
    int8_t in[WF_MAX_IN][WEFT_MAX_DIMS];
    int8_t out[WF_MAX_OUT][WEFT_MAX_DIMS];
    int count;     /* letters used: 1 .. count */
    uint32_t even; /* bit of letters that only an even split may shard (windows of a convolution) */
    /**
     * NULL, or how output 0 is cut where input 0 is cut so, for an op of one input whose dims are
     * no dims of the result (a reshape): its placement on the last of `n_axes` axes, from the
     * input's on all of them, the last of which is a shard. False where there is none. It decides
     * about letters too.
     */
    bool (*follow)(const struct wf_infer *call, const weft_mesh *mesh, const weft_placement *in,
                   int n_axes, weft_placement *out);
};

/** The dim that has this letter; -1: none. `labels` of one operand. */
static inline int wf_dim_of_label(const int8_t *labels, int label)
{
    for (int d = 0; d < WEFT_MAX_DIMS; d++)
        if (labels[d] == label) return d;
    return -1;
}

/** A view of a strided box: strides of the result and its first element's distance, in elements. */
struct wf_view {
    int64_t stride[WEFT_MAX_DIMS];
    int64_t offset;
    int64_t step; /* distance per unit of the call's value v[0] (a slice's start) */
};

struct wf_op_plan;

typedef weft_status wf_shape_fn(struct wf_infer *call);
typedef void wf_rule_fn(const struct wf_infer *call, struct wf_dim_labels *labels);
/** False when strides cannot express it: the input is made row-major first. `shape`: the result's
 * box. */
typedef bool wf_view_fn(const struct wf_infer *call, const struct wf_tensor_desc *in,
                        const int64_t *shape, struct wf_view *view);
/** Decides layouts itself (conversions). */
typedef weft_status wf_planner(struct wf_op_plan *plan, const struct wf_infer *call);

enum {
    WF_ANY_REDUCE = 1 << 30,
    WF_FLOATS_ONLY = 1 << 29,
    WF_BOXES_ONLY = 1 << 28,
    WF_RISING = 1 << 27,
    WF_CONVERTS = 1 << 26,
    WF_ONLY_SHIFT = 24,
    WF_MAX_ONLY = 3,
    WF_ADDEND_SHIFT = 16,
    WF_MAX_ADDEND = 0xff
};

/** What becomes of operands of several dtypes, and of one that the op does not take. */
enum wf_promotes {
    WF_PROMOTES_NOTHING, /* refused */
    WF_PROMOTES_ALL,     /* cast to one */
    WF_PROMOTES_CHOSEN,  /* all but the first, a condition */
    WF_PROMOTES_FLOATS   /* cast to one float: integers and bool are f32 */
};

/** Bit 31 of `linear`: complex numbers pass too (ops/pointwise/complex.c). */
#define WF_TAKES_COMPLEX ((uint32_t)1 << 31)

struct wf_op_row {
    const char *name;
    enum wf_attrs_kind attrs;
    int n_in, n_required, n_out;
    const char *rule_text;
    wf_rule_fn *rule;
    uint32_t linear; /* two sets of 8 bits, addends at 16, WF_ANY_REDUCE: other reductions pass too,
                        WF_FLOATS_ONLY: integers have no partial sums here,
                        WF_BOXES_ONLY: shards must be single runs, but of a star's dims,
                        WF_RISING: a larger element never gives a smaller one, so maxima and minima
                        pass instead of sums, unless the result is bool,
                        two bits at 24: a weft_reduce, terms of which pass alone
                        (WEFT_PRODUCT .. WEFT_MIN),
                        WF_CONVERTS: nothing is computed but another dtype,
                        WF_TAKES_COMPLEX: complex numbers pass too */
    uint8_t promotes; /* enum wf_promotes: operands of several dtypes are cast to one */
    weft_reduce reduce;
    wf_shape_fn *shape;
    wf_kernel_prepare *
        prepare; /* instead of `kernel`, whatever the device; NULL beside WF_KERNEL_COUNT: a view */
    wf_view_fn *view;
    wf_planner *planner;
    uint32_t saves;        /* bits 0-7 inputs, 8-11 outputs */
    enum wf_kernel kernel; /* WF_KERNEL_COUNT: none of the table */
    wf_vjp *vjp;
};

extern const struct wf_op_row wf_ops[WF_OP_COUNT];

/** The op has a kernel, which fills its outputs; else it is a view. */
static inline bool wf_op_has_kernel(const struct wf_op_row *row)
{
    return row->kernel != WF_KERNEL_COUNT || row->prepare;
}

/**
 * Where a call's operands have to be cast first: the dtype, as PyTorch's promotion has it
 * (ops/pointwise/promotion.c), and bits of those to cast. false: they go as they are
 */
bool wf_promotion(const struct wf_infer *call, weft_dtype *dtype, uint32_t *cast);

/** Label dims from rule_text or the row's function. */
void wf_label_dims(const struct wf_infer *call, struct wf_dim_labels *labels);

/** Shards of dims with this label must be single runs: the kernel asks where they begin. */
bool wf_label_needs_contiguous_shards(const struct wf_infer *call, int label);

/** True where terms of this reduction pass through the sets of the op's linear column. */
bool wf_op_passes_partial(const struct wf_infer *call, weft_reduce reduce);
