/* message_pieces.c: packing and unpacking of the pieces of a tensor, one strided copy each. */
#include "dtensor/collectives/message_pieces.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/mem.h"

int64_t wf_message_pieces_total_size(const struct wf_message_pieces *p, int ways)
{
    int64_t size = 0;

    for (int r = 0; r < ways; r++) size += p->sizes[r];
    return size;
}

size_t *wf_message_pieces_counts(const struct wf_message_pieces *p, int ways)
{
    size_t *counts = wf_malloc((size_t)ways * sizeof *counts), rest = 1;

    for (int i = 0; i < p->ndim; i++)
        if (i != p->dim) rest *= (size_t)p->shape[i];
    for (int r = 0; r < ways; r++) counts[r] = rest * (size_t)p->sizes[r];
    return counts;
}

void wf_message_pieces_pack_unpack(const struct wf_message_pieces *p, int ways, weft_tensor *t,
                                   void *packed, bool pack)
{
    const struct wf_tensor_desc *desc = &t->layout->desc;
    size_t element = wf_dtypes[desc->dtype].size;
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS], at = 0;
    char *piece = packed;

    memcpy(shape, p->shape, sizeof shape);
    for (int r = 0; r < ways && desc->numel > 0; r++) {
        char *inside = (char *)t->data + (size_t)(at * desc->stride[p->dim]) * element;
        struct wf_strided_copy copy;
        int64_t count;

        shape[p->dim] = p->sizes[r];
        at += p->sizes[r];
        count = wf_row_major_strides(stride, shape, p->ndim);
        if (pack) {
            wf_strided_copy_init(&copy, shape, desc->stride, stride, p->ndim, element);
            wf_device_strided_copy(wf_device_of(t), &copy, piece, inside);
        } else {
            wf_strided_copy_init(&copy, shape, stride, desc->stride, p->ndim, element);
            wf_device_strided_copy(wf_device_of(t), &copy, inside, piece);
        }
        piece += (size_t)count * element;
    }
}
