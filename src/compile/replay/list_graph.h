/*
 * list_graph.h: a list on a GPU as one graph of the device (device/capture.h): captured in the
 * second run, launched from then on.
 *
 * A graph has the addresses of its capture, but inputs and what outlives a run lie elsewhere each
 * time. So the graph has places of its own for them: before a launch inputs are copied there, after
 * it results from there. All ranks of the list's collectives capture in the same run and agree on
 * whether the graph is used, since a collective must be in the graph of every one of them.
 */
#pragma once

#include "compile/replay/program.h"

struct wf_list_graph;

/** Nothing is captured yet. gives: wf_list_graph_free */
struct wf_list_graph *wf_list_graph_new(const struct wf_program *program,
                                        const struct wf_op_list *list);
void wf_list_graph_free(struct wf_list_graph *graph); /* NULL is allowed */

/** Run the list, for a program that would give its calls one after another. gives: false: nothing
 * has happened: it has no graph yet, or will have none, or this run cannot use it */
bool wf_list_graph_run(struct wf_list_graph *graph, const struct wf_program_run *run);

int64_t wf_list_graph_launch_count(const struct wf_list_graph *graph);
