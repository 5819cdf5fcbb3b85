/*
 * mesh.c: the table of meshes, and what a mesh says of itself. Equal meshes are the same pointer
 * (layouts compare meshes by pointer): one that is asked for twice is found in the thread's table
 * and retained. How meshes are made is in mesh_create.c and submesh.c, who communicates in
 * mesh_comm.c.
 *
 * NOTE [merged]: redistribution uses one collective where the user merged axes, so all ranks must
 * agree on what is merged. What a rank still holds of a mesh that the user let go depends on which
 * plans it cached, and they differ between ranks. Hence a mesh with merged axes stays in the table
 * until the rank ends, and whenever the axes that count as merged change, plans are made anew.
 */
#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "mesh/mesh_internal.h"

static _Thread_local weft_mesh *meshes;
static void (*on_change)(void);

int weft_world_rank(void) { return wf_comm_rank(wf_comm_world()); }

int weft_world_size(void) { return wf_comm_size(wf_comm_world()); }

/* ---- the table ---- */

static void compute_derived_fields(weft_mesh *mesh)
{
    const struct wf_mesh_shape *text = &mesh->text;

    mesh->size = 1;
    for (int axis = text->n_axes - 1; axis >= 0; axis--) {
        mesh->steps[axis] = mesh->size;
        mesh->size *= text->sizes[axis];
    }
    for (int axis = 0; axis < text->n_axes; axis++)
        mesh->coordinates[axis] =
            mesh->me < 0 ? -1 : mesh->me / mesh->steps[axis] % text->sizes[axis];
    mesh->hash = wf_hash_mix(wf_hash_bytes(text, sizeof *text),
                             wf_hash_bytes(mesh->ranks, (size_t)mesh->size * sizeof(int)));
    mesh->hash = wf_hash_mix(mesh->hash, (uint64_t)mesh->device << 1 | mesh->fake);
}

static bool meshes_equal(const weft_mesh *a, const weft_mesh *b)
{
    return a->hash == b->hash && a->me == b->me && a->fake == b->fake && a->device == b->device &&
           a->size == b->size && memcmp(&a->text, &b->text, sizeof a->text) == 0 &&
           memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof(int)) == 0;
}

void wf_mesh_set_change_hook(void (*hook)(void)) { on_change = hook; }

static int flattened_count_of(const weft_mesh *mesh) { return mesh ? mesh->n_merged : 0; }

static void set_root(weft_mesh *mesh, weft_mesh *root)
{
    weft_mesh *old = mesh->root;

    if (old == root || mesh == root) return;
    mesh->root = weft_mesh_retain(root);
    if (on_change && (flattened_count_of(old) || flattened_count_of(root))) on_change();
    weft_mesh_release(old);
}

void wf_mesh_add_flattened(weft_mesh *mesh, const struct wf_flattened_axes *merged)
{
    if (mesh->n_merged == 0) weft_mesh_retain(mesh);
    mesh->merged = wf_array_grow(mesh->merged, mesh->n_merged, sizeof *mesh->merged);
    mesh->merged[mesh->n_merged++] = *merged;
    if (on_change) on_change();
}

void wf_mesh_release_flattened(void)
{
    weft_mesh *mesh = meshes;

    while (mesh) {
        if (mesh->n_merged == 0) {
            mesh = mesh->next;
            continue;
        }
        mesh->n_merged = 0;
        weft_mesh_release(mesh);
        mesh = meshes; /* its root may be gone too */
    }
}

weft_mesh *wf_mesh_intern(const weft_mesh *candidate)
{
    weft_mesh *mesh = WF_NEW(weft_mesh), *twin;

    mesh->text = candidate->text;
    mesh->ranks = candidate->ranks;
    mesh->me = candidate->me;
    mesh->fake = candidate->fake;
    mesh->device = candidate->device;
    compute_derived_fields(mesh);
    for (twin = meshes; twin; twin = twin->next) {
        if (!meshes_equal(twin, mesh)) continue;
        wf_free(mesh->ranks);
        wf_free(mesh);
        weft_mesh_retain(twin);
        set_root(twin, candidate->root);
        return twin;
    }
    mesh->root = weft_mesh_retain(candidate->root);
    mesh->refs = 1;
    mesh->next = meshes;
    meshes = mesh;
    return mesh;
}

weft_mesh *weft_mesh_retain(weft_mesh *mesh)
{
    if (mesh) mesh->refs++;
    return mesh;
}

/* Communicators belong to the world, so that the next mesh with these lines finds them again. */
void weft_mesh_release(weft_mesh *mesh)
{
    weft_mesh **at = &meshes;

    if (!mesh || --mesh->refs > 0) return;
    while (*at != mesh) at = &(*at)->next;
    *at = mesh->next;
    weft_mesh_release(mesh->root);
    wf_free(mesh->merged);
    wf_free(mesh->ranks);
    wf_free(mesh);
}

/* ---- asking ---- */

int weft_mesh_ndim(const weft_mesh *mesh) { return WF_HANDLE(mesh)->text.n_axes; }

static bool has_axis(const weft_mesh *mesh, int axis)
{
    return axis >= 0 && axis < WF_HANDLE(mesh)->text.n_axes;
}

int weft_mesh_axis_size(const weft_mesh *mesh, int axis)
{
    return has_axis(mesh, axis) ? WF_HANDLE(mesh)->text.sizes[axis] : 0;
}

const char *weft_mesh_axis_name(const weft_mesh *mesh, int axis)
{
    return has_axis(mesh, axis) ? WF_HANDLE(mesh)->text.names[axis] : "";
}

int weft_mesh_coordinate(const weft_mesh *mesh, int axis)
{
    return has_axis(mesh, axis) ? WF_HANDLE(mesh)->coordinates[axis] : -1;
}

int weft_mesh_axis(const weft_mesh *mesh, const char *name)
{
    WF_ASSERT(mesh);
    if (!name || !name[0]) return -1;
    for (int axis = 0; axis < mesh->text.n_axes; axis++)
        if (strcmp(mesh->text.names[axis], name) == 0) return axis;
    return -1;
}

int weft_mesh_size(const weft_mesh *mesh) { return WF_HANDLE(mesh)->size; }

bool weft_mesh_is_member(const weft_mesh *mesh) { return WF_HANDLE(mesh)->me >= 0; }

weft_device weft_mesh_device(const weft_mesh *mesh) { return WF_HANDLE(mesh)->device; }

bool weft_mesh_is_fake(const weft_mesh *mesh) { return WF_HANDLE(mesh)->fake; }

int weft_mesh_ranks(const weft_mesh *mesh, int *ranks, int room)
{
    int count = room < WF_HANDLE(mesh)->size ? room : mesh->size;

    if (count > 0) memcpy(ranks, mesh->ranks, (size_t)count * sizeof *ranks);
    return mesh->size;
}

bool weft_mesh_find(const weft_mesh *mesh, int world_rank, int *coordinates)
{
    for (int i = 0; i < WF_HANDLE(mesh)->size; i++) {
        if (mesh->ranks[i] != world_rank) continue;
        for (int axis = 0; axis < mesh->text.n_axes; axis++)
            coordinates[axis] = i / mesh->steps[axis] % mesh->text.sizes[axis];
        return true;
    }
    return false;
}

uint64_t weft_mesh_hash(const weft_mesh *mesh) { return WF_HANDLE(mesh)->hash; }

const int *wf_mesh_sizes(const weft_mesh *mesh) { return mesh->text.sizes; }

const int *wf_mesh_coordinates(const weft_mesh *mesh) { return mesh->coordinates; }

const int *wf_mesh_rank_list(const weft_mesh *mesh) { return mesh->ranks; }

int weft_mesh_format(const weft_mesh *mesh, char *text, size_t bytes)
{
    char line[WEFT_MAX_AXES * (WF_AXIS_NAME + 16)];
    int length = 0;

    for (int axis = 0; axis < WF_HANDLE(mesh)->text.n_axes; axis++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%s%s%d",
                           axis ? ", " : "", mesh->text.names[axis],
                           mesh->text.names[axis][0] ? ":" : "", mesh->text.sizes[axis]);
    return snprintf(text, bytes, "(%s)", line);
}
