/*
 * submesh.c: meshes made from a mesh: slices, flattened and unflattened axes, concatenated slices.
 * Each is a list of the mesh's axes; only the numbering of its ranks is new.
 *
 * NOTE [root]: equal meshes are one object, so a mesh may have been sliced from several. `root` is
 * the outermost mesh of the last slicing; a root has no root itself, so that references have no
 * cycle. Making the same mesh without slicing clears it. The root thus depends on the last call of
 * the program alone, and not on whether an equal mesh was still alive, which may differ by rank.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "mesh/mesh_internal.h"

enum { TEXT_BYTES = 256 };

/* ---- roots ---- */

weft_mesh *weft_mesh_root(weft_mesh *mesh)
{
    while (mesh && mesh->root) mesh = mesh->root;
    return mesh;
}

int weft_mesh_root_axis(const weft_mesh *mesh, int axis)
{
    return weft_mesh_axis(wf_mesh_root(WF_HANDLE(mesh)), weft_mesh_axis_name(mesh, axis));
}

/* ---- lines and cuts ---- */

int wf_mesh_line_ranks(const weft_mesh *mesh, const int *axes, int n_axes, int *ranks)
{
    /* where in mesh->ranks the line begins, and where this rank is on it */
    int start = mesh->me < 0 ? 0 : mesh->me, place = mesh->me < 0 ? -1 : 0, count = 1;

    for (int i = 0; mesh->me >= 0 && i < n_axes; i++) {
        start -= mesh->coordinates[axes[i]] * mesh->steps[axes[i]];
        place = place * mesh->text.sizes[axes[i]] + mesh->coordinates[axes[i]];
    }
    ranks[0] = start;
    for (int i = n_axes - 1; i >= 0; i--) { /* what is there already, once per step of the axis */
        int size = mesh->text.sizes[axes[i]], step = mesh->steps[axes[i]];

        for (int k = 1; k < size; k++)
            for (int j = 0; j < count; j++) ranks[k * count + j] = ranks[j] + k * step;
        count *= size;
    }
    for (int i = 0; i < count; i++) ranks[i] = mesh->ranks[ranks[i]];
    return place;
}

weft_mesh *wf_mesh_submesh(weft_mesh *mesh, const struct wf_flattened_axes *pieces, int n_pieces)
{
    weft_mesh candidate = {.text.n_axes = n_pieces,
                           .fake = mesh->fake,
                           .device = mesh->device,
                           .root = weft_mesh_root(mesh)};
    int axes[WEFT_MAX_AXES], n_axes = 0, size = 1;

    for (int p = 0; p < n_pieces; p++) {
        candidate.text.sizes[p] = 1;
        memcpy(candidate.text.names[p], pieces[p].name, WF_AXIS_NAME);
        for (int i = 0; i < pieces[p].n_axes; i++) {
            axes[n_axes++] = pieces[p].axes[i];
            candidate.text.sizes[p] *= mesh->text.sizes[pieces[p].axes[i]];
        }
        size *= candidate.text.sizes[p];
    }
    candidate.ranks = wf_malloc((size_t)size * sizeof(int));
    candidate.me = wf_mesh_line_ranks(mesh, axes, n_axes, candidate.ranks);
    return wf_mesh_intern(&candidate);
}

/* ---- slices ---- */

/* Axes of the root as axes of a mesh cut from it; false when the cut lacks one. */
static bool axes_from_root(const weft_mesh *mesh, struct wf_flattened_axes *piece)
{
    const weft_mesh *root = wf_mesh_root(mesh);

    for (int i = 0; root != mesh && i < piece->n_axes; i++) {
        piece->axes[i] = weft_mesh_axis(mesh, root->text.names[piece->axes[i]]);
        if (piece->axes[i] < 0) return false;
    }
    return true;
}

bool wf_mesh_resolve_axis_name(const weft_mesh *mesh, const char *name,
                               struct wf_flattened_axes *piece)
{
    const weft_mesh *root = wf_mesh_root(mesh);
    int axis = weft_mesh_axis(mesh, name);

    *piece = (struct wf_flattened_axes){.n_axes = 1, .axes = {axis}};
    snprintf(piece->name, sizeof piece->name, "%s", name);
    if (axis >= 0) return true;
    for (int m = 0; m < root->n_merged; m++) {
        if (strcmp(root->merged[m].name, name) != 0) continue;
        *piece = root->merged[m];
        return axes_from_root(mesh, piece);
    }
    return false;
}

unsigned wf_mesh_axes_of(const weft_mesh *mesh, const char *name)
{
    struct wf_flattened_axes piece;
    unsigned axes = 0;

    if (!wf_mesh_resolve_axis_name(mesh, name, &piece)) return 0;
    for (int i = 0; i < piece.n_axes; i++) axes |= 1u << piece.axes[i];
    return axes;
}

static weft_status resolve_axis_or_fail(const weft_mesh *mesh, const char *name,
                                        struct wf_flattened_axes *piece)
{
    char text[TEXT_BYTES];

    if (wf_mesh_resolve_axis_name(mesh, name, piece)) return WEFT_OK;
    weft_mesh_format(mesh, text, sizeof text);
    WF_NEED(wf_mesh_has_names(mesh), WEFT_ERR_ARG, "cannot slice mesh %s without axis names", text);
    return WF_FAIL(WEFT_ERR_NOT_FOUND, "invalid axis name: mesh %s has no axis \"%s\"", text, name);
}

/* No axis in two pieces. */
static weft_status check_no_axis_twice(const weft_mesh *mesh,
                                       const struct wf_flattened_axes *pieces, int n_pieces)
{
    bool taken[WEFT_MAX_AXES] = {false};
    char text[TEXT_BYTES];

    weft_mesh_format(mesh, text, sizeof text);
    for (int p = 0; p < n_pieces; p++)
        for (int i = 0; i < pieces[p].n_axes; i++) {
            bool *mine = &taken[pieces[p].axes[i]];

            WF_NEED(!*mine, WEFT_ERR_ARG, "mesh %s: \"%s\" overlaps with another axis of the slice",
                    text, pieces[p].name);
            *mine = true;
        }
    return WEFT_OK;
}

weft_mesh *weft_mesh_slice(weft_mesh *mesh, const char *const *names, int n_names)
{
    struct wf_flattened_axes pieces[WEFT_MAX_AXES];

    if (!mesh) return NULL;
    WF_NEED_PTR(n_names >= 1 && n_names <= WEFT_MAX_AXES, WEFT_ERR_ARG,
                "a slice of a mesh has 1 to %d axes, not %d", WEFT_MAX_AXES, n_names);
    WF_NEED_PTR(names, WEFT_ERR_ARG, "a slice of a mesh: no names");
    for (int i = 0; i < n_names; i++) WF_TRY_PTR(resolve_axis_or_fail(mesh, names[i], &pieces[i]));
    WF_TRY_PTR(check_no_axis_twice(mesh, pieces, n_names));
    return wf_mesh_submesh(mesh, pieces, n_names);
}

weft_mesh *weft_mesh_sub(weft_mesh *mesh, const char *names)
{
    char list[WEFT_MAX_AXES][WF_AXIS_NAME];
    const char *each[WEFT_MAX_AXES];
    int count;

    if (!mesh) return NULL;
    WF_NEED_PTR(names, WEFT_ERR_ARG, "weft_mesh_sub: no axis is named");
    count = wf_mesh_parse_names(list, names);
    if (count < 0) return NULL;
    for (int i = 0; i < count; i++) each[i] = list[i];
    return weft_mesh_slice(mesh, each, count);
}

/* ---- merged axes ---- */

static weft_status name_flattened_axis(const weft_mesh *mesh, const char *name,
                                       struct wf_flattened_axes *whole)
{
    char joined[WEFT_MAX_AXES * WF_AXIS_NAME] = "", parsed[WEFT_MAX_AXES][WF_AXIS_NAME] = {{0}};
    int length = 0;

    for (int axis = 0; axis < mesh->text.n_axes; axis++)
        length += snprintf(joined + length, sizeof joined - (size_t)length, "%s%s", axis ? "_" : "",
                           mesh->text.names[axis]);
    WF_NEED(name || wf_mesh_has_names(mesh), WEFT_ERR_ARG,
            "the merged axes of a mesh without names need a name");
    switch (wf_mesh_parse_names(parsed, name ? name : joined)) {
    case -1:
        return weft_error_status();
    case 1:
        memcpy(whole->name, parsed[0], WF_AXIS_NAME);
        return WEFT_OK;
    default:
        return WF_FAIL(WEFT_ERR_ARG, "the merged axis gets one name, not \"%s\"", name);
    }
}

/* As axes of the root. An axis that is itself merged stands for what it was merged from. */
static weft_status axes_in_root(const weft_mesh *mesh, struct wf_flattened_axes *whole)
{
    const weft_mesh *root = wf_mesh_root(mesh);
    struct wf_flattened_axes piece;
    int n = 0;

    for (int axis = 0; axis < mesh->text.n_axes; axis++) {
        piece = (struct wf_flattened_axes){.n_axes = 1, .axes = {axis}};
        if (root != mesh && !wf_mesh_resolve_axis_name(root, mesh->text.names[axis], &piece))
            return WF_FAIL(WEFT_ERR_STATE, "the root of a mesh forgot its axis \"%s\"",
                           mesh->text.names[axis]);
        for (int i = 0; i < piece.n_axes; i++) whole->axes[n++] = piece.axes[i];
    }
    whole->n_axes = n;
    return WEFT_OK;
}

static bool same_axes(const struct wf_flattened_axes *a, const struct wf_flattened_axes *b)
{
    return a->n_axes == b->n_axes &&
           memcmp(a->axes, b->axes, (size_t)a->n_axes * sizeof a->axes[0]) == 0;
}

static weft_status remember_flattened(weft_mesh *root, const struct wf_flattened_axes *whole)
{
    struct wf_flattened_axes known;
    char text[TEXT_BYTES];

    if (wf_mesh_resolve_axis_name(root, whole->name, &known)) {
        weft_mesh_format(root, text, sizeof text);
        WF_NEED(same_axes(&known, whole), WEFT_ERR_ARG,
                "mesh %s: the name \"%s\" is taken for other axes", text, whole->name);
        return WEFT_OK;
    }
    wf_mesh_add_flattened(root, whole);
    return WEFT_OK;
}

weft_mesh *weft_mesh_flatten(weft_mesh *mesh, const char *name)
{
    struct wf_flattened_axes whole = {0};
    weft_mesh *root;

    if (!mesh) return NULL;
    WF_TRY_PTR(name_flattened_axis(mesh, name, &whole));
    if (mesh->text.n_axes == 1 && strcmp(mesh->text.names[0], whole.name) == 0)
        return weft_mesh_retain(mesh);
    root = weft_mesh_root(mesh);
    WF_TRY_PTR(axes_in_root(mesh, &whole));
    WF_TRY_PTR(remember_flattened(root, &whole));
    return wf_mesh_submesh(root, &whole, 1);
}

/* ---- split axes ---- */

static weft_status split_axis_sizes(struct wf_mesh_shape *text, const weft_mesh *mesh, int axis,
                                    const struct wf_mesh_shape *split)
{
    int64_t product = 1;
    int n = 0;

    for (int p = 0; p < split->n_axes; p++) product *= split->sizes[p];
    WF_NEED(product == mesh->text.sizes[axis], WEFT_ERR_ARG,
            "axis %d of %d ranks cannot be split in axes of %lld ranks", axis,
            mesh->text.sizes[axis], (long long)product);
    WF_NEED(mesh->text.n_axes + split->n_axes - 1 <= WEFT_MAX_AXES, WEFT_ERR_ARG,
            "a mesh has at most %d axes", WEFT_MAX_AXES);
    for (int a = 0; a < mesh->text.n_axes; a++) {
        const struct wf_mesh_shape *from = a == axis ? split : &mesh->text;
        int first = a == axis ? 0 : a, count = a == axis ? split->n_axes : 1;

        for (int i = first; i < first + count; i++, n++) {
            text->sizes[n] = from->sizes[i];
            memcpy(text->names[n], from->names[i], WF_AXIS_NAME);
        }
    }
    text->n_axes = n;
    return WEFT_OK;
}

static weft_status check_unique_names(const struct wf_mesh_shape *text)
{
    for (int a = 0; a < text->n_axes; a++)
        for (int b = 0; b < a; b++)
            WF_NEED(!text->names[a][0] || strcmp(text->names[a], text->names[b]) != 0, WEFT_ERR_ARG,
                    "each axis name must be unique, but two are called \"%s\"", text->names[a]);
    return WEFT_OK;
}

weft_mesh *weft_mesh_unflatten(weft_mesh *mesh, int axis, const int *sizes, int n_sizes,
                               const char *names)
{
    struct wf_mesh_shape split;
    weft_mesh candidate = {0};

    if (!mesh) return NULL;
    WF_NEED_PTR(axis >= 0 && axis < mesh->text.n_axes, WEFT_ERR_ARG,
                "a mesh of %d axes has no axis %d", mesh->text.n_axes, axis);
    WF_TRY_PTR(wf_mesh_shape_from_arrays(&split, sizes, n_sizes, names));
    WF_NEED_PTR((names != NULL) == wf_mesh_has_names(mesh), WEFT_ERR_ARG,
                "either all axes of a mesh have names or none");
    WF_TRY_PTR(split_axis_sizes(&candidate.text, mesh, axis, &split));
    WF_TRY_PTR(check_unique_names(&candidate.text));
    candidate.me = mesh->me;
    candidate.fake = mesh->fake;
    candidate.device = mesh->device;
    candidate.ranks = wf_malloc((size_t)mesh->size * sizeof(int));
    memcpy(candidate.ranks, mesh->ranks, (size_t)mesh->size * sizeof(int));
    return wf_mesh_intern(&candidate);
}

/* ---- side by side ---- */

/* A list of the axes of several meshes; false when there are too many. */
static bool collect_axis_names(weft_mesh *const *meshes, int n_meshes, const char **names,
                               int *count)
{
    *count = 0;
    for (int m = 0; m < n_meshes; m++)
        for (int axis = 0; axis < meshes[m]->text.n_axes; axis++) {
            if (*count == WEFT_MAX_AXES) return false;
            names[(*count)++] = meshes[m]->text.names[axis];
        }
    return true;
}

/* Equal meshes are one object, so cutting again gives the mesh itself or another one. */
static bool is_submesh_of(weft_mesh *mesh, weft_mesh *root)
{
    struct wf_flattened_axes pieces[WEFT_MAX_AXES];
    weft_mesh *again;

    for (int axis = 0; axis < mesh->text.n_axes; axis++)
        if (!wf_mesh_resolve_axis_name(root, mesh->text.names[axis], &pieces[axis])) return false;
    if (mesh == root) return true;
    again = wf_mesh_submesh(root, pieces, mesh->text.n_axes);
    weft_mesh_release(again);
    return again == mesh;
}

static weft_mesh *common_root(weft_mesh *const *meshes, int n_meshes)
{
    for (int candidate = 0; candidate < n_meshes; candidate++) {
        weft_mesh *root = weft_mesh_root(meshes[candidate]);
        int m = 0;

        while (m < n_meshes && is_submesh_of(meshes[m], root)) m++;
        if (m == n_meshes) return root;
    }
    return NULL;
}

weft_mesh *weft_mesh_concatenate(weft_mesh *const *meshes, int n_meshes)
{
    const char *names[WEFT_MAX_AXES];
    weft_mesh *root;
    int count;

    WF_NEED_PTR(meshes, WEFT_ERR_ARG, "mesh: no list of meshes to join");
    for (int m = 0; m < n_meshes; m++)
        if (!meshes[m]) return NULL;
    WF_NEED_PTR(n_meshes >= 1 && collect_axis_names(meshes, n_meshes, names, &count), WEFT_ERR_ARG,
                "a mesh has 1 to %d axes", WEFT_MAX_AXES);
    root = common_root(meshes, n_meshes);
    WF_NEED_PTR(root, WEFT_ERR_ARG, "meshes that were not cut from the same mesh cannot be joined");
    return weft_mesh_slice(root, names, count);
}
