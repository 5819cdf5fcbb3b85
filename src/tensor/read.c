/* read.c: elements as numbers of the program: the functions that wait for a device, beside copies
 * between devices, printing and saving. */
#include <math.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/recorder.h"
#include "tensor/host_copy.h"

/* Along no axis of several ranks does another rank have the element alone. */
static bool is_element_replicated(const struct wf_layout *layout)
{
    bool has = layout->desc.numel == 1 && !layout->partial;

    for (int a = 0; a < layout->n_axes; a++)
        has &=
            weft_is_replicate(layout->placements[a]) || weft_mesh_axis_size(layout->mesh, a) == 1;
    return has;
}

double weft_item(const weft_tensor *t)
{
    const struct wf_dtype_info *dtype;
    char element[8];

    if (!t || wf_tensor_check_alive(t, "item") != WEFT_OK) return NAN;
    if (t->layout->numel != 1 || !is_element_replicated(t->layout)) {
        char text[200];

        weft_tensor_format(t, text, sizeof text);
        WF_FAIL(WEFT_ERR_SHAPE, "item: needs one element that every rank holds, not %s", text);
        return NAN;
    }
    if (t->layout->desc.dtype == WEFT_C64) {
        WF_FAIL(WEFT_ERR_DTYPE, "item: a complex number is two; read weft_view_as_real");
        return NAN;
    }
    if (wf_is_meta(t)) {
        WF_FAIL(WEFT_ERR_STATE, "item: a tensor on the meta device has no elements");
        return NAN;
    }
    wf_recorder_leave("item: the program reads an element");
    wf_wait_ready(t);
    dtype = &wf_dtypes[t->layout->desc.dtype];
    wf_device_download(wf_device_of(t), element, t->data, dtype->size, "item");
    return dtype->load(element);
}

static void read_elements(const struct wf_host_elements *host, double *out)
{
    const struct wf_tensor_desc *desc = host->desc;

    for (int64_t i = 0; i < desc->numel; i++)
        out[i] = wf_dtypes[desc->dtype].load(wf_element_address(desc, host->data, i));
}

weft_status weft_read_f64(const weft_tensor *t, double *out, int64_t room)
{
    const struct wf_tensor_desc *desc;
    struct wf_host_elements host;

    WF_NEED_GIVEN(t, "read_f64: no tensor");
    WF_NEED(out || room <= 0, WEFT_ERR_ARG, "read_f64: no array to write to");
    WF_TRY(wf_tensor_check_alive(t, "read_f64"));
    desc = &t->layout->desc;
    WF_NEED(desc->dtype != WEFT_C64, WEFT_ERR_DTYPE,
            "read_f64: a complex number is two; read weft_view_as_real");
    WF_NEED(!wf_is_meta(t), WEFT_ERR_STATE,
            "read_f64: a tensor on the meta device has no elements");
    if (t->layout->mesh) /* whose shards differ in size */
        WF_NEED_LOCAL(room >= desc->numel, WEFT_ERR_ARG, "read_f64: room for %lld of %lld here",
                      (long long)room, (long long)desc->numel);
    WF_NEED(room >= desc->numel, WEFT_ERR_ARG, "read_f64: room for %lld of %lld elements",
            (long long)room, (long long)desc->numel);
    WF_TRY(wf_host_elements_open(&host, t, "read_f64"));
    read_elements(&host, out);
    wf_host_elements_close(&host);
    return WEFT_OK;
}
