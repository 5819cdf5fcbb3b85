/*
 * save.c: one rank's tensor as bytes and back. A head of fixed size says everything but the names
 * and numbers of the mesh's ranks, which follow it; then come the elements, row-major.
 */
#include <weft/dtensor.h>

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "mesh/mesh.h"
#include "placement/layout.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"
#include <weft/autograd.h>
#include <weft/ops.h>

enum { NAMES = 128, VERSION = 1 };

/* Also says how the machine that wrote it lays out numbers. */
static const char magic[8] = "weftpart";
static const int32_t order = 0x01020304;

struct head {
    char magic[8];
    int32_t order, version;
    int32_t dtype, device, ndim, n_axes; /* n_axes -1: a plain tensor */
    int32_t requires_grad, place;        /* of this rank in the mesh, -1 outside */
    int32_t n_ranks, pad;
    int64_t shape[WEFT_MAX_DIMS], local[WEFT_MAX_DIMS];
    int32_t sizes[WEFT_MAX_AXES];
    weft_placement placements[WEFT_MAX_AXES];
    char names[NAMES]; /* "dp,tp"; empty: no names */
    int64_t bytes;     /* of the elements */
};

static size_t padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static int place_of(const weft_mesh *mesh)
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

static weft_status describe_mesh(struct head *head, const weft_mesh *mesh)
{
    int length = 0;

    WF_NEED(!weft_mesh_is_fake(mesh), WEFT_ERR_ARG, "save: the mesh has no ranks behind it");
    head->n_axes = weft_mesh_ndim(mesh);
    head->n_ranks = weft_mesh_size(mesh);
    head->place = place_of(mesh);
    for (int a = 0; a < head->n_axes; a++) {
        const char *name = weft_mesh_axis_name(mesh, a);

        head->sizes[a] = weft_mesh_axis_size(mesh, a);
        if (!name[0]) continue;
        length += snprintf(head->names + length, sizeof head->names - (size_t)length, "%s%s",
                           a ? "," : "", name);
        WF_NEED(length < NAMES, WEFT_ERR_ARG, "save: the names of the mesh's axes are too long");
    }
    return WEFT_OK;
}

static weft_status describe(struct head *head, const weft_tensor *t)
{
    const struct wf_layout *layout = t->layout;
    const struct wf_desc *desc = &layout->desc;

    WF_TRY(wf_tensor_need_held(t, "save"));
    *head = (struct head){.order = order,
                          .version = VERSION,
                          .dtype = desc->dtype,
                          .device = desc->device,
                          .ndim = desc->ndim,
                          .n_axes = -1,
                          .place = -1,
                          .requires_grad = t->requires_grad};
    memcpy(head->magic, magic, sizeof magic);
    memcpy(head->shape, desc->global, (size_t)desc->ndim * sizeof *desc->global);
    memcpy(head->local, desc->shape, (size_t)desc->ndim * sizeof *desc->shape);
    memcpy(head->placements, layout->placements, sizeof head->placements);
    if (!wf_is_meta(t)) head->bytes = desc->numel * (int64_t)wf_dtypes[desc->dtype].size;
    return layout->mesh ? describe_mesh(head, layout->mesh) : WEFT_OK;
}

static void write_ranks(int32_t *to, const weft_mesh *mesh, int n)
{
    const int *ranks = wf_mesh_rank_list(mesh);

    for (int i = 0; i < n; i++) to[i] = ranks[i];
}

int64_t weft_tensor_save(weft_tensor *t, void *bytes, int64_t room)
{
    struct head head;
    size_t elements_at;
    int64_t need;

    if (!t || describe(&head, t) != WEFT_OK) {
        if (weft_error_status() == WEFT_OK) WF_FAIL(WEFT_ERR_ARG, "save: no tensor");
        return -1;
    }
    elements_at = sizeof head + padded((size_t)head.n_ranks * sizeof(int32_t));
    need = (int64_t)elements_at + head.bytes;
    if (!bytes || room < need) return need;
    memset(bytes, 0, elements_at);
    memcpy(bytes, &head, sizeof head);
    if (t->layout->mesh)
        write_ranks((int32_t *)((char *)bytes + sizeof head), t->layout->mesh, head.n_ranks);
    if (head.bytes) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *flat;

        weft_no_grad_begin();
        flat = weft_contiguous(t);
        weft_no_grad_end();
        if (flat) wf_settled(flat);
        if (flat) memcpy((char *)bytes + elements_at, flat->data, (size_t)head.bytes);
        weft_scope_close(scope);
        if (!flat) return -1;
    }
    return need;
}

/* ---- reading ---- */

static bool is_sound(const struct head *head, int64_t size)
{
    int64_t numel, ranks = 1;
    bool empty;

    if ((unsigned)head->dtype >= WEFT_DTYPE_COUNT || (unsigned)head->device >= WEFT_DEVICES ||
        head->ndim < 0 || head->ndim > WEFT_MAX_DIMS || head->n_axes < -1 || head->n_axes == 0 ||
        head->n_axes > WEFT_MAX_AXES || head->names[NAMES - 1])
        return false;
    numel = wf_shape_numel(head->ndim, head->local);
    if (numel < 0 || wf_shape_numel(head->ndim, head->shape) < 0) return false;
    for (int a = 0; a < head->n_axes; a++) {
        if (head->sizes[a] < 1 || head->sizes[a] > INT32_MAX / ranks) return false;
        ranks *= head->sizes[a];
    }
    if (head->n_ranks != (head->n_axes > 0 ? ranks : 0)) return false;
    empty = head->device == WEFT_META || (head->n_axes > 0 && head->place < 0);
    return head->bytes <= size &&
           head->bytes == (empty ? 0 : numel * (int64_t)wf_dtypes[head->dtype].size);
}

static weft_status read_head(struct head *head, const void *bytes, int64_t size)
{
    int64_t before;

    WF_NEED(bytes && size >= (int64_t)sizeof *head, WEFT_ERR_IO,
            "load: %lld bytes are too few for a tensor", (long long)size);
    memcpy(head, bytes, sizeof *head);
    WF_NEED(memcmp(head->magic, magic, sizeof magic) == 0, WEFT_ERR_IO,
            "load: the bytes are no saved tensor");
    WF_NEED(head->order == order && head->version == VERSION, WEFT_ERR_IO,
            "load: the tensor was saved on another kind of machine, or by another version");
    WF_NEED(is_sound(head, size), WEFT_ERR_IO, "load: the saved tensor is damaged");
    before = (int64_t)(sizeof *head + padded((size_t)head->n_ranks * sizeof(int32_t)));
    WF_NEED(size >= before + head->bytes, WEFT_ERR_IO, "load: %lld bytes of a tensor of %lld",
            (long long)size, (long long)(before + head->bytes));
    return WEFT_OK;
}

static weft_mesh *read_mesh(const struct head *head, const char *bytes)
{
    int sizes[WEFT_MAX_AXES], *ranks = wf_malloc(((size_t)head->n_ranks + 1) * sizeof *ranks);
    weft_mesh *mesh;

    for (int a = 0; a < head->n_axes; a++) sizes[a] = head->sizes[a];
    for (int i = 0; i < head->n_ranks; i++) {
        int32_t rank;

        memcpy(&rank, bytes + sizeof *head + (size_t)i * sizeof rank, sizeof rank);
        ranks[i] = rank;
    }
    mesh = weft_mesh_from_ranks(WEFT_CPU, head->n_axes, sizes, head->names[0] ? head->names : NULL,
                                ranks);
    wf_free(ranks);
    return mesh;
}

/* The layout of what was saved; it must be this rank's part. */
static struct wf_layout *read_layout(const struct head *head, weft_mesh *mesh)
{
    weft_placement normal[WEFT_MAX_AXES];
    struct wf_layout *layout;

    if (mesh) {
        WF_NEED_PTR(head->place == place_of(mesh), WEFT_ERR_IO,
                    "load: the part of rank %d of the mesh, but this is rank %d", head->place,
                    place_of(mesh));
        WF_TRY_PTR(
            wf_placements_normalize(normal, head->placements, head->n_axes, head->ndim, "load"));
        WF_TRY_PTR(wf_placements_fit(normal, head->n_axes, head->shape, "load"));
    }
    layout = wf_layout_onto(
        wf_layout_new(mesh, normal, (weft_dtype)head->dtype, head->ndim, head->shape, NULL),
        (weft_device)head->device);
    if (memcmp(layout->desc.shape, head->local, (size_t)head->ndim * sizeof *head->local) == 0)
        return layout;
    wf_layout_release(layout);
    WF_FAIL(WEFT_ERR_IO, "load: the saved part has not the size of this rank's part");
    return NULL;
}

static weft_tensor *load(const void *bytes, int64_t size)
{
    weft_mesh *mesh = NULL;
    struct wf_layout *layout;
    struct head head;
    weft_tensor *t;

    WF_TRY_PTR(read_head(&head, bytes, size));
    if (head.n_axes > 0) {
        mesh = read_mesh(&head, bytes);
        if (!mesh) return NULL;
    }
    layout = read_layout(&head, mesh);
    weft_mesh_release(mesh);
    if (!layout) return NULL;
    t = wf_tensor_empty(layout, WF_MEM_ACTIVATIONS, "load");
    wf_layout_release(layout);
    if (!t) return NULL;
    if (head.bytes)
        memcpy(t->data,
               (const char *)bytes + sizeof head + padded((size_t)head.n_ranks * sizeof(int32_t)),
               (size_t)head.bytes);
    t->requires_grad = head.requires_grad;
    return t;
}

/* Each rank has bytes of its own. */
weft_tensor *weft_tensor_load(const void *bytes, int64_t size)
{
    weft_tensor *t = load(bytes, size);

    if (!t) (void)wf_local_status(weft_error_status());
    return t;
}
