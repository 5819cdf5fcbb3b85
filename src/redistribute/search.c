/*
 * search.c: the cheapest way from one layout to another: Dijkstra's algorithm over the
 * states of graph.h. Ties go to what was found first, so all ranks find the same.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "redistribute/graph.h"

struct node {
    struct wf_redist_state state;
    struct wf_redist_move by; /* how it is reached at `cost`; by.to is the state */
    double cost;
    int before; /* node; -1: the source */
    bool closed;
};

/* Nodes in the order in which they were found; `number` leads from a state's key to its node. Six
 * axes that leave one dim for another have less than 12,000 states, fewer axes or more dims less.
 */
struct dijkstra_search {
    const struct wf_redist_graph *graph;
    struct node *nodes;
    int n_nodes, room;
    uint16_t *number; /* 0: not found yet, else node + 1 */
};

_Static_assert(WEFT_MAX_AXES <= 6, "nodes are numbered by 16 bits, keys by 32");

/* What one axis may be: replicated, or at either end in any turn. */
static unsigned count_states_per_axis(const struct wf_redist_graph *graph)
{
    return 1 + (WF_PLACES - 1) * (unsigned)graph->n_axes;
}

static unsigned state_key(const struct wf_redist_graph *graph, const struct wf_redist_state *s)
{
    unsigned key = 0, n = (unsigned)graph->n_axes;

    for (unsigned a = 0; a < n; a++) {
        WF_ASSERT(s->turn[a] < n && (s->place[a] || !s->turn[a]));
        key *= count_states_per_axis(graph);
        if (s->place[a] != WF_AT_R) key += 1 + (s->place[a] - 1u) * n + s->turn[a];
    }
    return key;
}

static void relax_node(struct dijkstra_search *s, const struct wf_redist_move *by, double cost,
                       int before)
{
    uint16_t *number = &s->number[state_key(s->graph, &by->to)];
    struct node *node;

    if (!*number) {
        if (s->n_nodes == s->room) {
            s->room = s->room ? 2 * s->room : 64;
            s->nodes = wf_realloc(s->nodes, (size_t)s->room * sizeof *s->nodes);
        }
        *number = (uint16_t)++s->n_nodes;
        s->nodes[*number - 1] = (struct node){.closed = false};
    } else if (s->nodes[*number - 1].cost <= cost) {
        return;
    }
    node = &s->nodes[*number - 1];
    node->state = by->to;
    node->by = *by;
    node->cost = cost;
    node->before = before;
}

/* States are few (some dozens for three axes): a scan is as fast as a heap. */
static int cheapest_open_node(const struct dijkstra_search *s)
{
    int best = -1;

    for (int i = 0; i < s->n_nodes; i++)
        if (!s->nodes[i].closed && (best < 0 || s->nodes[i].cost < s->nodes[best].cost)) best = i;
    WF_ASSERT(best >= 0); /* gathering and reducing everything always leads to the target */
    return best;
}

/* The number of the target's node. */
static int dijkstra_search(struct dijkstra_search *s)
{
    struct wf_redist_move moves[WF_REDIST_MAX_MOVES], start = {.to = s->graph->from};

    relax_node(s, &start, 0, -1);
    for (;;) {
        int at = cheapest_open_node(s), n;
        struct wf_redist_state state = s->nodes[at].state;

        if (wf_redist_state_equal(&state, &s->graph->to)) return at;
        s->nodes[at].closed = true;
        n = wf_redist_graph_list_moves(s->graph, &state, moves);
        for (int i = 0; i < n; i++) relax_node(s, &moves[i], s->nodes[at].cost + moves[i].cost, at);
    }
}

static int write_steps_of_path(const struct dijkstra_search *s, int at,
                               struct wf_redist_step *steps)
{
    const struct node *node = &s->nodes[at];
    int n;

    if (node->before < 0) return 0;
    n = write_steps_of_path(s, node->before, steps);
    if (node->by.kind == WF_REDIST_LABEL) return n;
    WF_ASSERT(n < WF_REDIST_MAX_STEPS);
    wf_redist_graph_move_to_step(s->graph, &s->nodes[node->before].state, &node->by, &steps[n]);
    return n + 1;
}

int wf_redist_find_steps(struct wf_redist_step *steps, const struct wf_redist_problem *problem,
                         double *cost)
{
    struct wf_redist_graph graph;
    struct dijkstra_search s = {.graph = &graph};
    size_t keys = 1;
    int at, n;

    wf_redist_graph_init(&graph, problem);
    *cost = 0;
    if (wf_redist_state_equal(&graph.from, &graph.to)) return 0;
    for (int a = 0; a < graph.n_axes; a++) keys *= count_states_per_axis(&graph);
    s.number = wf_calloc(keys, sizeof *s.number);
    at = dijkstra_search(&s);
    *cost = s.nodes[at].cost;
    n = write_steps_of_path(&s, at, steps);
    wf_free(s.nodes);
    wf_free(s.number);
    return n;
}
