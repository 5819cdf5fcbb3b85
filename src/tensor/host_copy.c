/*
 * host_copy.c: the shard of a tensor as host memory. Row-major shards are copied as they lie;
 * others are packed or unpacked on their device, so that only their own elements travel.
 */
#include "tensor/host_copy.h"

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/recorder.h"

static size_t shard_bytes(const struct wf_tensor_desc *desc)
{
    return (size_t)desc->numel * wf_dtypes[desc->dtype].size;
}

/* Between the shard and a row-major array on the same device. */
static void copy_packed(const weft_tensor *t, void *packed, bool pack)
{
    const struct wf_tensor_desc *desc = &t->layout->desc;
    size_t element = wf_dtypes[desc->dtype].size;
    int64_t row_major[WEFT_MAX_DIMS];
    struct wf_strided_copy copy;

    wf_row_major_strides(row_major, desc->shape, desc->ndim);
    wf_strided_copy_init(&copy, desc->shape, pack ? desc->stride : row_major,
                         pack ? row_major : desc->stride, desc->ndim, element);
    if (pack)
        wf_device_strided_copy(wf_device_of(t), &copy, packed, t->data);
    else
        wf_device_strided_copy(wf_device_of(t), &copy, t->data, packed);
}

/* A strided shard of a device goes through a row-major block there. */
static weft_status copy_through_block(const weft_tensor *t, void *host, bool download,
                                      const char *who)
{
    size_t bytes = shard_bytes(&t->layout->desc);
    struct wf_block *block = wf_block_new_on(wf_device_of(t), bytes, WF_MEM_ACTIVATIONS);

    if (!block) return weft_error_status();
    if (download) {
        copy_packed(t, block->data, true);
        wf_device_download(wf_device_of(t), host, block->data, bytes, who);
    } else {
        wf_device_upload(wf_device_of(t), block->data, host, bytes);
        copy_packed(t, block->data, false);
    }
    wf_block_release(block);
    return WEFT_OK;
}

weft_status wf_tensor_download(const weft_tensor *t, void *packed, const char *who)
{
    const struct wf_tensor_desc *desc = &t->layout->desc;

    wf_recorder_leave("%s: the program reads elements", who);
    wf_wait_ready(t);
    if (desc->contiguous)
        wf_device_download(wf_device_of(t), packed, t->data, shard_bytes(desc), who);
    else if (wf_device_of(t) == WEFT_CPU)
        copy_packed(t, packed, true);
    else
        return copy_through_block(t, packed, true, who);
    return WEFT_OK;
}

weft_status wf_tensor_upload(const weft_tensor *t, const void *packed)
{
    const struct wf_tensor_desc *desc = &t->layout->desc;

    if (desc->contiguous)
        wf_device_upload(wf_device_of(t), t->data, packed, shard_bytes(desc));
    else if (wf_device_of(t) == WEFT_CPU)
        copy_packed(t, (void *)(uintptr_t)packed, false);
    else
        return copy_through_block(t, (void *)(uintptr_t)packed, false, NULL);
    return WEFT_OK;
}

weft_status wf_host_elements_open(struct wf_host_elements *host, const weft_tensor *t,
                                  const char *who)
{
    weft_status status;

    wf_recorder_leave("%s: the program reads elements", who);
    wf_wait_ready(t);
    *host = (struct wf_host_elements){.desc = &t->layout->desc, .data = t->data};
    if (wf_device_of(t) == WEFT_CPU) return WEFT_OK;
    host->block = wf_block_new(shard_bytes(host->desc), WF_MEM_ACTIVATIONS);
    if (!host->block) return weft_error_status();
    host->layout = wf_layout_with_placements(t->layout, t->layout->placements);
    host->desc = &host->layout->desc;
    host->data = host->block->data;
    status = wf_tensor_download(t, host->block->data, who);
    if (status != WEFT_OK) wf_host_elements_close(host);
    return status;
}

void wf_host_elements_close(struct wf_host_elements *host)
{
    if (!host->block) return;
    wf_block_release(host->block);
    wf_layout_release(host->layout);
    host->block = NULL;
}

int64_t wf_tensor_hash_elements(const weft_tensor *t, const char *who)
{
    struct wf_host_elements host;
    int64_t hash;

    if (wf_host_elements_open(&host, t, who) != WEFT_OK) return -1;
    hash = (int64_t)(wf_hash_bytes(host.data, shard_bytes(host.desc)) >> 1);
    wf_host_elements_close(&host);
    return hash;
}

const char *wf_element_address(const struct wf_tensor_desc *desc, const void *data, int64_t index)
{
    int64_t at = 0;

    for (int d = desc->ndim - 1; d >= 0; d--) {
        at += index % desc->shape[d] * desc->stride[d];
        index /= desc->shape[d];
    }
    return (const char *)data + at * wf_dtypes[desc->dtype].size;
}

weft_tensor *wf_tensor_on_host(weft_tensor *t, const char *who)
{
    struct wf_layout *layout;
    weft_tensor *host;

    if (wf_device_of(t) == WEFT_CPU) return t;
    layout =
        wf_layout_on_device(wf_layout_with_placements(t->layout, t->layout->placements), WEFT_CPU);
    host = wf_tensor_new_empty(layout, WF_MEM_ACTIVATIONS, who);
    wf_layout_release(layout);
    if (host) WF_TRY_PTR(wf_tensor_download(t, host->data, who));
    return host;
}

weft_status wf_tensor_write_back_from_host(weft_tensor *t, const weft_tensor *host)
{
    return host == t ? WEFT_OK : wf_tensor_upload(t, host->data);
}
