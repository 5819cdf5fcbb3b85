/* pieces.h: nodes that carry or compute some rows of what one node did (pipeline.c, bucket.c). */
#pragma once

#include "compile/list/op_list.h"

/** Rows of one rank of a box [before, rows, after]. */
struct wf_rows {
    int64_t before, first, count, after;
};

/** A node with the name, the module and the phase of another. */
struct wf_list_node *wf_piece_add_node(struct wf_op_list *list, enum wf_list_node_kind kind,
                                       const struct wf_list_node *like);
/** A collective of its own, over the axes that `piece` has; its wait. gives: start: its node */
int wf_piece_add_start(struct wf_op_list *list, const struct wf_list_node *move,
                       const struct wf_list_piece *piece, struct wf_operand in,
                       struct wf_operand out);
void wf_piece_add_wait(struct wf_op_list *list, const struct wf_list_node *move, int start);
/** Bytes of a storage / those of an operand, without a layout. */
struct wf_operand wf_piece_at(int storage, int64_t offset);
struct wf_operand wf_piece_operand(struct wf_operand operand);
/** A storage that peers can read. gives: its number */
int wf_piece_add_buffer(struct wf_op_list *list, weft_device device, int64_t bytes);
/** Rows from where they lie together to their place in the whole, along `dim` of its box. */
void wf_piece_add_copy(struct wf_op_list *list, const struct wf_list_node *like, int packed,
                       struct wf_operand whole, const struct wf_tensor_desc *desc, int dim,
                       const struct wf_rows *rows);
/** The plan of a product for `count` rows, `dim` of its first operand, which are one after another
 * or, with `keeps_strides`, as far apart as in the whole. gives: one reference; NULL: its kernel
 * refuses. */
struct wf_op_plan *wf_piece_plan(const struct wf_op_plan *whole, int dim, int64_t count,
                                 bool keeps_strides);
/** The product of rows `a`; takes over the plan. */
void wf_piece_add_product(struct wf_op_list *list, const struct wf_list_node *product,
                          struct wf_op_plan *plan, struct wf_operand a, struct wf_operand out);
