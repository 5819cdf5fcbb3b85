/* placement_lists.c: lists of placements from text, kept for each thread until the library ends. */
#include <string.h>

#include <weft/dtensor.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/convert/placement_lists.h"
#include "mesh/mesh.h"

struct list {
    struct list *next;
    char *text;
    int n_axes;
    weft_placement placements[WEFT_MAX_AXES];
};

static _Thread_local struct list *lists;

static const weft_placement *invalid_placements(void)
{
    static const weft_placement refused = {.kind = WEFT_KIND_REFUSED};
    static _Thread_local weft_placement list[WEFT_MAX_AXES];

    for (int a = 0; a < WEFT_MAX_AXES; a++) list[a] = refused;
    return list;
}

const weft_placement *weft_placements(const weft_mesh *mesh, const char *text)
{
    weft_placement placements[WEFT_MAX_AXES] = {{0}};
    struct list *list;

    if (!mesh) mesh = wf_mesh_or_current(NULL);
    if (!mesh) return invalid_placements();
    for (list = text ? lists : NULL; list; list = list->next)
        if (list->n_axes == weft_mesh_ndim(mesh) && strcmp(list->text, text) == 0)
            return list->placements;
    if (weft_placements_on(placements, mesh, text) != WEFT_OK) return invalid_placements();
    list = WF_NEW(struct list);
    list->text = wf_strdup(text);
    list->n_axes = weft_mesh_ndim(mesh);
    memcpy(list->placements, placements, sizeof placements);
    list->next = lists;
    lists = list;
    return list->placements;
}

void wf_placement_lists_finalize(void)
{
    while (lists) {
        struct list *next = lists->next;

        wf_free(lists->text);
        wf_free(lists);
        lists = next;
    }
}
