/* weights_read.c: one tensor of a file into one of ours. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "io/element_type.h"
#include "io/weights/weights.h"
#include "tensor/host_copy.h"
#include "tensor/shape.h"

const char *wf_shape_text(char *text, const int64_t *shape, int ndim)
{
    int used = snprintf(text, WF_SHAPE_TEXT, "[");

    for (int d = 0; d < ndim && used < WF_SHAPE_TEXT - 24; d++)
        used += snprintf(text + used, (size_t)(WF_SHAPE_TEXT - used), "%s%lld", d ? "," : "",
                         (long long)shape[d]);
    snprintf(text + used, (size_t)(WF_SHAPE_TEXT - used), "]");
    return text;
}

weft_status wf_check_has_elements(const char *who, const char *name, const weft_tensor *t)
{
    WF_NEED_GIVEN(t, "%s: tensor '%s' is NULL", who, name);
    WF_TRY(wf_tensor_check_alive(t, who));
    WF_NEED(!t->layout->partial, WEFT_ERR_LAYOUT,
            "%s: tensor '%s' is partial, each rank has a term of it only; "
            "redistribute it first",
            who, name);
    WF_NEED(!wf_is_meta(t), WEFT_ERR_STATE,
            "%s: tensor '%s' has no elements (WEFT_META); make it with weft_empty_like first", who,
            name);
    wf_wait_ready(t);
    return WEFT_OK;
}

/* Row-major strides; the runs of the dims are set by the caller. */
static void init_slice_strides(struct wf_file_slice *piece, int type, const int64_t *shape,
                               int ndim)
{
    *piece = (struct wf_file_slice){.type = type};
    wf_row_major_strides(piece->stride, shape, ndim);
}

void wf_file_slice_of_whole(struct wf_file_slice *piece, struct wf_index_range *whole, int type,
                            const int64_t *shape, int ndim)
{
    init_slice_strides(piece, type, shape, ndim);
    for (int d = 0; d < ndim; d++) {
        whole[d] = (struct wf_index_range){0, shape[d]};
        piece->runs[d] = &whole[d];
        piece->n_runs[d] = shape[d] > 0;
    }
}

void wf_file_slice_of_runs(struct wf_file_slice *piece, const struct wf_local_runs *local, int type,
                           const int64_t *shape, int ndim)
{
    init_slice_strides(piece, type, shape, ndim);
    for (int d = 0; d < ndim; d++) {
        piece->runs[d] = local->runs[d];
        piece->n_runs[d] = local->n_runs[d];
    }
}

static weft_status find_weight_or_fail(const struct wf_weight **item, const weft_weights *weights,
                                       const char *name)
{
    if (!weights && weft_error_status() != WEFT_OK) /* other ranks may have opened theirs */
        return WF_FAIL_LOCAL(weft_error_status(), "read weights: none are open here, after: %s",
                             weft_error_message());
    WF_NEED_GIVEN(weights, "weights: NULL");
    WF_NEED(name, WEFT_ERR_ARG, "weights: the name is NULL");
    *item = wf_weights_find(weights, name);
    WF_NEED(*item, WEFT_ERR_NOT_FOUND, "weights: no tensor '%s'", name);
    return WEFT_OK;
}

static weft_status check_shape_and_dtype(const struct wf_weight *item, const weft_tensor *t)
{
    const weft_weight *w = &item->info;
    char has[WF_SHAPE_TEXT], wants[WF_SHAPE_TEXT];
    const int64_t *shape = t->layout->desc.global;
    int ndim = weft_ndim(t);

    WF_NEED(w->ndim == ndim &&
                (ndim == 0 || memcmp(w->shape, shape, (size_t)ndim * sizeof *shape) == 0),
            WEFT_ERR_SHAPE, "%s: tensor '%s' is %s, not %s", w->file, w->name,
            wf_shape_text(has, w->shape, w->ndim), wf_shape_text(wants, shape, ndim));
    WF_NEED(wf_element_type_converts_to(item->entry->type, weft_tensor_dtype(t)), WEFT_ERR_DTYPE,
            "%s: tensor '%s' is %s, which cannot be read as %s", w->file, w->name, w->dtype,
            weft_dtype_name(weft_tensor_dtype(t)));
    return WEFT_OK;
}

/* Into the tensor, or where it is on a device into a copy on the host first. */
static weft_status read_through_host(bool *fits, weft_tensor *t, const struct wf_file_slice *piece)
{
    weft_tensor *host = wf_tensor_on_host(t, "weft_weights_read");
    struct wf_local_runs local;

    if (!host) return weft_error_status();
    wf_local_runs_of_tensor(&local, t);
    *fits = wf_file_slice_read(host, &local, piece);
    wf_local_runs_free(&local);
    return wf_tensor_write_back_from_host(t, host);
}

weft_status weft_weights_read_into(weft_weights *weights, const char *name, weft_tensor *t)
{
    const struct wf_weight *item;
    struct wf_index_range whole[WEFT_MAX_DIMS];
    struct wf_file_slice piece;
    weft_status status;
    weft_scope *scope;
    bool fits = false;

    WF_TRY(find_weight_or_fail(&item, weights, name));
    WF_TRY(wf_check_has_elements("read weights", name, t));
    WF_NEED(!t->node, WEFT_ERR_STATE, "read weights: the tensor for '%s' is the result of %s", name,
            t->origin);
    WF_TRY(check_shape_and_dtype(item, t));
    wf_file_slice_of_whole(&piece, whole, item->entry->type, item->info.shape, item->info.ndim);
    piece.data = item->file->data + item->entry->begin;
    scope = weft_scope_open();
    status = read_through_host(&fits, t, &piece);
    weft_scope_close(scope);
    WF_TRY(status);
    WF_NEED(fits, WEFT_ERR_DTYPE, "%s: tensor '%s': a number does not fit %s", item->info.file,
            name, weft_dtype_name(weft_tensor_dtype(t)));
    return WEFT_OK;
}

/* The dtype that holds a file's numbers without loss, where there is one. */
static weft_status choose_lossless_dtype(weft_dtype *dtype, const struct wf_weight *item)
{
    static const weft_dtype preferred[] = {WEFT_BOOL, WEFT_U8,  WEFT_BF16, WEFT_F16,
                                           WEFT_F32,  WEFT_F64, WEFT_I32,  WEFT_I64,
                                           WEFT_I16,  WEFT_I8,  WEFT_C64};
    const struct wf_element_type_info *type = wf_element_type_info(item->entry->type);

    for (size_t i = 0; i < sizeof preferred / sizeof preferred[0]; i++)
        if (wf_element_type_of_dtype(preferred[i]) == item->entry->type) {
            *dtype = preferred[i];
            return WEFT_OK;
        }
    WF_NEED(type->readable, WEFT_ERR_DTYPE, "%s: tensor '%s' is %s, which cannot be read",
            item->info.file, item->info.name, type->name);
    *dtype = !type->is_integer ? WEFT_F32 : type->bits < 32 ? WEFT_I32 : WEFT_I64;
    return WEFT_OK;
}

/* Of the mesh, or where new tensors are made; not where there are no elements. */
static weft_device device_with_elements(const weft_mesh *mesh)
{
    weft_device device = mesh ? weft_mesh_device(mesh) : wf_default_device();

    return device == WEFT_META ? WEFT_CPU : device;
}

weft_tensor *weft_weights_read(weft_weights *weights, const char *name, unsigned as,
                               weft_mesh *mesh, const weft_placement *placements)
{
    const struct wf_weight *item;
    struct wf_layout *layout;
    weft_placement normal[WEFT_MAX_AXES] = {{0}};
    weft_dtype dtype = (weft_dtype)(as - 1);
    weft_tensor *t;

    WF_TRY_PTR(find_weight_or_fail(&item, weights, name));
    if (as == 0) WF_TRY_PTR(choose_lossless_dtype(&dtype, item));
    WF_NEED_PTR((unsigned)dtype < WEFT_DTYPE_COUNT, WEFT_ERR_DTYPE, "read weights: dtype %d",
                (int)dtype);
    WF_NEED_PTR(item->info.ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE,
                "%s: tensor '%s' has %d dims; at most %d can be read", item->info.file, name,
                item->info.ndim, WEFT_MAX_DIMS);
    WF_TRY_PTR(wf_shape_check(dtype, item->info.shape, item->info.ndim));
    WF_NEED_PTR(!placements || mesh, WEFT_ERR_ARG, "read weights: placements without a mesh");
    if (mesh && placements)
        WF_TRY_PTR(wf_placements_check_shape(normal, placements, weft_mesh_ndim(mesh),
                                             item->info.shape, item->info.ndim, "read weights"));
    if (mesh)
        WF_TRY_PTR(wf_placements_check_segments(normal, weft_mesh_ndim(mesh), item->info.shape,
                                                "read weights"));
    layout = wf_layout_on_device(
        wf_layout_new(mesh, normal, dtype, item->info.shape, NULL, item->info.ndim),
        device_with_elements(mesh));
    t = wf_tensor_new_empty(layout, WF_MEM_WEIGHTS, "read weights");
    wf_layout_release(layout);
    return t && weft_weights_read_into(weights, name, t) == WEFT_OK ? t : NULL;
}
