/*
 * joined_mesh.c: the mesh of all leaves: the replicas' axes, and every other axis over which some
 * parameter is distributed; and communicators along several of its axes.
 */
#include "data_parallel/data_parallel.h"

#include "base/error.h"
#include "mesh/mesh.h"

/* ---- joining meshes ---- */

static weft_mesh *submesh_of_axis(weft_mesh *mesh, int axis)
{
    if (weft_mesh_ndim(mesh) == 1) return weft_mesh_retain(mesh);
    return weft_mesh_sub(mesh, weft_mesh_axis_name(mesh, axis));
}

/* Equal meshes are one object. */
static bool is_same_axis_mesh(weft_mesh *mesh, int axis, const weft_mesh *line)
{
    weft_mesh *mine = submesh_of_axis(mesh, axis);

    weft_mesh_release(mine);
    return mine == line;
}

/* The mesh of the list that has an axis of this name, and the axis; NULL: none has. */
static weft_mesh *find_mesh_with_axis(const struct wf_mesh_list *list, const char *name, int *axis)
{
    for (int i = 0; i < list->count; i++) {
        *axis = weft_mesh_axis(list->items[i], name);
        if (*axis >= 0) return list->items[i];
    }
    return NULL;
}

/* Tries to join the meshes after each parameter, so that an error names the parameter. */
static weft_status check_meshes_can_join(const struct wf_mesh_list *list, const char *what)
{
    bool first = weft_error_status() == WEFT_OK;
    weft_mesh *all = wf_mesh_list_concatenate(list);
    char line[128], others[128];

    weft_mesh_release(all);
    if (all) return WEFT_OK;
    if (first) weft_error_clear(); /* the message below names the parameter */
    weft_mesh_format(list->items[list->count - 1], line, sizeof line);
    weft_mesh_format(list->items[0], others, sizeof others);
    return WF_FAIL(WEFT_ERR_ARG,
                   "data parallel: %s is on mesh %s, whose axis overlaps one of the replicas' mesh "
                   "%s or of a parameter before it, or which was not cut from the same mesh: such "
                   "meshes cannot be joined",
                   what, line, others);
}

static weft_status add_axis_mesh(struct wf_mesh_list *list, const struct wf_replicas *r,
                                 weft_mesh *line, const char *what)
{
    const char *name = weft_mesh_axis_name(line, 0);
    int axis;
    weft_mesh *known = find_mesh_with_axis(list, name, &axis);

    if (!known) {
        WF_NEED(list->count <= WEFT_MAX_AXES, WEFT_ERR_ARG, "a mesh has 1 to %d axes",
                WEFT_MAX_AXES);
        list->items[list->count++] = weft_mesh_retain(line);
        return check_meshes_can_join(list, what);
    }
    WF_NEED(is_same_axis_mesh(known, axis, line), WEFT_ERR_ARG,
            "data parallel: %s is on a mesh whose axis \"%s\" has other ranks than that of the "
            "meshes before it: meshes that were not cut from the same mesh cannot be joined",
            what, name);
    WF_NEED(
        known != list->items[0] || r->spread >> axis & 1, WEFT_ERR_ARG,
        "data parallel: %s is distributed over axis \"%s\", along which replicas are wanted; if it "
        "is an expert's, name the axis in expert_axes",
        what, name);
    return WEFT_OK;
}

weft_status wf_mesh_list_add(struct wf_mesh_list *list, const struct wf_replicas *r,
                             weft_mesh *mesh, const char *what)
{
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        weft_mesh *line = submesh_of_axis(mesh, a);
        weft_status status = line ? add_axis_mesh(list, r, line, what) : weft_error_status();

        weft_mesh_release(line);
        WF_TRY(status);
    }
    return WEFT_OK;
}

weft_mesh *wf_mesh_list_concatenate(const struct wf_mesh_list *list)
{
    if (list->count == 1) return weft_mesh_retain(list->items[0]);
    return weft_mesh_concatenate(list->items, list->count);
}

void wf_mesh_list_free(struct wf_mesh_list *list)
{
    for (int i = 0; i < list->count; i++) weft_mesh_release(list->items[i]);
    list->count = 0;
}

/* ---- several axes of the mesh ---- */

weft_status wf_mesh_axes_by_name(unsigned *axes, weft_mesh *mesh, const char *names)
{
    weft_mesh *some;

    *axes = 0;
    if (!names) return WEFT_OK;
    some = weft_mesh_sub(mesh, names);
    if (!some) return weft_error_status();
    for (int a = 0; a < weft_mesh_ndim(some); a++)
        *axes |= wf_mesh_axes_of(mesh, weft_mesh_axis_name(some, a));
    weft_mesh_release(some);
    return WEFT_OK;
}

int wf_mesh_axes_size(const weft_mesh *mesh, unsigned axes)
{
    int size = 1;

    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        if (axes >> a & 1) size *= weft_mesh_axis_size(mesh, a);
    return size;
}

int wf_mesh_axes_rank(const weft_mesh *mesh, unsigned axes)
{
    int rank = 0;

    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        if (axes >> a & 1)
            rank = rank * weft_mesh_axis_size(mesh, a) + weft_mesh_coordinate(mesh, a);
    return rank;
}
