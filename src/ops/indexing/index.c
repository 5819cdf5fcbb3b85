/* index.c: elements chosen by index tensors that count whole dims: x[i], x[:, i], x[i, :, j]. */
#include <weft/factory.h>
#include <weft/ops.h>

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/recorder.h"
#include "ops/call_dims.h"
#include "ops/indexing/index_calls.h"
#include "ops/indexing/index_dims.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_status wf_shape_index(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;
    struct wf_index_dims dims;

    WF_TRY(wf_index_dims_init(&dims, call, x->ndim, false));
    call->out[0].dtype = (weft_dtype)x->dtype;
    call->out[0].ndim = dims.rows_ndim;
    for (int r = 0; r < dims.n_rest; r++)
        call->out[0].shape[wf_row_dim_of_table(&dims, r)] = x->global[dims.rest[r]];
    for (int d = 0; d < dims.index_ndim; d++) call->out[0].shape[dims.at + d] = dims.index_shape[d];
    return WEFT_OK;
}

/*
 * Dims that are not counted are dims of the result, those of the index tensors too. Of a counted
 * dim that is cut each rank gives the elements it has, so the ranks' results add up; u8 and bool
 * cannot be added up.
 */
void wf_rule_index(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    weft_dtype dtype = call->out[0].dtype;
    struct wf_index_dims dims;

    if (wf_index_dims_init(&dims, call, wf_ndim_of_input(call, 0), false) != WEFT_OK) return;
    for (int d = 0; d < dims.rows_ndim; d++) labels->out[0][d] = (int8_t)(d + 1);
    labels->count = dims.rows_ndim;
    for (int r = 0; r < dims.n_rest; r++)
        labels->in[0][dims.rest[r]] = (int8_t)(wf_row_dim_of_table(&dims, r) + 1);
    wf_label_index_tensors(call, &dims, call->out[0].shape, labels);
    for (int d = 0; d < wf_ndim_of_input(call, 0); d++)
        if (dims.counted >> d & 1 && wf_dtype_can_reduce(dtype, WEFT_SUM))
            labels->in[0][d] = (int8_t)++labels->count;
}

void wf_label_index_tensors(const struct wf_infer *call, const struct wf_index_dims *dims,
                            const int64_t *rows_shape, struct wf_dim_labels *labels)
{
    for (int i = 0; i < dims->n_indices; i++) {
        const struct wf_tensor_desc *index = &call->in[dims->input[i]]->desc;

        for (int d = 0; d < index->ndim; d++) {
            int row = wf_row_dim_of_index_tensor(dims, call, i, d);

            if (index->global[d] == rows_shape[row])
                labels->in[dims->input[i]][d] = (int8_t)(row + 1);
        }
    }
}

weft_tensor *wf_call_index(weft_tensor *x, weft_tensor *const *index, int n,
                           const struct wf_index_attrs *attrs)
{
    struct wf_op_args args = {.attr_words = (int)(sizeof *attrs / sizeof(uint64_t)),
                              .attrs = attrs};
    weft_tensor *in[WF_MAX_IN] = {x};

    memcpy(in + 1, index, (size_t)n * sizeof *index);
    return wf_dispatch_op_one_output(WF_OP_index, in, n + 1, &args);
}

void wf_vjp_index(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    struct wf_layout *x = plan->in[0];
    weft_tensor *index[WF_MAX_IN] = {0};

    for (int i = 1; i < plan->n_in; i++) index[i - 1] = wf_saved_input(n, i);
    in[0] = wf_call_index_put(WF_OP_index_add, NULL, index, plan->n_in - 1, g, &plan->attrs.index,
                              &x->desc, x);
}

/* ---- public functions ---- */

weft_tensor *weft_index_select(weft_tensor *x, int dim, weft_tensor *index)
{
    struct wf_index_attrs attrs;
    int d;

    if (!x || !index) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "index_select"));
    WF_TRY_PTR(wf_tensor_need_alive(index, "index_select"));
    if (weft_ndim(index) == 0) index = weft_atleast_nd(index, 1);
    if (index && wf_is_dim_of_scalar(x, dim)) {
        WF_NEED_PTR(weft_numel(index) == 1, WEFT_ERR_SHAPE,
                    "index_select: %lld indices for a tensor without dims",
                    (long long)weft_numel(index));
        return weft_reshape(weft_index_select(weft_atleast_nd(x, 1), 0, index), NULL, 0);
    }
    if (!index) return NULL;
    d = wf_normalize_dim(dim, weft_ndim(x), "index_select");
    if (d < 0) return NULL;
    WF_NEED_PTR(weft_ndim(index) == 1, WEFT_ERR_SHAPE,
                "index_select: the index has %d dims, not 1; see weft_index", weft_ndim(index));
    attrs = wf_index_attrs_of_dim(d);
    return wf_call_index(x, &index, 1, &attrs);
}

struct wf_index_attrs wf_index_attrs_of_dim(int dim)
{
    struct wf_index_attrs attrs = {.at = dim};

    memset(attrs.dim, -1, sizeof attrs.dim);
    attrs.dim[0] = (int8_t)dim;
    return attrs;
}

weft_status wf_read_indices(const char *who, const weft_tensor *x, weft_tensor *const *index, int n,
                            weft_tensor **given, int *n_given, struct wf_index_attrs *attrs)
{
    int first = -1, last = -1, count = 0;

    WF_TRY(wf_tensor_need_alive(x, who));
    WF_NEED(index && n >= 1 && n <= weft_ndim(x), WEFT_ERR_ARG,
            "%s: %d index tensors for a tensor with %d dims", who, n, weft_ndim(x));
    *attrs = (struct wf_index_attrs){.wrap = true};
    memset(attrs->dim, -1, sizeof attrs->dim);
    for (int d = 0; d < n; d++) {
        if (!index[d]) continue;
        WF_TRY(wf_tensor_need_alive(index[d], who));
        if (first < 0) first = d;
        last = d;
        attrs->dim[count] = (int8_t)d;
        given[count++] = index[d];
    }
    WF_NEED(count > 0, WEFT_ERR_ARG, "%s: no index tensor is given", who);
    *n_given = count;
    /* Side by side they stand for their dims; with others between them their dims come first. */
    attrs->at = last - first + 1 == count ? first : 0;
    return WEFT_OK;
}

weft_tensor *weft_index(weft_tensor *x, weft_tensor *const *index, int n)
{
    weft_tensor *given[WEFT_MAX_DIMS];
    struct wf_index_attrs attrs;
    int count;

    if (!x) return NULL;
    WF_TRY_PTR(wf_read_indices("index", x, index, n, given, &count, &attrs));
    WF_NEED_PTR(count < WF_MAX_IN, WEFT_ERR_ARG, "index: %d index tensors; %d are the most", count,
                WF_MAX_IN - 1);
    return wf_call_index(x, given, count, &attrs);
}

/* ---- index tensors that the library makes ---- */

/* A plain tensor that all ranks have made alike, as a distributed one on x's mesh. */
static weft_tensor *on_mesh_of(const weft_tensor *x, weft_tensor *t)
{
    static const weft_placement replicated[WEFT_MAX_AXES];

    return t && x->layout->mesh ? weft_from_local(t, x->layout->mesh, replicated, NULL) : t;
}

/* It follows from sizes and attributes, so it is the same in every run of a list, which has it as a
 * constant: nobody records how it is made. */
weft_tensor *wf_index_like(const weft_tensor *x, const int64_t *index, int64_t n)
{
    weft_device before = weft_set_default_device(WEFT_CPU);
    struct wf_recorder *recorder = wf_recorder;
    weft_tensor *t;

    if (recorder && recorder->is_whole) wf_recorder = NULL;
    t = weft_from_data(WEFT_I64, &n, 1, index);
    weft_set_default_device(before);
    if (t) t = weft_to_device(t, weft_tensor_device(x));
    t = on_mesh_of(x, t);
    wf_recorder = recorder;
    return t;
}

weft_tensor *wf_replicated_number(const weft_tensor *x, weft_dtype dtype, double value)
{
    weft_device before = weft_set_default_device(weft_tensor_device(x));
    weft_tensor *t = weft_full(dtype, NULL, 0, value);

    weft_set_default_device(before);
    return on_mesh_of(x, t);
}

weft_tensor *wf_replicated_count(const weft_tensor *x, int64_t n)
{
    weft_spec spec = {.dtype = WEFT_I64,
                      .ndim = 1,
                      .shape = {n},
                      .mesh = x->layout->mesh,
                      .device = weft_tensor_device(x)};

    return weft_make_arange(spec, 0, 1);
}
