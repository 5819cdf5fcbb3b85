/* max_flow.c: augmenting paths by breadth-first search. */
#include "compile/passes/min_cut/max_flow.h"

#include "base/array_grow.h"
#include "base/mem.h"

static const int64_t unbounded = INT64_MAX / 4;

void wf_flow_init(struct wf_flow_graph *graph, int n_vertices)
{
    *graph = (struct wf_flow_graph){.n_vertices = n_vertices};
    graph->first = wf_malloc(((size_t)n_vertices + 1) * sizeof *graph->first);
    for (int v = 0; v < n_vertices; v++) graph->first[v] = -1;
}

void wf_flow_free(struct wf_flow_graph *graph)
{
    wf_free(graph->first);
    wf_free(graph->edges);
    *graph = (struct wf_flow_graph){0};
}

static void add_directed_edge(struct wf_flow_graph *graph, int from, int to, int64_t room)
{
    graph->edges = wf_array_grow(graph->edges, graph->n_edges, sizeof *graph->edges);
    graph->edges[graph->n_edges] = (struct wf_flow_edge){to, graph->first[from], room};
    graph->first[from] = graph->n_edges++;
}

void wf_flow_add_edge(struct wf_flow_graph *graph, int from, int to, int64_t capacity)
{
    add_directed_edge(graph, from, to, capacity == WF_FLOW_UNBOUNDED ? unbounded : capacity);
    add_directed_edge(graph, to, from, 0);
}

/* Vertices in the order in which a walk reaches them, and the edge that reached each. */
struct walk {
    int *queue, *by;
};

static bool find_path(const struct wf_flow_graph *graph, int source, int sink, struct walk *walk)
{
    int head = 0, tail = 0;

    for (int v = 0; v < graph->n_vertices; v++) walk->by[v] = -1;
    walk->queue[tail++] = source;
    while (head < tail && walk->by[sink] < 0) {
        int v = walk->queue[head++];

        for (int e = graph->first[v]; e >= 0; e = graph->edges[e].next) {
            int to = graph->edges[e].to;

            if (graph->edges[e].room == 0 || walk->by[to] >= 0 || to == source) continue;
            walk->by[to] = e;
            walk->queue[tail++] = to;
        }
    }
    return walk->by[sink] >= 0;
}

static void fill_path(struct wf_flow_graph *graph, int source, int sink, const int *by)
{
    int64_t room = unbounded;

    for (int v = sink; v != source; v = graph->edges[by[v] ^ 1].to)
        if (graph->edges[by[v]].room < room) room = graph->edges[by[v]].room;
    for (int v = sink; v != source; v = graph->edges[by[v] ^ 1].to) {
        graph->edges[by[v]].room -= room;
        graph->edges[by[v] ^ 1].room += room;
    }
}

static void mark_sink_side(const struct wf_flow_graph *graph, int sink, int *queue, bool *sink_side)
{
    int head = 0, tail = 0;

    for (int v = 0; v < graph->n_vertices; v++) sink_side[v] = v == sink;
    queue[tail++] = sink;
    while (head < tail) {
        int v = queue[head++];

        for (int e = graph->first[v]; e >= 0; e = graph->edges[e].next) {
            int from = graph->edges[e].to;

            if (sink_side[from] || graph->edges[e ^ 1].room == 0) continue;
            sink_side[from] = true;
            queue[tail++] = from;
        }
    }
}

void wf_flow_min_cut(struct wf_flow_graph *graph, int source, int sink, bool *sink_side)
{
    struct walk walk = {wf_malloc(((size_t)graph->n_vertices + 1) * sizeof(int)),
                        wf_malloc(((size_t)graph->n_vertices + 1) * sizeof(int))};

    while (find_path(graph, source, sink, &walk)) fill_path(graph, source, sink, walk.by);
    mark_sink_side(graph, sink, walk.queue, sink_side);
    wf_free(walk.queue);
    wf_free(walk.by);
}
