/*
 * schedule.c: when each node should begin and end. Kernels and copies take as long as their bytes
 * at a fixed speed, products as long as their multiplications where that is longer; collectives
 * what planners reckon with (redistribute/link_cost.h). A collective goes on while nodes run until
 * its wait; what the wait then lacks is said to be exposed.
 */
#include <stdio.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "compile/tools/dump.h"
#include "mesh/mesh.h"
#include "redistribute/link_cost.h"

static const double BYTES_PER_US = 8000, PRODUCTS_PER_US = 20000, CALL_US = 0.2;

/* Sizes of all letters of the op's rule multiplied: what a product multiplies, what others make. */
static double count_products(const struct wf_op_plan *plan)
{
    const struct wf_op_row *row = &wf_ops[plan->op];
    struct wf_infer call = {.row = row,
                            .name = plan->name,
                            .n_in = plan->n_in,
                            .n_out = plan->n_out,
                            .attrs = &plan->attrs,
                            .attr_words = plan->attr_words};
    struct wf_dim_labels labels = {0};
    bool seen[2 * WEFT_MAX_DIMS * WF_MAX_IN] = {false};
    double product = 1;

    if (!row->rule_text) return 0;
    for (int j = 0; j < WF_MAX_OUT; j++) call.out[j].ndim = -1;
    for (int j = 0; j < plan->n_out; j++)
        if (plan->out[j]) call.out[j].ndim = plan->out[j]->desc.ndim;
    for (int i = 0; i < plan->n_in; i++) call.in[i] = plan->used[i];
    wf_label_dims(&call, &labels);
    for (int i = 0; i < plan->n_in; i++)
        for (int d = 0; plan->used[i] && d < plan->used[i]->desc.ndim; d++) {
            int letter = labels.in[i][d];

            if (letter <= 0 || letter >= (int)sizeof seen || seen[letter]) continue;
            seen[letter] = true;
            product *= (double)plan->used[i]->desc.shape[d];
        }
    return product;
}

static double count_bytes(const struct wf_op_list *list, const struct wf_list_node *node)
{
    double bytes = 0;

    for (int k = 0; k < node->n_in + node->n_out; k++) {
        const struct wf_operand *o = k < node->n_in ? &node->in[k] : &node->out[k - node->n_in];

        if (o->storage < 0) continue;
        bytes += (double)(o->layout ? wf_operand_bytes(o) : list->storages[o->storage].bytes);
    }
    return bytes;
}

/* Elements of the whole: of the shards of all ranks, of what is added up. */
static double count_elements(const struct wf_redist_action *action, int ranks)
{
    const size_t *counts = action->recv_counts ? action->recv_counts : action->send_counts;
    double elements = (double)action->count;

    for (int r = 0; counts && r < ranks; r++) elements += (double)counts[r];
    return elements;
}

/* Bytes that each rank sends. A collective of a move is a step of its plan. One that a pass has
 * made carries a part of a step, or several; its counts say how much, of which each rank sends all
 * but its own share in each pass. */
static double bytes_of_collective(const struct wf_list_node *node, int ranks, int hops)
{
    const struct wf_redist_action *action = node->action;
    const struct wf_redist_plan *move = node->move;

    for (int s = 0; !node->piece && s < move->n_steps; s++)
        if (move->steps[s].axes == action->axes &&
            wf_redist_kinds[move->steps[s].kind].collective == action->coll)
            return wf_redist_step_bytes(move->from, &move->steps[s]);
    return count_elements(action, ranks) * (double)wf_dtypes[move->from->desc.dtype].size * hops /
           ranks;
}

static double time_of_collective(const struct wf_list_node *node)
{
    const struct wf_redist_action *action = node->action;
    weft_mesh *mesh = node->move->from->mesh;
    struct wf_link links[WEFT_MAX_AXES];
    unsigned n = 0;
    int ranks = 1, hops;

    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        if (!(action->axes >> a & 1)) continue;
        links[n++] = wf_link_of_axis(weft_mesh_axis_name(mesh, a));
        ranks *= weft_mesh_axis_size(mesh, a);
    }
    if (ranks <= 1) return 0;
    hops = wf_redist_collective_hops(wf_coll_name(action->coll), ranks);
    return wf_collective_time(wf_link_slowest(links, (1u << n) - 1), hops,
                              bytes_of_collective(node, ranks, hops));
}

static double time_of_node(const struct wf_op_list *list, const struct wf_list_node *node)
{
    double bytes = count_bytes(list, node) / BYTES_PER_US, products;

    if (node->kind == WF_LIST_VIEW || node->kind == WF_LIST_WAIT || node->kind == WF_LIST_DELIVER)
        return 0;
    products = node->kind == WF_LIST_KERNEL ? count_products(node->plan) / PRODUCTS_PER_US : 0;
    return CALL_US + (bytes > products ? bytes : products);
}

void wf_schedule_print(const struct wf_op_list *list, FILE *out)
{
    double now = 0, exposed = 0, sent = 0;
    double *ends = wf_calloc((size_t)list->n_nodes + 1, sizeof *ends);

    fprintf(out, "node begin_us end_us what\n");
    for (int i = 0; i < list->n_nodes; i++) {
        const struct wf_list_node *node = &list->nodes[i];
        double begin = now;

        if (node->kind == WF_LIST_VIEW) continue;
        if (node->kind == WF_LIST_START) {
            ends[i] = now + time_of_collective(node);
            sent += ends[i] - now;
            fprintf(out, "%d %.1f %.1f start %s, in flight\n", i, begin, ends[i],
                    wf_coll_name(node->action->coll));
            continue;
        }
        if (node->kind == WF_LIST_WAIT) {
            double left = ends[node->started] - now;

            if (left > 0) {
                exposed += left;
                now += left;
            }
            fprintf(out, "%d %.1f %.1f wait for node %d\n", i, begin, now, node->started);
            continue;
        }
        now += time_of_node(list, node);
        fprintf(out, "%d %.1f %.1f %s\n", i, begin, now, node->name ? node->name : "");
    }
    fprintf(out, "%.1f us in all, collectives %.1f us, of which %.1f us are waited for\n", now,
            sent, exposed);
    wf_free(ends);
}
