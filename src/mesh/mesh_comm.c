/*
 * mesh_comm.c: the groups of ranks along mesh axes, as lists and as communicators. A communicator
 * is made on first use; comm returns the existing one for the same ranks.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "mesh/intern_label.h"
#include "mesh/mesh_internal.h"

enum { TEXT_BYTES = 256 };

/* ---- groups ---- */

/* The axis of this name; without a name, the mesh's only axis. */
static weft_status axis_by_name_or_only(const weft_mesh *mesh, const char *name, int *axis)
{
    char text[TEXT_BYTES];

    WF_NEED_GIVEN(mesh, "mesh: no mesh");
    weft_mesh_format(mesh, text, sizeof text);
    *axis = 0;
    if (!name || !name[0]) {
        WF_NEED(mesh->text.n_axes == 1, WEFT_ERR_ARG,
                "mesh %s: the axis needs to be specified when there is more than one", text);
        return WEFT_OK;
    }
    *axis = weft_mesh_axis(mesh, name);
    WF_NEED(*axis >= 0, WEFT_ERR_NOT_FOUND, "invalid axis name: mesh %s has no axis \"%s\"", text,
            name);
    return WEFT_OK;
}

static weft_status check_member(const weft_mesh *mesh)
{
    char text[TEXT_BYTES];

    weft_mesh_format(mesh, text, sizeof text);
    WF_NEED(mesh->me >= 0, WEFT_ERR_COMM, "rank %d is not in mesh %s", weft_world_rank(), text);
    return WEFT_OK;
}

int weft_mesh_local_rank(const weft_mesh *mesh, const char *name)
{
    int axis;

    if (axis_by_name_or_only(mesh, name, &axis) != WEFT_OK || check_member(mesh) != WEFT_OK)
        return -1;
    return mesh->coordinates[axis];
}

static weft_status check_axis_and_member(const weft_mesh *mesh, int axis)
{
    char text[TEXT_BYTES];

    WF_NEED_GIVEN(mesh, "mesh: no mesh");
    weft_mesh_format(mesh, text, sizeof text);
    WF_NEED(axis >= 0 && axis < mesh->text.n_axes, WEFT_ERR_ARG, "mesh %s has no axis %d", text,
            axis);
    WF_NEED(!mesh->fake, WEFT_ERR_COMM, "mesh %s: a fake mesh: there are no ranks behind it", text);
    return check_member(mesh);
}

int weft_mesh_group_ranks(const weft_mesh *mesh, int axis, int *ranks, int room)
{
    int size, *line;

    if (check_axis_and_member(mesh, axis) != WEFT_OK) return -1;
    size = mesh->text.sizes[axis];
    line = wf_malloc((size_t)size * sizeof *line);
    wf_mesh_line_ranks(mesh, &axis, 1, line);
    for (int i = 0; ranks && i < size && i < room; i++) ranks[i] = line[i];
    wf_free(line);
    return size;
}

int weft_mesh_group_ranks_of(const weft_mesh *mesh, const char *name, int *ranks, int room)
{
    int axis;

    return axis_by_name_or_only(mesh, name, &axis) == WEFT_OK
               ? weft_mesh_group_ranks(mesh, axis, ranks, room)
               : -1;
}

int weft_mesh_line_ranks(const weft_mesh *mesh, int axis, int line, int *ranks, int room)
{
    int size, first = 0;

    if (axis < 0 || axis >= WF_HANDLE(mesh)->text.n_axes) return 0;
    size = mesh->text.sizes[axis];
    if (line < 0 || line >= mesh->size / size) return 0;
    for (int a = mesh->text.n_axes - 1; a >= 0; a--) {
        if (a == axis) continue;
        first += line % mesh->text.sizes[a] * mesh->steps[a];
        line /= mesh->text.sizes[a];
    }
    for (int i = 0; i < size && i < room; i++)
        ranks[i] = mesh->ranks[first + i * mesh->steps[axis]];
    return size;
}

int weft_mesh_communicator_count(void) { return wf_comm_created_count(); }

/* ---- communicators ---- */

/* Bits to axes, ascending. */
static struct wf_flattened_axes axes_from_bits(unsigned axes)
{
    struct wf_flattened_axes list = {0};

    for (int axis = 0; axis < WEFT_MAX_AXES; axis++)
        if (axes >> axis & 1) list.axes[list.n_axes++] = axis;
    return list;
}

/* The name that the user gave to these axes merged, if any. */
static const char *flattened_name_of(const weft_mesh *mesh, const struct wf_flattened_axes *axes)
{
    const weft_mesh *root = wf_mesh_root(mesh);
    struct wf_flattened_axes piece;

    for (int m = 0; m < root->n_merged; m++)
        if (wf_mesh_resolve_axis_name(mesh, root->merged[m].name, &piece) &&
            piece.n_axes == axes->n_axes &&
            memcmp(piece.axes, axes->axes, (size_t)piece.n_axes * sizeof piece.axes[0]) == 0)
            return root->merged[m].name;
    return NULL;
}

/* The ledger and errors call a line by its axis: "tp", "dp_tp", or "axis 1" without names. */
static const char *label_of_axes(const weft_mesh *mesh, const struct wf_flattened_axes *axes)
{
    const char *given = axes->n_axes > 1 ? flattened_name_of(mesh, axes) : NULL;
    char label[WEFT_MAX_AXES * WF_AXIS_NAME] = "";
    int length = 0;

    for (int i = 0; !given && i < axes->n_axes; i++) {
        const char *name = mesh->text.names[axes->axes[i]];
        size_t room = sizeof label - (size_t)length;

        if (name[0])
            length += snprintf(label + length, room, "%s%s", i ? "_" : "", name);
        else
            length += snprintf(label + length, room, "%s%d", i ? "_" : "axis ", axes->axes[i]);
    }
    return wf_intern_label(given ? given : label);
}

const char *wf_mesh_axes_label(const weft_mesh *mesh, unsigned axes)
{
    struct wf_flattened_axes list = axes_from_bits(axes);

    return label_of_axes(mesh, &list);
}

struct wf_comm *wf_mesh_axes_comm(weft_mesh *mesh, unsigned axes)
{
    struct wf_flattened_axes list;
    int size = 1, *ranks;

    if (mesh->lines[axes] || mesh->me < 0 || mesh->fake) return mesh->lines[axes];
    list = axes_from_bits(axes);
    for (int i = 0; i < list.n_axes; i++) size *= mesh->text.sizes[list.axes[i]];
    ranks = wf_malloc((size_t)size * sizeof *ranks);
    wf_mesh_line_ranks(mesh, list.axes, list.n_axes, ranks);
    mesh->lines[axes] = wf_comm_for_ranks(ranks, size, label_of_axes(mesh, &list));
    wf_free(ranks);
    return mesh->lines[axes];
}

struct wf_comm *wf_mesh_axis_comm(weft_mesh *mesh, int axis)
{
    return wf_mesh_axes_comm(mesh, 1u << axis);
}

struct wf_comm *wf_mesh_all_axes_comm(weft_mesh *mesh)
{
    return mesh ? wf_mesh_axes_comm(mesh, (1u << weft_mesh_ndim(mesh)) - 1) : NULL;
}

int wf_mesh_flattened_count(const weft_mesh *mesh) { return wf_mesh_root(mesh)->n_merged; }

bool wf_mesh_is_flattened(const weft_mesh *mesh, unsigned axes)
{
    struct wf_flattened_axes list = axes_from_bits(axes);

    return flattened_name_of(mesh, &list) != NULL;
}
