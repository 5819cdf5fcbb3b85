/* max_flow.h: the largest flow through a directed graph, and the cut that bounds it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WF_FLOW_UNBOUNDED = -1 };

struct wf_flow_edge {
    int to, next; /* the next edge that leaves the same vertex; -1: none */
    int64_t room; /* what more fits through it; edge e ^ 1 leads back */
};

struct wf_flow_graph {
    int n_vertices, n_edges;
    int *first; /* of each vertex: an edge that leaves it; -1: none */
    struct wf_flow_edge *edges;
};

void wf_flow_init(struct wf_flow_graph *graph, int n_vertices);
void wf_flow_free(struct wf_flow_graph *graph);

/** capacity: WF_FLOW_UNBOUNDED, or what fits through it */
void wf_flow_add_edge(struct wf_flow_graph *graph, int from, int to, int64_t capacity);

/**
 * Edges of a minimum cut lead from a vertex without the mark to one with it: `sink_side` is set for
 * each vertex from which more could still flow to the sink. Of several minimum cuts this is the one
 * nearest to the sink. No path from source to sink may be unbounded.
 *
 * Augmenting paths, each a shortest one (Edmonds and Karp, 1972).
 */
void wf_flow_min_cut(struct wf_flow_graph *graph, int source, int sink, bool *sink_side);
