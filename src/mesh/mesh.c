/*
 * mesh.c: the grid of ranks. It decides which ranks form a line along an axis and keeps their
 * communicators. Equal meshes are the same pointer (layouts compare meshes by pointer): a mesh
 * that is asked for twice is found in the thread's list and retained.
 */
#include "mesh/mesh.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "mesh/describe.h"
#include "mesh/label.h"

struct weft_mesh {
    /* what makes two meshes equal */
    struct wf_mesh_text text;
    int coordinates[WEFT_MAX_AXES]; /* -1 outside the mesh */
    int origin;                     /* world rank at coordinates 0, 0, ... */
    int steps[WEFT_MAX_AXES];       /* from one rank to the next along an axis, in world ranks */
    bool fake;
    /* and what does not */
    int refs;
    struct wf_comm *comms[WEFT_MAX_AXES];
    struct weft_mesh *next;
};

static _Thread_local struct weft_mesh *meshes;

int weft_world_rank(void) { return wf_comm_rank(wf_comm_world()); }

int weft_world_size(void) { return wf_comm_size(wf_comm_world()); }

/* ---- making ---- */

static bool same_axis(const struct weft_mesh *a, const struct weft_mesh *b, int axis)
{
    return a->text.sizes[axis] == b->text.sizes[axis] &&
           a->coordinates[axis] == b->coordinates[axis] && a->steps[axis] == b->steps[axis] &&
           strcmp(a->text.names[axis], b->text.names[axis]) == 0;
}

static bool same(const struct weft_mesh *a, const struct weft_mesh *b)
{
    if (a->text.n_axes != b->text.n_axes || a->origin != b->origin || a->fake != b->fake)
        return false;
    for (int axis = 0; axis < a->text.n_axes; axis++)
        if (!same_axis(a, b, axis)) return false;
    return true;
}

static weft_mesh *intern(const struct weft_mesh *candidate)
{
    struct weft_mesh *mesh;

    for (mesh = meshes; mesh; mesh = mesh->next)
        if (same(mesh, candidate)) return weft_mesh_retain(mesh);
    mesh = WF_NEW(struct weft_mesh);
    *mesh = *candidate;
    mesh->refs = 1;
    mesh->next = meshes;
    meshes = mesh;
    return mesh;
}

/* The last axis varies fastest. */
static void number_ranks(struct weft_mesh *mesh)
{
    int step = 1;

    for (int axis = mesh->text.n_axes - 1; axis >= 0; axis--) {
        mesh->steps[axis] = step;
        step *= mesh->text.sizes[axis];
    }
}

static weft_status place_in_world(struct weft_mesh *mesh, const char *text)
{
    int rank = weft_world_rank(), world = weft_world_size();
    int64_t ranks = 1;

    for (int axis = 0; axis < mesh->text.n_axes; axis++) {
        ranks *= mesh->text.sizes[axis];
        WF_NEED(ranks <= world, WEFT_ERR_COMM,
                "mesh \"%s\" needs at least %lld ranks, but the world has %d", text,
                (long long)ranks, world);
    }
    number_ranks(mesh);
    for (int axis = 0; axis < mesh->text.n_axes; axis++)
        mesh->coordinates[axis] =
            rank < ranks ? rank / mesh->steps[axis] % mesh->text.sizes[axis] : -1;
    return WEFT_OK;
}

weft_mesh *weft_mesh_new(weft_device device, const char *format, ...)
{
    struct weft_mesh mesh = {0};
    char text[256];
    va_list args;
    int length;

    WF_NEED_PTR(device == WEFT_CPU, WEFT_ERR_ARG, "weft_mesh_new: unknown device %d", (int)device);
    WF_NEED_PTR(format, WEFT_ERR_ARG, "weft_mesh_new: no description given");
    va_start(args, format);
    length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    WF_NEED_PTR(length >= 0 && (size_t)length < sizeof text, WEFT_ERR_ARG,
                "weft_mesh_new: the description has more than %zu characters", sizeof text - 1);
    WF_TRY_PTR(wf_mesh_parse(&mesh.text, text));
    WF_TRY_PTR(place_in_world(&mesh, text));
    return intern(&mesh);
}

weft_mesh *wf_mesh_fake(int n_axes, const int *sizes, const int *coordinates,
                        const char *const *names)
{
    struct weft_mesh mesh = {.text.n_axes = n_axes, .fake = true};

    for (int axis = 0; axis < n_axes; axis++) {
        mesh.text.sizes[axis] = sizes[axis];
        mesh.coordinates[axis] = coordinates[axis];
        if (names)
            snprintf(mesh.text.names[axis], WF_AXIS_NAME, "%s", names[axis]);
        else
            snprintf(mesh.text.names[axis], WF_AXIS_NAME, "a%d", axis);
    }
    number_ranks(&mesh);
    return intern(&mesh);
}

weft_mesh *weft_mesh_sub(weft_mesh *mesh, const char *name)
{
    struct weft_mesh line = {0};
    char text[256];
    int axis;

    if (!mesh) return NULL;
    axis = name ? weft_mesh_axis(mesh, name) : -1;
    if (axis < 0) weft_mesh_print(mesh, text, sizeof text);
    WF_NEED_PTR(axis >= 0, WEFT_ERR_NOT_FOUND, "mesh %s has no axis \"%s\"", text,
                name ? name : "");
    line.text.n_axes = 1;
    line.text.sizes[0] = mesh->text.sizes[axis];
    memcpy(line.text.names[0], mesh->text.names[axis], WF_AXIS_NAME);
    line.coordinates[0] = mesh->coordinates[axis];
    line.steps[0] = mesh->steps[axis];
    line.fake = mesh->fake;
    line.origin = mesh->origin;
    for (int a = 0; a < mesh->text.n_axes; a++)
        if (a != axis && mesh->coordinates[a] > 0)
            line.origin += mesh->coordinates[a] * mesh->steps[a];
    return intern(&line);
}

weft_mesh *weft_mesh_retain(weft_mesh *mesh)
{
    if (mesh) mesh->refs++;
    return mesh;
}

/* Communicators belong to the world, so that the next mesh with these lines finds them again. */
void weft_mesh_release(weft_mesh *mesh)
{
    struct weft_mesh **at = &meshes;

    if (!mesh || --mesh->refs > 0) return;
    while (*at != mesh) at = &(*at)->next;
    *at = mesh->next;
    wf_free(mesh);
}

/* ---- asking ---- */

int weft_mesh_ndim(const weft_mesh *mesh) { return mesh->text.n_axes; }

int weft_mesh_axis_size(const weft_mesh *mesh, int axis) { return mesh->text.sizes[axis]; }

const char *weft_mesh_axis_name(const weft_mesh *mesh, int axis) { return mesh->text.names[axis]; }

int weft_mesh_coordinate(const weft_mesh *mesh, int axis) { return mesh->coordinates[axis]; }

int weft_mesh_axis(const weft_mesh *mesh, const char *name)
{
    for (int axis = 0; axis < mesh->text.n_axes; axis++)
        if (strcmp(mesh->text.names[axis], name) == 0) return axis;
    return -1;
}

int weft_mesh_size(const weft_mesh *mesh)
{
    int ranks = 1;

    for (int axis = 0; axis < mesh->text.n_axes; axis++) ranks *= mesh->text.sizes[axis];
    return ranks;
}

const int *wf_mesh_sizes(const weft_mesh *mesh) { return mesh->text.sizes; }

const int *wf_mesh_coordinates(const weft_mesh *mesh) { return mesh->coordinates; }

int weft_mesh_print(const weft_mesh *mesh, char *text, size_t bytes)
{
    char line[WEFT_MAX_AXES * (WF_AXIS_NAME + 16)];
    int length = 0;

    for (int axis = 0; axis < mesh->text.n_axes; axis++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%s:%d", axis ? ", " : "",
                           mesh->text.names[axis], mesh->text.sizes[axis]);
    return snprintf(text, bytes, "(%s)", line);
}

/* ---- communicators ---- */

struct wf_comm *wf_mesh_comm(weft_mesh *mesh, int axis)
{
    int size = mesh->text.sizes[axis], first = mesh->origin;
    int *ranks;

    if (mesh->comms[axis] || mesh->coordinates[axis] < 0 || mesh->fake) return mesh->comms[axis];
    for (int a = 0; a < mesh->text.n_axes; a++)
        if (a != axis) first += mesh->coordinates[a] * mesh->steps[a];
    ranks = wf_malloc((size_t)size * sizeof *ranks);
    for (int i = 0; i < size; i++) ranks[i] = first + i * mesh->steps[axis];
    mesh->comms[axis] = wf_comm_sub(ranks, size, wf_mesh_label(mesh->text.names[axis]));
    wf_free(ranks);
    return mesh->comms[axis];
}
