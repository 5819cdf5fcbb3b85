/* patterns.c: collectives beside products, found in a list before lowering. */
#include "compile/passes/patterns.h"

#include "mesh/mesh.h"
#include "ops/op_table.h"

/* The one axis whose placement the move changes, no other axis sharding `dim`; -1: not so. */
static int changed_axis(const struct wf_redist_plan *move, int dim)
{
    int axis = -1;

    for (int a = 0; a < move->from->n_axes; a++) {
        const weft_placement *from = &move->from->placements[a], *to = &move->to->placements[a];

        if (weft_placement_equal(*from, *to)) {
            if (from->kind != WEFT_KIND_REPLICATE && from->kind != WEFT_KIND_PARTIAL &&
                from->dim == dim)
                return -1;
            continue;
        }
        if (axis >= 0) return -1;
        axis = a;
    }
    return axis;
}

/* The move's one collective; NULL: it has none or several. */
static const struct wf_redist_action *only_collective(const struct wf_redist_plan *move)
{
    const struct wf_redist_action *found = NULL;

    if (move->n_steps != 1 || !move->program) return NULL;
    for (int i = 0; i < move->program->n_actions; i++) {
        if (move->program->actions[i].act != WF_ACT_COLL) continue;
        if (found) return NULL;
        found = &move->program->actions[i];
    }
    return found;
}

static int ranks_along(const struct wf_redist_plan *move, int axis)
{
    return wf_mesh_sizes(move->from->mesh)[axis];
}

/* A shard of whole runs, and nothing that a cut at rows would not respect. */
static bool is_plain_shard(const weft_placement *p)
{
    return p->kind == WEFT_KIND_SHARD && p->n_segments == 0;
}

/* The dim that some axis shards in `layout` and none in `other`; -1: none. */
static int dim_sharded_only_in(const struct wf_layout *layout, const struct wf_layout *other)
{
    for (int a = 0; a < layout->n_axes; a++)
        if (is_plain_shard(&layout->placements[a]) &&
            !weft_placement_equal(layout->placements[a], other->placements[a]))
            return layout->placements[a].dim;
    return -1;
}

bool wf_find_gather(const struct wf_op_list *list, int node, struct wf_found_gather *found)
{
    const struct wf_redist_plan *move = list->nodes[node].move;
    const struct wf_redist_action *collective;
    int dim, axis;

    if (list->nodes[node].kind != WF_LIST_MOVE) return false;
    collective = only_collective(move);
    dim = dim_sharded_only_in(move->from, move->to);
    axis = dim < 0 ? -1 : changed_axis(move, dim);
    if (axis < 0 || !collective || collective->coll != WEFT_COLL_ALL_GATHER ||
        move->to->placements[axis].kind != WEFT_KIND_REPLICATE)
        return false;
    *found =
        (struct wf_found_gather){node, dim, axis, collective->recv_counts, ranks_along(move, axis)};
    return true;
}

bool wf_find_scatter(const struct wf_op_list *list, int node, struct wf_found_scatter *found)
{
    const struct wf_redist_plan *move = list->nodes[node].move;
    const struct wf_redist_action *collective;
    int dim, axis;

    if (list->nodes[node].kind != WF_LIST_MOVE) return false;
    collective = only_collective(move);
    dim = dim_sharded_only_in(move->to, move->from);
    axis = dim < 0 ? -1 : changed_axis(move, dim);
    if (axis < 0 || !collective || collective->coll != WEFT_COLL_REDUCE_SCATTER ||
        move->from->placements[axis].kind != WEFT_KIND_PARTIAL)
        return false;
    *found = (struct wf_found_scatter){node,
                                       dim,
                                       axis,
                                       (weft_reduce)move->from->placements[axis].reduce,
                                       collective->send_counts,
                                       ranks_along(move, axis)};
    return true;
}

bool wf_is_product_by_rows(const struct wf_list_node *node, int dim)
{
    const struct wf_kernel_call *k;
    enum wf_kernel kernel;

    if (node->kind != WF_LIST_KERNEL || !node->plan || node->in_place || node->draws) return false;
    k = &node->plan->kernel;
    kernel = wf_ops[node->plan->op].kernel;
    if (node->plan->device != WEFT_CPU || !k->in[0] || !k->in[1] || !k->out[0] || node->n_out != 1)
        return false;
    if (kernel == WF_KERNEL_linear) return dim < k->in[0]->ndim - node->plan->attrs.linear.k_dims;
    return kernel == WF_KERNEL_matmul && !node->plan->attrs.matmul.transpose_a &&
           k->in[1]->ndim == 2 && k->in[0]->ndim > 1 && dim < k->in[0]->ndim - 1;
}
