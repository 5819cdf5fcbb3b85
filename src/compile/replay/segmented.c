/* segmented.c: a recorded call, cut where the program needs values, each piece made ready to run.
 */
#include "compile/replay/segmented.h"

#include <string.h>

#include "base/mem.h"
#include "compile/list/lower.h"
#include "compile/passes/passes.h"
#include "compile/tools/dump.h"

/* Made within the segment and dead at its end: all others have an address from outside. */
static bool *given_storages(const struct wf_op_list *list, int first, int end,
                            const struct wf_list_break *at_end)
{
    bool *given = wf_malloc((size_t)list->n_storages + 1);

    memset(given, true, (size_t)list->n_storages + 1);
    for (int i = first; i < end; i++) {
        const struct wf_list_node *node = &list->nodes[i];

        for (int j = 0; j < node->n_out; j++) {
            int s = node->out[j].storage;
            bool alive = s >= 0 && s < at_end->n_alive && at_end->alive[s];

            if (s < 0 || node->in_place || node->kind == WF_LIST_VIEW) continue;
            given[s] =
                alive || list->storages[s].kind != WF_STORAGE_MADE || list->storages[s].from_host;
        }
    }
    return given;
}

struct wf_program *wf_segment_program_new(struct wf_op_list *list, bool improve, const char *off,
                                          struct wf_op_list **moves)
{
    if (improve) wf_passes_run(list, off);
    if (moves) *moves = wf_op_list_copy(list);
    wf_op_list_lower(list);
    if (improve) wf_passes_run(list, off);
    return wf_program_new(list);
}

static void report_segment(const struct wf_segmented *s, const struct wf_list_segment *segment,
                           const char *name)
{
    struct wf_variant as_variant = {.forward = segment->list,
                                    .forward_moves = segment->moves,
                                    .forward_program = segment->program,
                                    .name = wf_format("%s.segment%d", name, s->n_segments - 1)};

    wf_variant_report(&as_variant);
    wf_free(as_variant.name);
}

/* Which run of a segment is its second this rank alone knows: ranks could not agree on a graph. */
static bool has_collectives(const struct wf_op_list *list)
{
    for (int i = 0; i < list->n_nodes; i++)
        if (wf_list_node_communicates(&list->nodes[i])) return true;
    return false;
}

static bool add_segment(struct wf_segmented *s, int first, const struct wf_list_break *at_end,
                        const struct wf_captured_function *f)
{
    struct wf_list_segment *segment = &s->segments[s->n_segments++];

    segment->first = first;
    segment->end = at_end->node;
    segment->given = given_storages(s->list, first, at_end->node, at_end);
    segment->list = wf_op_list_cut(s->list, first, at_end->node, segment->given);
    segment->list->keeps_collectives = true; /* what is alive at the end this rank alone knows */
    segment->program = wf_segment_program_new(segment->list, true, f->passes_off, &segment->moves);
    if (!segment->program) return false;
    if (f->graph && !has_collectives(segment->list)) wf_program_launch_as_graph(segment->program);
    if (f->backend && wf_program_hand_to_backend(segment->program, f->backend) != WEFT_OK)
        return false;
    report_segment(s, segment, f->name);
    return true;
}

struct wf_segmented *wf_segmented_new(struct wf_list_recorder *r, struct wf_guards *guards,
                                      const struct wf_captured_function *f)
{
    struct wf_segmented *s = WF_NEW(struct wf_segmented);
    int first = 0;

    s->guards = guards;
    s->list = r->list;
    s->steps = wf_op_list_steps(s->list);
    s->breaks = r->breaks;
    s->n_breaks = r->n_breaks;
    r->list = NULL;
    r->breaks = NULL;
    r->n_breaks = 0;
    s->segments = wf_calloc((size_t)s->n_breaks + 1, sizeof *s->segments);
    for (int b = 0; b < s->n_breaks; b++) {
        if (s->breaks[b].node == first) continue;
        if (!add_segment(s, first, &s->breaks[b], f)) {
            wf_segmented_free(s);
            return NULL;
        }
        first = s->breaks[b].node;
    }
    return s;
}

void wf_segmented_free(struct wf_segmented *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_segments; i++) {
        wf_program_free(s->segments[i].program);
        wf_op_list_free(s->segments[i].list);
        wf_op_list_free(s->segments[i].moves);
        wf_free(s->segments[i].given);
    }
    for (int b = 0; b < s->n_breaks; b++) wf_free(s->breaks[b].alive);
    wf_free(s->bindings);
    wf_free(s->breaks);
    wf_free(s->segments);
    wf_op_list_free(s->list);
    wf_guards_free(s->guards);
    wf_free(s);
}
