/*
 * mesh_create.c: meshes from text, arrays, communicators of MPI and groups. What a user asks for is
 * checked here; with WEFT_CHECK=2 also that all ranks of a mesh ask for the same.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weft/mesh.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "base/upcalls.h"
#include "comm/comm.h"
#include "device/device.h"
#include "mesh/mesh_internal.h"

enum { TEXT_BYTES = 256 };

/* ---- size and ranks ---- */

/* The number of ranks of the grid, at most `most`; -1 above it. */
static int count_ranks(const struct wf_mesh_shape *text, int most)
{
    int64_t ranks = 1;

    for (int axis = 0; axis < text->n_axes; axis++) {
        ranks *= text->sizes[axis];
        if (ranks > most) return -1;
    }
    return (int)ranks;
}

static weft_status check_ranks(const int *ranks, int count)
{
    int world = weft_world_size();
    bool *seen = wf_calloc((size_t)world, sizeof *seen);
    int wrong = -1;

    for (int i = 0; i < count && wrong < 0; i++) {
        if (ranks[i] < 0 || ranks[i] >= world || seen[ranks[i]])
            wrong = i;
        else
            seen[ranks[i]] = true;
    }
    wf_free(seen);
    if (wrong < 0) return WEFT_OK;
    WF_NEED(ranks[wrong] >= 0 && ranks[wrong] < world, WEFT_ERR_ARG,
            "mesh: rank %d is not in the world of %d", ranks[wrong], world);
    return WF_FAIL(WEFT_ERR_ARG, "mesh: rank %d stands there twice", ranks[wrong]);
}

static int *consecutive_ranks(int count)
{
    int *ranks = wf_malloc((size_t)count * sizeof *ranks);

    for (int i = 0; i < count; i++) ranks[i] = i;
    return ranks;
}

/* ---- all ranks of a mesh make the same one ---- */

/* `wrong` makes another mesh; -1: nobody does. */
static weft_status fail_if_rank_differs(const weft_mesh *mesh, int wrong)
{
    char text[TEXT_BYTES];

    if (wrong < 0) return WEFT_OK;
    weft_mesh_format(mesh, text, sizeof text);
    return WF_FAIL(WEFT_ERR_ARG, "mesh %s: rank %d makes another mesh at the same time", text,
                   wrong);
}

/* Asked over the world, or over the members alone. Members that agree come to the same verdict;
 * ranks of other meshes are none of its business. */
static weft_status compare_hashes(const weft_mesh *mesh, struct wf_comm *comm)
{
    int wrong = -1;
    uint64_t *hashes = wf_malloc((size_t)wf_comm_size(comm) * sizeof *hashes);

    wf_comm_allgather_bytes(comm, &mesh->hash, hashes, sizeof *hashes);
    for (int i = 0; i < mesh->size && wrong < 0; i++)
        if (hashes[comm == wf_comm_world() ? mesh->ranks[i] : i] != mesh->hash)
            wrong = mesh->ranks[i];
    wf_free(hashes);
    return fail_if_rank_differs(mesh, wrong);
}

/* The smallest and the largest hash among some ranks, and who has them. */
struct hashes {
    uint64_t least, most;
    int least_of, most_of;
};

static void widen_hash_range(struct hashes *found, struct wf_comm *comm)
{
    int size = wf_comm_size(comm);
    struct hashes *all = wf_malloc((size_t)size * sizeof *all);

    wf_comm_allgather_bytes(comm, found, all, sizeof *all);
    for (int i = 0; i < size; i++) {
        if (all[i].least < found->least)
            found->least = all[i].least, found->least_of = all[i].least_of;
        if (all[i].most > found->most) found->most = all[i].most, found->most_of = all[i].most_of;
    }
    wf_free(all);
}

/* Asked along one group after another, so that each rank hears of all of the grid. The new mesh's
 * own ranks cannot be asked together: they may be what differs. */
static weft_status compare_hashes_along_groups(const weft_mesh *mesh, weft_mesh *const *groups,
                                               int n_groups)
{
    int me = weft_world_rank();
    struct hashes found = {mesh->hash, mesh->hash, me, me};

    for (int g = 0; g < n_groups; g++)
        if (groups[g]->size > 1) widen_hash_range(&found, wf_mesh_axis_comm(groups[g], 0));
    if (found.least != mesh->hash) return fail_if_rank_differs(mesh, found.least_of);
    return fail_if_rank_differs(mesh, found.most != mesh->hash ? found.most_of : -1);
}

/* ranks NULL: the first of the world; else copied */
static weft_mesh *make_mesh(weft_device device, const struct wf_mesh_shape *text, const int *ranks)
{
    weft_mesh candidate = {.text = *text, .device = device};
    int world = weft_world_size(), count = count_ranks(text, world);
    char shape[TEXT_BYTES];

    weft_mesh_format(&candidate, shape, sizeof shape);
    WF_NEED_PTR(count > 0, WEFT_ERR_COMM, "mesh %s needs more ranks: the world has %d", shape,
                world);
    if (ranks) WF_TRY_PTR(check_ranks(ranks, count));
    candidate.ranks = consecutive_ranks(count);
    if (ranks) memcpy(candidate.ranks, ranks, (size_t)count * sizeof *ranks);
    candidate.me = -1;
    for (int i = 0; i < count; i++)
        if (candidate.ranks[i] == weft_world_rank()) candidate.me = i;
    return wf_mesh_intern(&candidate);
}

/* For what all of the world makes together. */
static weft_mesh *mesh_if_world_agrees(weft_mesh *mesh)
{
    if (!mesh || wf_knobs.check < 2 || weft_world_size() == 1) return mesh;
    if (compare_hashes(mesh, wf_comm_world()) == WEFT_OK) return mesh;
    weft_mesh_release(mesh);
    return NULL;
}

/* For what only the mesh's own ranks make, which are the same on all of them. */
static weft_mesh *mesh_if_members_agree(weft_mesh *mesh)
{
    struct wf_comm *members;

    if (!mesh || wf_knobs.check < 2 || mesh->size == 1 || mesh->me < 0) return mesh;
    members = wf_comm_for_ranks(mesh->ranks, mesh->size, "mesh");
    if (compare_hashes(mesh, members) == WEFT_OK) return mesh;
    weft_mesh_release(mesh);
    return NULL;
}

/* The same, where the ranks of a grid may differ but not the groups that it is made of. */
static weft_mesh *mesh_if_groups_agree(weft_mesh *mesh, weft_mesh *const *groups, int n_groups)
{
    if (!mesh || wf_knobs.check < 2 || groups[0]->me < 0) return mesh;
    if (compare_hashes_along_groups(mesh, groups, n_groups) == WEFT_OK) return mesh;
    weft_mesh_release(mesh);
    return NULL;
}

/* ---- from text and arrays ---- */

static weft_status init_library_if_needed(void)
{
    if (wf_comm_is_initialized()) return WEFT_OK;
    WF_TRY(weft_init(NULL, NULL));
    wf_comm_mark_early_init();
    return WEFT_OK;
}

/* A mesh may be the first thing that a program makes: the world must begin before, and the rank
 * have its device, on which it then makes tensors. */
static weft_status init_for_mesh_on(weft_device device)
{
    WF_NEED((unsigned)device < WEFT_DEVICES, WEFT_ERR_ARG, "mesh: unknown device %d", (int)device);
    WF_TRY(init_library_if_needed());
    WF_TRY(wf_device_ensure_open(device));
    wf_set_default_device_of_mesh(device);
    return WEFT_OK;
}

static weft_status parse_format(struct wf_mesh_shape *out, const char *format, va_list args)
{
    char text[TEXT_BYTES];
    int length;

    WF_NEED(format, WEFT_ERR_ARG, "mesh: no description given");
    length = vsnprintf(text, sizeof text, format, args);
    WF_NEED(length >= 0 && (size_t)length < sizeof text, WEFT_ERR_ARG,
            "mesh: the description has more than %zu characters", sizeof text - 1);
    return wf_mesh_parse(out, text);
}

weft_mesh *weft_mesh_new(weft_device device, const char *format, ...)
{
    struct wf_mesh_shape text;
    weft_status status;
    va_list args;

    va_start(args, format);
    status = parse_format(&text, format, args);
    va_end(args);
    WF_TRY_PTR(status);
    WF_TRY_PTR(init_for_mesh_on(device));
    return mesh_if_world_agrees(make_mesh(device, &text, NULL));
}

weft_mesh *weft_mesh_from_ranks(weft_device device, const int *sizes, int n_axes, const char *names,
                                const int *ranks)
{
    struct wf_mesh_shape text;

    WF_TRY_PTR(wf_mesh_shape_from_arrays(&text, sizes, n_axes, names));
    WF_TRY_PTR(init_for_mesh_on(device));
    return mesh_if_world_agrees(make_mesh(device, &text, ranks));
}

/* ---- from communicators ---- */

weft_mesh *weft_mesh_from_mpi(weft_device device, int comm, const int *sizes, int n_axes,
                              const char *names)
{
    struct wf_mesh_shape text;
    weft_mesh *mesh = NULL;
    int *ranks, count;

    WF_TRY_PTR(init_for_mesh_on(device));
    WF_TRY_PTR(wf_comm_world_ranks_of_mpi(comm, &ranks, &count));
    if (wf_mesh_shape_from_arrays(&text, sizes ? sizes : &count, sizes ? n_axes : 1, names) ==
        WEFT_OK) {
        if (count_ranks(&text, count) == count)
            mesh = make_mesh(device, &text, ranks);
        else
            WF_FAIL(WEFT_ERR_ARG, "mesh: the sizes do not multiply to the communicator's %d ranks",
                    count);
    }
    wf_free(ranks);
    return mesh_if_members_agree(mesh);
}

static bool group_matches_grid_axis(const weft_mesh *mesh, int axis, const weft_mesh *group)
{
    int *ranks = wf_malloc((size_t)group->size * sizeof *ranks);
    bool same;

    wf_mesh_line_ranks(mesh, &axis, 1, ranks);
    same = memcmp(ranks, group->ranks, (size_t)group->size * sizeof *ranks) == 0;
    wf_free(ranks);
    return same;
}

/* Each rank has groups of its own: what does not fit here may fit everywhere else. The members of a
 * single group all see the same. */
static weft_status check_groups_match_grid(const weft_mesh *mesh, weft_mesh *const *groups,
                                           int n_groups)
{
    if (n_groups == 1) {
        WF_NEED(memcmp(mesh->ranks, groups[0]->ranks, (size_t)mesh->size * sizeof *mesh->ranks) ==
                    0,
                WEFT_ERR_ARG,
                "mesh: invalid grid for the group, which has other ranks or another order");
        return WEFT_OK;
    }
    for (int g = 0; mesh->me >= 0 && g < n_groups; g++)
        WF_NEED_LOCAL(group_matches_grid_axis(mesh, g, groups[g]), WEFT_ERR_ARG,
                      "mesh: group %d has other ranks than this rank's line of the grid", g);
    return WEFT_OK;
}

static weft_status check_groups(weft_mesh *const *groups, int n_groups, int *sizes)
{
    WF_NEED(n_groups >= 1 && n_groups <= WEFT_MAX_AXES, WEFT_ERR_ARG,
            "a mesh has 1 to %d groups, not %d", WEFT_MAX_AXES, n_groups);
    for (int g = 0; g < n_groups; g++) {
        WF_NEED(groups[g]->text.n_axes == 1 && !groups[g]->fake, WEFT_ERR_ARG,
                "mesh: group %d is not a mesh of one axis with ranks behind it", g);
        WF_NEED(groups[g]->device == groups[0]->device, WEFT_ERR_ARG,
                "mesh: groups 0 and %d are on different devices", g);
        sizes[g] = groups[g]->size;
    }
    return WEFT_OK;
}

weft_mesh *weft_mesh_from_groups(weft_mesh *const *groups, int n_groups, const char *names,
                                 const int *ranks)
{
    struct wf_mesh_shape text;
    int sizes[WEFT_MAX_AXES];
    weft_mesh *mesh;

    WF_NEED_PTR(groups, WEFT_ERR_ARG, "mesh: no list of groups");
    for (int g = 0; g < n_groups; g++)
        if (!groups[g]) return NULL;
    WF_TRY_PTR(check_groups(groups, n_groups, sizes));
    WF_NEED_PTR(ranks || n_groups == 1, WEFT_ERR_ARG,
                "mesh: the grid of ranks is needed for %d groups", n_groups);
    WF_TRY_PTR(wf_mesh_shape_from_arrays(&text, sizes, n_groups, names));
    mesh = make_mesh(groups[0]->device, &text, ranks ? ranks : groups[0]->ranks);
    if (!mesh) return NULL;
    if (check_groups_match_grid(mesh, groups, n_groups) == WEFT_OK)
        return mesh_if_groups_agree(mesh, groups, n_groups);
    weft_mesh_release(mesh);
    return NULL;
}

/* ---- without ranks ---- */

static weft_mesh *make_fake_mesh(const struct wf_mesh_shape *text, int rank)
{
    weft_mesh candidate = {.text = *text, .me = rank, .fake = true};

    candidate.ranks = consecutive_ranks(count_ranks(text, INT_MAX));
    return wf_mesh_intern(&candidate);
}

weft_mesh *weft_mesh_new_fake(int rank, const char *format, ...)
{
    struct wf_mesh_shape text;
    weft_status status;
    va_list args;
    int count;

    va_start(args, format);
    status = parse_format(&text, format, args);
    va_end(args);
    WF_TRY_PTR(status);
    count = count_ranks(&text, INT_MAX);
    WF_NEED_PTR(count > 0, WEFT_ERR_ARG, "mesh: more than %d ranks", INT_MAX);
    WF_NEED_PTR(rank >= 0 && rank < count, WEFT_ERR_ARG, "mesh: there is no rank %d among %d", rank,
                count);
    return make_fake_mesh(&text, rank);
}

weft_mesh *wf_mesh_new_fake(const int *sizes, const int *coordinates, const char *const *names,
                            int n_axes)
{
    struct wf_mesh_shape text = {.n_axes = n_axes};
    int rank = 0;

    for (int axis = 0; axis < n_axes; axis++) {
        text.sizes[axis] = sizes[axis];
        rank = coordinates[axis] < 0 || rank < 0 ? -1 : rank * sizes[axis] + coordinates[axis];
        if (names)
            snprintf(text.names[axis], WF_AXIS_NAME, "%s", names[axis]);
        else
            snprintf(text.names[axis], WF_AXIS_NAME, "a%d", axis);
    }
    return make_fake_mesh(&text, rank);
}
