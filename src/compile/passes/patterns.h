/* patterns.h: collectives beside products, found in a list before lowering. */
#pragma once

#include "compile/list/op_list.h"

/** A move that is one all-gather, of a dim that one axis shards. */
struct wf_found_gather {
    int node, dim, axis;
    const size_t *counts; /* elements of each rank of the axis */
    int ranks;
};

/** A move that is one reduce-scatter of terms, to shards of a dim. */
struct wf_found_scatter {
    int node, dim, axis;
    weft_reduce reduce; /* WEFT_SUM, WEFT_AVG, ... as the placement has it */
    const size_t *counts;
    int ranks;
};

/** gives: false: the node is none */
bool wf_find_gather(const struct wf_op_list *list, int node, struct wf_found_gather *found);
bool wf_find_scatter(const struct wf_op_list *list, int node, struct wf_found_scatter *found);

/** The node is a product that can be computed for some rows at a time, `dim` of its first operand
 * and of its result being rows: a linear or a matmul with a matrix. */
bool wf_is_product_by_rows(const struct wf_list_node *node, int dim);
