/* dnnl_desc.h: oneDNN's descriptions of memory, version 2.6 and 3.x. */
#pragma once

#include <string.h>

#include "kernels/cpu/products/dnnl_call.h"

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t wf_dnnl_desc;
typedef const_dnnl_memory_desc_t wf_dnnl_desc_ref;

static inline wf_dnnl_desc_ref wf_dnnl_ref(const wf_dnnl_desc *d) { return *d; }

static inline void wf_dnnl_desc_free(wf_dnnl_desc *d) { WF_DNNL_TRY(dnnl_memory_desc_destroy(*d)); }

static inline void wf_dnnl_desc_of_strides(wf_dnnl_desc *d, int n, const dnnl_dims_t dims,
                                           const dnnl_dims_t strides, dnnl_data_type_t type)
{
    WF_DNNL_TRY(dnnl_memory_desc_create_with_strides(d, n, dims, type, strides));
}

static inline void wf_dnnl_desc_of_any_format(wf_dnnl_desc *d, int n, const dnnl_dims_t dims,
                                              dnnl_data_type_t type)
{
    WF_DNNL_TRY(dnnl_memory_desc_create_with_tag(d, n, dims, type, dnnl_format_tag_any));
}
#else
typedef dnnl_memory_desc_t wf_dnnl_desc;
typedef const dnnl_memory_desc_t *wf_dnnl_desc_ref;

static inline wf_dnnl_desc_ref wf_dnnl_ref(const wf_dnnl_desc *d) { return d; }

static inline void wf_dnnl_desc_free(wf_dnnl_desc *d) { (void)d; }

static inline void wf_dnnl_desc_of_strides(wf_dnnl_desc *d, int n, const dnnl_dims_t dims,
                                           const dnnl_dims_t strides, dnnl_data_type_t type)
{
    WF_DNNL_TRY(dnnl_memory_desc_init_by_strides(d, n, dims, type, strides));
}

static inline void wf_dnnl_desc_of_any_format(wf_dnnl_desc *d, int n, const dnnl_dims_t dims,
                                              dnnl_data_type_t type)
{
    WF_DNNL_TRY(dnnl_memory_desc_init_by_tag(d, n, dims, type, dnnl_format_tag_any));
}
#endif

/** How memory is blocked: strides of the dims, and blocks within them that lie innermost. */
struct wf_dnnl_blocking {
    dnnl_dims_t dims, padded_dims, strides;
    int n, blocks;
    int64_t block; /* elements of the last block, */
    int block_dim; /* which is of this dim */
};

/** false where the memory is described in another way, or is not f32. */
bool wf_dnnl_blocking_of(struct wf_dnnl_blocking *b, wf_dnnl_desc_ref d);
