/*
 * tensor_bytes.c: one rank's tensor as bytes and back. A header of fixed size, then the names and
 * ranks of the mesh, then the elements, row-major.
 */
#include <weft/extend/dtensor_spec.h>

#include <stdio.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "mesh/mesh.h"
#include "placement/layout.h"
#include "tensor/host_copy.h"
#include "tensor/shape.h"
#include <weft/autograd.h>
#include <weft/ops.h>

enum { NAMES = 128, VERSION = 1 };

/* Also says how the machine that wrote it lays out numbers. */
static const char magic[] = "weftpart"; /* saved without its terminator */
static const int32_t order = 0x01020304;

struct save_header {
    char magic[8];
    int32_t order, version;
    int32_t dtype, device, ndim, n_axes; /* n_axes -1: a plain tensor */
    int32_t requires_grad, place;        /* of this rank in the mesh, -1 outside */
    int32_t n_ranks, mesh_device;
    int64_t shape[WEFT_MAX_DIMS], local[WEFT_MAX_DIMS];
    int32_t sizes[WEFT_MAX_AXES];
    weft_placement placements[WEFT_MAX_AXES];
    char names[NAMES]; /* "dp,tp"; empty: no names */
    int64_t bytes;     /* of the elements */
};

static size_t pad_to_8_bytes(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static int own_place_in_mesh(const weft_mesh *mesh)
{
    const int *at = wf_mesh_coordinates(mesh);
    int place = 0;

    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        if (at[a] < 0) return -1;
        place = place * weft_mesh_axis_size(mesh, a) + at[a];
    }
    return place;
}

/* ---- writing ---- */

static weft_status fill_mesh_header(struct save_header *save_header, const weft_mesh *mesh)
{
    int length = 0;

    WF_NEED(!weft_mesh_is_fake(mesh), WEFT_ERR_ARG, "save: the mesh has no ranks behind it");
    save_header->n_axes = weft_mesh_ndim(mesh);
    save_header->n_ranks = weft_mesh_size(mesh);
    save_header->place = own_place_in_mesh(mesh);
    save_header->mesh_device = (int32_t)weft_mesh_device(mesh);
    for (int a = 0; a < save_header->n_axes; a++) {
        const char *name = weft_mesh_axis_name(mesh, a);

        save_header->sizes[a] = weft_mesh_axis_size(mesh, a);
        if (!name[0]) continue;
        length += snprintf(save_header->names + length, sizeof save_header->names - (size_t)length,
                           "%s%s", a ? "," : "", name);
        WF_NEED(length < NAMES, WEFT_ERR_ARG, "save: the names of the mesh's axes are too long");
    }
    return WEFT_OK;
}

static weft_status fill_save_header(struct save_header *save_header, const weft_tensor *t)
{
    const struct wf_layout *layout = t->layout;
    const struct wf_tensor_desc *desc = &layout->desc;

    WF_TRY(wf_tensor_need_alive(t, "save"));
    *save_header = (struct save_header){.order = order,
                                        .version = VERSION,
                                        .dtype = desc->dtype,
                                        .device = desc->device,
                                        .ndim = desc->ndim,
                                        .n_axes = -1,
                                        .place = -1,
                                        .requires_grad = t->requires_grad};
    memcpy(save_header->magic, magic, sizeof save_header->magic);
    memcpy(save_header->shape, desc->global, (size_t)desc->ndim * sizeof *desc->global);
    memcpy(save_header->local, desc->shape, (size_t)desc->ndim * sizeof *desc->shape);
    memcpy(save_header->placements, layout->placements, sizeof save_header->placements);
    if (!wf_is_meta(t)) save_header->bytes = desc->numel * (int64_t)wf_dtypes[desc->dtype].size;
    return layout->mesh ? fill_mesh_header(save_header, layout->mesh) : WEFT_OK;
}

int64_t weft_shard_to_bytes(weft_tensor *t, void *bytes, int64_t room)
{
    struct save_header save_header;
    size_t elements_at;
    int32_t *ranks;
    int64_t need;

    if (!t || fill_save_header(&save_header, t) != WEFT_OK) {
        if (weft_error_status() == WEFT_OK) WF_FAIL(WEFT_ERR_ARG, "save: no tensor");
        return -1;
    }
    elements_at =
        sizeof save_header + pad_to_8_bytes((size_t)save_header.n_ranks * sizeof(int32_t));
    need = (int64_t)elements_at + save_header.bytes;
    if (!bytes || room < need) return need;
    memset(bytes, 0, elements_at);
    memcpy(bytes, &save_header, sizeof save_header);
    ranks = (int32_t *)((char *)bytes + sizeof save_header);
    for (int i = 0; i < save_header.n_ranks; i++) ranks[i] = wf_mesh_rank_list(t->layout->mesh)[i];
    if (save_header.bytes) {
        if (wf_tensor_download(t, (char *)bytes + elements_at, "shard_to_bytes") != WEFT_OK)
            return -1;
    }
    return need;
}

/* ---- reading ---- */

static bool is_header_valid(const struct save_header *save_header, int64_t size)
{
    int64_t numel, ranks = 1;
    bool empty;

    if ((unsigned)save_header->dtype >= WEFT_DTYPE_COUNT ||
        (unsigned)save_header->device >= WEFT_DEVICES ||
        (unsigned)save_header->mesh_device >= WEFT_DEVICES || save_header->ndim < 0 ||
        save_header->ndim > WEFT_MAX_DIMS || save_header->n_axes < -1 || save_header->n_axes == 0 ||
        save_header->n_axes > WEFT_MAX_AXES || save_header->names[NAMES - 1])
        return false;
    numel = wf_shape_numel(save_header->local, save_header->ndim);
    if (numel < 0 || wf_shape_numel(save_header->shape, save_header->ndim) < 0) return false;
    for (int a = 0; a < save_header->n_axes; a++) {
        if (save_header->sizes[a] < 1 || save_header->sizes[a] > INT32_MAX / ranks) return false;
        ranks *= save_header->sizes[a];
    }
    if (save_header->n_ranks != (save_header->n_axes > 0 ? ranks : 0)) return false;
    empty = save_header->device == WEFT_META || (save_header->n_axes > 0 && save_header->place < 0);
    return save_header->bytes <= size &&
           save_header->bytes == (empty ? 0 : numel * (int64_t)wf_dtypes[save_header->dtype].size);
}

static weft_status read_save_header(struct save_header *save_header, const void *bytes,
                                    int64_t size)
{
    int64_t before;

    WF_NEED(bytes && size >= (int64_t)sizeof *save_header, WEFT_ERR_IO,
            "load: %lld bytes are too few for a tensor", (long long)size);
    memcpy(save_header, bytes, sizeof *save_header);
    WF_NEED(memcmp(save_header->magic, magic, sizeof save_header->magic) == 0, WEFT_ERR_IO,
            "load: the bytes are no saved tensor");
    WF_NEED(save_header->order == order && save_header->version == VERSION, WEFT_ERR_IO,
            "load: the tensor was saved on another kind of machine, or by another version");
    WF_NEED(is_header_valid(save_header, size), WEFT_ERR_IO, "load: the saved tensor is damaged");
    before = (int64_t)(sizeof *save_header +
                       pad_to_8_bytes((size_t)save_header->n_ranks * sizeof(int32_t)));
    WF_NEED(size >= before + save_header->bytes, WEFT_ERR_IO,
            "load: %lld bytes of a tensor of %lld", (long long)size,
            (long long)(before + save_header->bytes));
    return WEFT_OK;
}

static weft_mesh *mesh_from_header(const struct save_header *save_header, const char *bytes)
{
    int sizes[WEFT_MAX_AXES],
        *ranks = wf_malloc(((size_t)save_header->n_ranks + 1) * sizeof *ranks);
    weft_mesh *mesh;

    for (int a = 0; a < save_header->n_axes; a++) sizes[a] = save_header->sizes[a];
    for (int i = 0; i < save_header->n_ranks; i++) {
        int32_t rank;

        memcpy(&rank, bytes + sizeof *save_header + (size_t)i * sizeof rank, sizeof rank);
        ranks[i] = rank;
    }
    mesh = weft_mesh_from_ranks((weft_device)save_header->mesh_device, sizes, save_header->n_axes,
                                save_header->names[0] ? save_header->names : NULL, ranks);
    wf_free(ranks);
    return mesh;
}

/* The layout of the saved tensor; it must be this rank's shard. */
static struct wf_layout *layout_from_header(const struct save_header *save_header, weft_mesh *mesh)
{
    weft_placement normal[WEFT_MAX_AXES];
    struct wf_layout *layout;

    if (mesh) {
        WF_NEED_PTR(save_header->place == own_place_in_mesh(mesh), WEFT_ERR_IO,
                    "load: the bytes are those of rank %d of the mesh, but this is rank %d",
                    save_header->place, own_place_in_mesh(mesh));
        WF_TRY_PTR(wf_placements_normalize(normal, save_header->placements, save_header->n_axes,
                                           save_header->ndim, "load"));
        WF_TRY_PTR(
            wf_placements_check_segments(normal, save_header->n_axes, save_header->shape, "load"));
    }
    layout = wf_layout_on_device(wf_layout_new(mesh, normal, (weft_dtype)save_header->dtype,
                                               save_header->shape, NULL, save_header->ndim),
                                 (weft_device)save_header->device);
    if (memcmp(layout->desc.shape, save_header->local,
               (size_t)save_header->ndim * sizeof *save_header->local) == 0)
        return layout;
    wf_layout_release(layout);
    WF_FAIL(WEFT_ERR_IO, "load: the saved shard has not the size of this rank's shard");
    return NULL;
}

static weft_tensor *load_tensor(const void *bytes, int64_t size)
{
    weft_mesh *mesh = NULL;
    struct wf_layout *layout;
    struct save_header save_header;
    weft_tensor *t;

    WF_TRY_PTR(read_save_header(&save_header, bytes, size));
    if (save_header.n_axes > 0) {
        mesh = mesh_from_header(&save_header, bytes);
        if (!mesh) return NULL;
    }
    layout = layout_from_header(&save_header, mesh);
    weft_mesh_release(mesh);
    if (!layout) return NULL;
    t = wf_tensor_new_empty(layout, WF_MEM_ACTIVATIONS, "load");
    wf_layout_release(layout);
    if (!t) return NULL;
    if (save_header.bytes)
        wf_device_upload(wf_device_of(t), t->data,
                         (const char *)bytes + sizeof save_header +
                             pad_to_8_bytes((size_t)save_header.n_ranks * sizeof(int32_t)),
                         (size_t)save_header.bytes);
    t->requires_grad = save_header.requires_grad;
    return t;
}

/* Each rank has bytes of its own. */
weft_tensor *weft_shard_from_bytes(const void *bytes, int64_t size)
{
    weft_tensor *t = load_tensor(bytes, size);

    if (!t) (void)wf_die_on_local_failure(weft_error_status());
    return t;
}
