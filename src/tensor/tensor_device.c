/*
 * tensor_device.c: where elements are. A tensor on the meta device has shape, dtype and placements
 * but no elements; ops on it give such tensors again, and what would be sent is only booked. The
 * rest of the library asks the layout: desc.device. Copies from one device to another are an op
 * (dtensor/convert/to_device.c).
 */
#include <string.h>

#include "base/error.h"
#include "tensor/tensor.h"

weft_device weft_set_default_device(weft_device device)
{
    weft_device before = wf_default_device();

    if ((unsigned)device >= WEFT_DEVICES)
        WF_FAIL(WEFT_ERR_ARG, "default device: there is no device %d", (int)device);
    else if (wf_device_ensure_open(device) == WEFT_OK)
        wf_set_default_device(device);
    return before;
}

weft_device weft_tensor_device(const weft_tensor *t)
{
    return t ? (weft_device)t->layout->desc.device : WEFT_CPU;
}

/* Takes over the reference to the layout. */
static weft_tensor *empty_on_device(struct wf_layout *layout, const weft_tensor *t,
                                    weft_device device, const char *origin)
{
    weft_tensor *empty;

    layout = wf_layout_on_device(layout, device);
    empty = wf_tensor_new_empty(layout, (enum wf_category)t->block->category, origin);
    wf_layout_release(layout);
    return empty;
}

weft_tensor *weft_empty_like(const weft_tensor *t, weft_device device)
{
    weft_placement placements[WEFT_MAX_AXES];

    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, "empty_like"));
    WF_NEED_PTR((unsigned)device < WEFT_DEVICES, WEFT_ERR_ARG, "empty_like: there is no device %d",
                (int)device);
    memcpy(placements, t->layout->placements, sizeof placements);
    for (int a = 0; a < t->layout->n_axes; a++)
        if (placements[a].kind == WEFT_KIND_PARTIAL) placements[a] = weft_replicate();
    return empty_on_device(wf_layout_with_placements(t->layout, placements), t, device,
                           "empty_like");
}

weft_tensor *weft_empty_like_partial(const weft_tensor *t, weft_device device)
{
    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, "empty_like_partial"));
    WF_NEED_PTR((unsigned)device < WEFT_DEVICES, WEFT_ERR_ARG,
                "empty_like_partial: there is no device %d", (int)device);
    return empty_on_device(wf_layout_with_placements(t->layout, t->layout->placements), t, device,
                           "empty_like_partial");
}
