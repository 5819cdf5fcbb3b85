/* host_copy.h: elements of a rank's shard where the host can read and write them, whatever device
 * they are on. */
#pragma once

#include "tensor/tensor.h"

/** The shard to / from `packed`, host memory with its elements row-major. A download waits for the
 * device; `who` asks for it. fails: WEFT_ERR_MEMORY where a strided shard has to be packed on its
 * device first */
weft_status wf_tensor_download(const weft_tensor *t, void *packed, const char *who);
weft_status wf_tensor_upload(const weft_tensor *t, const void *packed);

/** Elements to read: the tensor's own on WEFT_CPU, else a row-major copy. */
struct wf_host_elements {
    const struct wf_tensor_desc *desc;
    const char *data;
    struct wf_layout *layout; /* of the copy, */
    struct wf_block *block;   /* which ends with wf_host_elements_close; NULL: none */
};
weft_status wf_host_elements_open(struct wf_host_elements *host, const weft_tensor *t,
                                  const char *who);
void wf_host_elements_close(struct wf_host_elements *host);

/** A hash of the elements of a shard that lies row-major, at least 0; -1 where memory for them on
 * the host is short. */
int64_t wf_tensor_hash_elements(const weft_tensor *t, const char *who);

/** Position of the local element with this row-major local index. */
const char *wf_element_address(const struct wf_tensor_desc *desc, const void *data, int64_t index);

/**
 * A tensor on WEFT_CPU with t's elements, to write some of them: t itself where it is there, else a
 * row-major copy owned by the open scope, which wf_tensor_write_back_from_host brings back. gives:
 * NULL when memory is short
 */
weft_tensor *wf_tensor_on_host(weft_tensor *t, const char *who);
weft_status wf_tensor_write_back_from_host(weft_tensor *t, const weft_tensor *host);
