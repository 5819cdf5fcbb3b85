/* pieces.c: nodes that carry or compute some rows of what one node did. */
#include "compile/passes/pieces.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "compile/list/derived_plan.h"

struct wf_list_node *wf_piece_add_node(struct wf_op_list *list, enum wf_list_node_kind kind,
                                       const struct wf_list_node *like)
{
    struct wf_list_node *node = wf_op_list_add_node(list, kind);

    node->name = like->name;
    node->module = like->module;
    node->phase = like->phase;
    return node;
}

/* A collective of its own, over the axis of the move. */
int wf_piece_add_start(struct wf_op_list *list, const struct wf_list_node *move,
                       const struct wf_list_piece *piece, struct wf_operand in,
                       struct wf_operand out)
{
    struct wf_list_node *node = wf_piece_add_node(list, WF_LIST_START, move);

    node->plan = move->plan;
    node->plan->refs++;
    node->move = move->move;
    node->piece = WF_NEW(struct wf_list_piece);
    *node->piece = *piece;
    node->piece->refs = 1;
    node->action = &node->piece->action;
    node->n_in = node->n_out = 1;
    node->in_place = true;
    node->in[0] = in;
    node->out[0] = out;
    return list->n_nodes - 1;
}

void wf_piece_add_wait(struct wf_op_list *list, const struct wf_list_node *move, int start)
{
    wf_piece_add_node(list, WF_LIST_WAIT, move)->started = start;
}

struct wf_operand wf_piece_at(int storage, int64_t offset)
{
    return (struct wf_operand){.storage = storage, .offset = offset};
}

struct wf_operand wf_piece_operand(struct wf_operand operand)
{
    operand.layout = NULL;
    return operand;
}

int wf_piece_add_buffer(struct wf_op_list *list, weft_device device, int64_t bytes)
{
    return wf_op_list_add_storage(list, (struct wf_storage){.kind = WF_STORAGE_MADE,
                                                            .category = WF_MEM_COMM,
                                                            .device = (uint8_t)device,
                                                            .written = true,
                                                            .bytes = bytes});
}

/* Rows from where they lie together to their place in the whole. */
void wf_piece_add_copy(struct wf_op_list *list, const struct wf_list_node *like, int packed,
                       struct wf_operand whole, const struct wf_tensor_desc *desc, int dim,
                       const struct wf_rows *rows)
{
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS],
        size = (int64_t)wf_dtypes[desc->dtype].size;
    struct wf_list_node *node = wf_piece_add_node(list, WF_LIST_COPY, like);

    memcpy(shape, desc->shape, sizeof shape);
    shape[dim] = rows->count;
    wf_row_major_strides(stride, shape, desc->ndim);
    node->copies = wf_calloc(1, sizeof *node->copies);
    node->n_copies = 1;
    wf_strided_copy_init(node->copies, shape, stride, desc->stride, desc->ndim, (size_t)size);
    node->n_in = node->n_out = 1;
    node->in_place = true;
    node->in[0] = wf_piece_at(packed, 0);
    node->out[0] =
        wf_piece_at(whole.storage, whole.offset + rows->first * desc->stride[dim] * size);
}

/* ---- a product of some rows ---- */

static struct wf_layout *layout_of_rows(const struct wf_tensor_desc *desc, int dim, int64_t count,
                                        bool keeps_strides)
{
    int64_t shape[WEFT_MAX_DIMS];

    memcpy(shape, desc->shape, sizeof shape);
    if (dim >= 0) shape[dim] = count;
    return wf_layout_new(NULL, NULL, (weft_dtype)desc->dtype, shape,
                         keeps_strides ? desc->stride : NULL, desc->ndim);
}

/* The plan of the product for `count` rows of its first operand; NULL: its kernel refuses. */
struct wf_op_plan *wf_piece_plan(const struct wf_op_plan *whole, int dim, int64_t count,
                                 bool keeps_strides)
{
    struct wf_op_plan *plan = wf_derived_plan_new_like(whole);
    const struct wf_kernel_call *from = &whole->kernel;

    plan->n_in = whole->n_in;
    plan->n_out = 1;
    for (int i = 0; i < from->n_in; i++)
        if (from->in[i])
            plan->used[i] = i ? layout_of_rows(from->in[i], -1, 0, true)
                              : layout_of_rows(from->in[0], dim, count, keeps_strides);
    plan->out[0] = layout_of_rows(from->out[0], dim, count, false);
    return wf_derived_plan_prepare(plan);
}

/* Takes over the plan. */
void wf_piece_add_product(struct wf_op_list *list, const struct wf_list_node *product,
                          struct wf_op_plan *plan, struct wf_operand a, struct wf_operand out)
{
    struct wf_list_node *node = wf_piece_add_node(list, WF_LIST_KERNEL, product);

    node->plan = plan;
    node->n_in = product->n_in;
    node->n_out = 1;
    node->scalars = product->scalars;
    for (int i = 0; i < product->n_in; i++) node->in[i] = wf_operand_retain(product->in[i]);
    if (node->in[0].layout) wf_layout_release(node->in[0].layout);
    node->in[0] = a;
    node->in[0].layout = wf_layout_retain(plan->used[0]);
    node->out[0] = out;
    node->out[0].layout = wf_layout_retain(plan->out[0]);
}
