/* index_put.c: elements put, or added, where index tensors that count whole dims point. */
#include <weft/ops.h>

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/indexing/index_calls.h"
#include "ops/indexing/index_dims.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

static int table_ndim(const struct wf_infer *call)
{
    int n = 0;

    if (call->in[2]) return call->in[2]->desc.ndim;
    while (n < WEFT_MAX_DIMS && call->attrs->index_put.dim[n] >= 0) n++;
    return n + call->in[0]->desc.ndim;
}

/* rows, index 0, table or NULL, the other index tensors */
weft_status wf_shape_index_put(struct wf_infer *call)
{
    const struct wf_tensor_desc *rows = &call->in[0]->desc;
    const struct wf_layout *table = call->in[2];
    struct wf_index_dims dims;
    int ndim = table_ndim(call);
    bool fits;

    if (!table) { /* without it the index tensors' dims are known last */
        WF_TRY(wf_index_dims_init(&dims, call, 0, true));
        ndim = rows->ndim - dims.index_ndim + dims.n_counted;
    }
    WF_TRY(wf_index_dims_init(&dims, call, ndim, true));
    call->out[0].dtype = (weft_dtype)rows->dtype;
    call->out[0].ndim = ndim;
    for (int d = 0; d < ndim; d++)
        call->out[0].shape[d] = table ? table->desc.global[d] : call->attrs->index_put.size[d];
    fits = rows->ndim == dims.rows_ndim && (!table || table->desc.dtype == rows->dtype);
    for (int r = 0; fits && r < dims.n_rest; r++) {
        int row = wf_row_dim_of_table(&dims, r);

        fits = rows->global[row] == call->out[0].shape[dims.rest[r]];
    }
    for (int d = 0; fits && d < dims.index_ndim; d++)
        fits = rows->global[dims.at + d] == dims.index_shape[d];
    WF_NEED(fits, WEFT_ERR_SHAPE,
            "%s: shape or dtype of the values, the first, is not that of what is indexed, the "
            "third: %s",
            call->name, wf_infer_inputs_text(call));
    return WEFT_OK;
}

/*
 * Dims of the table are dims of the result; of a counted dim that is cut each rank takes what
 * belongs to its part. What an index tensor's dim is cut into can be added up, but which of several
 * values for one place comes last would be lost.
 */
static void label_index_put(const struct wf_infer *call, struct wf_dim_labels *labels, bool add)
{
    int ndim = call->out[0].ndim;
    struct wf_index_dims dims;

    if (wf_index_dims_init(&dims, call, ndim, true) != WEFT_OK) return;
    if (add) {
        wf_label_index_tensors(call, &dims, call->in[0]->desc.global, labels);
        for (int d = 0; d < dims.index_ndim; d++)
            labels->in[0][dims.at + d] = (int8_t)(dims.at + d + 1);
    }
    for (int r = 0; r < dims.n_rest; r++) {
        int row = wf_row_dim_of_table(&dims, r);

        labels->in[0][row] = (int8_t)(row + 1);
        labels->out[0][dims.rest[r]] = (int8_t)(row + 1);
    }
    labels->count = dims.rows_ndim;
    for (int d = 0; d < ndim; d++) {
        if (dims.counted >> d & 1) labels->out[0][d] = (int8_t)++labels->count;
        if (call->in[2]) labels->in[2][d] = labels->out[0][d];
    }
}

void wf_rule_index_put(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    label_index_put(call, labels, false);
}

void wf_rule_index_add(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    weft_dtype dtype = call->out[0].dtype;

    label_index_put(call, labels, wf_dtype_can_reduce(dtype, WEFT_SUM));
}

weft_tensor *wf_call_index_put(enum wf_op op, weft_tensor *x, weft_tensor *const *index, int n,
                               weft_tensor *rows, const struct wf_index_attrs *attrs,
                               const struct wf_tensor_desc *like, struct wf_layout *want)
{
    struct wf_index_put_attrs put = {.at = attrs->at, .wrap = attrs->wrap};
    struct wf_op_args args = {
        .attr_words = (int)(sizeof put / sizeof(uint64_t)), .attrs = &put, .want = want};
    weft_tensor *in[WF_MAX_IN] = {rows, index[0], x};

    memcpy(put.dim, attrs->dim, sizeof put.dim);
    if (!x) memcpy(put.size, like->global, (size_t)like->ndim * sizeof *put.size);
    for (int i = 1; i < n; i++) in[i + 2] = index[i];
    return wf_dispatch_op_one_output(op, in, n + 2, &args);
}

/* ---- gradients ---- */

static int saved_indices(const struct wf_tape_node *n, weft_tensor **index)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    int count = 0;

    for (int i = 1; i < plan->n_in; i++)
        if (i != 2) index[count++] = wf_saved_input(n, i);
    return count;
}

/* Of the op `index` that reads the places which an index_put writes. */
static struct wf_index_attrs attrs_for_reading_what_is_put(const struct wf_op_plan *plan)
{
    struct wf_index_attrs attrs = {.at = plan->attrs.index_put.at,
                                   .wrap = plan->attrs.index_put.wrap};

    memcpy(attrs.dim, plan->attrs.index_put.dim, sizeof attrs.dim);
    return attrs;
}

void wf_vjp_index_add(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    struct wf_index_attrs attrs = attrs_for_reading_what_is_put(plan);
    weft_tensor *index[WF_MAX_IN] = {0};
    int count = saved_indices(n, index);

    if (wf_tape_node_needs_grad(n, 0)) in[0] = wf_call_index(g, index, count, &attrs);
    if (wf_tape_node_needs_grad(n, 2)) in[2] = g;
}

/*
 * Which of the index tensors' elements stay, as bool with their shape: each writes its number where
 * it points, in a table of the counted dims alone, and those stay that find it there.
 */
static weft_tensor *elements_that_stay(const struct wf_layout *table, weft_tensor *const *index,
                                       int count, const struct wf_index_attrs *attrs)
{
    struct wf_index_attrs alone = {.wrap = attrs->wrap};
    int64_t numel = 1, sizes[WEFT_MAX_DIMS];
    weft_tensor *number = index[0], *last;

    memset(alone.dim, -1, sizeof alone.dim);
    for (int i = 0; i < count; i++) {
        alone.dim[i] = (int8_t)i;
        sizes[i] = table->desc.global[attrs->dim[i]];
        number = weft_add(weft_mul_scalar(weft_cast(number, WEFT_I64), 0),
                          weft_mul_scalar(weft_cast(index[i], WEFT_I64), 0)); /* broadcast */
    }
    if (!number) return NULL;
    numel = weft_numel(number);
    number = wf_reshape_to(wf_replicated_count(index[0], numel), number->layout->desc.global,
                           weft_ndim(number), NULL);
    last = weft_expand(wf_replicated_number(index[0], WEFT_I64, 0), sizes, count);
    last = wf_call_index_put(WF_OP_index_put, last, index, count, number, &alone, NULL, NULL);
    return last ? weft_eq(wf_call_index(last, index, count, &alone), number) : NULL;
}

/* The gradient of the values: of several for one place only the last has one. */
static weft_tensor *gradient_of_put_values(const struct wf_tape_node *n, weft_tensor *g,
                                           weft_tensor *const *index, int count,
                                           const struct wf_index_attrs *attrs)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    weft_tensor *stays = elements_that_stay(plan->in[2], index, count, attrs);
    int rest_behind = plan->in[0]->desc.ndim - (int)attrs->at - (stays ? weft_ndim(stays) : 0);

    for (int i = 0; stays && i < rest_behind; i++) stays = weft_unsqueeze(stays, -1);
    if (!stays) return NULL;
    g = wf_call_index(g, index, count, attrs);
    return g ? weft_where(stays, g, weft_full(weft_tensor_dtype(g), NULL, 0, 0)) : NULL;
}

void wf_vjp_index_put(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    struct wf_index_attrs attrs = attrs_for_reading_what_is_put(plan);
    weft_tensor *index[WF_MAX_IN] = {0};
    int count = saved_indices(n, index);

    if (wf_tape_node_needs_grad(n, 0)) in[0] = gradient_of_put_values(n, g, index, count, &attrs);
    if (wf_tape_node_needs_grad(n, 2)) {
        weft_tensor *zero = wf_replicated_number(g, weft_tensor_dtype(g), 0);

        zero = weft_expand(zero, plan->in[0]->desc.global, plan->in[0]->desc.ndim);
        in[2] =
            wf_call_index_put(WF_OP_index_put, g, index, count, zero, &attrs, NULL, plan->in[2]);
    }
}

/* ---- public functions ---- */

weft_tensor *weft_index_put(weft_tensor *x, weft_tensor *const *index, int n, weft_tensor *values,
                            bool accumulate)
{
    weft_tensor *given[WEFT_MAX_DIMS];
    struct wf_index_attrs attrs;
    struct wf_index_dims dims;
    struct wf_infer call = {.name = "index_put"};
    union wf_op_attrs call_attrs;
    int64_t rows[WEFT_MAX_DIMS];
    int count;

    if (!x || !values) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(values, "index_put"));
    WF_TRY_PTR(wf_read_indices("index_put", x, index, n, given, &count, &attrs));
    WF_NEED_PTR(count <= WF_MAX_IN - 2, WEFT_ERR_ARG,
                "index_put: %d index tensors; %d are the most", count, WF_MAX_IN - 2);
    call.attrs = &call_attrs;
    call_attrs.index = attrs;
    call.in[0] = x->layout;
    for (int i = 0; i < count; i++) call.in[i + 1] = given[i]->layout;
    call.n_in = count + 1;
    WF_TRY_PTR(wf_index_dims_init(&dims, &call, weft_ndim(x), false));
    for (int r = 0; r < dims.n_rest; r++)
        rows[wf_row_dim_of_table(&dims, r)] = x->layout->desc.global[dims.rest[r]];
    for (int d = 0; d < dims.index_ndim; d++) rows[dims.at + d] = dims.index_shape[d];
    if (wf_is_plain(values) && weft_numel(values) == 1 && !wf_is_plain(x))
        values =
            weft_from_local(values, x->layout->mesh, (weft_placement[WEFT_MAX_AXES]){{0}}, NULL);
    values = values ? weft_expand(values, rows, dims.rows_ndim) : NULL;
    return wf_call_index_put(accumulate ? WF_OP_index_add : WF_OP_index_put, x, given, count,
                             values, &attrs, NULL, NULL);
}

static weft_tensor *put_along_dim(const char *who, enum wf_op op, weft_tensor *x, int dim,
                                  weft_tensor *index, weft_tensor *values)
{
    struct wf_index_attrs attrs;
    int d;

    if (!x || !index || !values) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, who));
    WF_TRY_PTR(wf_tensor_need_alive(index, who));
    WF_TRY_PTR(wf_tensor_need_alive(values, who));
    if (weft_ndim(index) == 0) index = weft_atleast_nd(index, 1);
    if (!index) return NULL;
    if (wf_is_dim_of_scalar(x, dim))
        return weft_reshape(
            put_along_dim(who, op, weft_atleast_nd(x, 1), 0, index, weft_atleast_nd(values, 1)),
            NULL, 0);
    d = wf_normalize_dim(dim, weft_ndim(x), who);
    if (d < 0) return NULL;
    WF_NEED_PTR(weft_ndim(index) == 1, WEFT_ERR_SHAPE, "%s: the index has %d dims, not 1", who,
                weft_ndim(index));
    attrs = wf_index_attrs_of_dim(d);
    return wf_call_index_put(op, x, &index, 1, values, &attrs, NULL, NULL);
}

weft_tensor *weft_index_add(weft_tensor *x, int dim, weft_tensor *index, weft_tensor *values)
{
    return put_along_dim("index_add", WF_OP_index_add, x, dim, index, values);
}

weft_tensor *weft_index_copy(weft_tensor *x, int dim, weft_tensor *index, weft_tensor *values)
{
    return put_along_dim("index_copy", WF_OP_index_put, x, dim, index, values);
}

weft_tensor *weft_index_fill(weft_tensor *x, int dim, weft_tensor *index, double value)
{
    int64_t shape[WEFT_MAX_DIMS];
    int d;

    if (!x || !index) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "index_fill"));
    WF_TRY_PTR(wf_tensor_need_alive(index, "index_fill"));
    if (wf_is_dim_of_scalar(x, dim))
        return weft_reshape(
            weft_index_fill(weft_atleast_nd(x, 1), 0, weft_atleast_nd(index, 1), value), NULL, 0);
    d = wf_normalize_dim(dim, weft_ndim(x), "index_fill");
    if (d < 0) return NULL;
    for (int i = 0; i < weft_ndim(x); i++) shape[i] = weft_size(x, i);
    shape[d] = weft_numel(index);
    return weft_index_copy(
        x, d, index,
        weft_expand(wf_replicated_number(x, weft_tensor_dtype(x), value), shape, weft_ndim(x)));
}
