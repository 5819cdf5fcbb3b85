/* dnnl_desc.h: oneDNN's descriptions of memory, version 2.6 and 3.x. */
#pragma once

#include "base/elements/dtype.h"
#include "kernels/cpu/products/dnnl_call.h"

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t wf_dnnl_desc;
typedef const_dnnl_memory_desc_t wf_dnnl_desc_ref;
#define WF_DNNL_DESC_INIT(from) dnnl_memory_desc_create_with_##from

static inline wf_dnnl_desc_ref wf_dnnl_ref(const wf_dnnl_desc *d) { return *d; }
static inline void wf_dnnl_desc_free(wf_dnnl_desc *d) { WF_DNNL_TRY(dnnl_memory_desc_destroy(*d)); }
#else
typedef dnnl_memory_desc_t wf_dnnl_desc;
typedef const dnnl_memory_desc_t *wf_dnnl_desc_ref;
#define WF_DNNL_DESC_INIT(from) dnnl_memory_desc_init_by_##from

static inline wf_dnnl_desc_ref wf_dnnl_ref(const wf_dnnl_desc *d) { return d; }
static inline void wf_dnnl_desc_free(wf_dnnl_desc *d) { (void)d; }
#endif

/** oneDNN's name of f32, bf16 or f16. */
static inline dnnl_data_type_t wf_dnnl_type(uint8_t dtype)
{
    return dtype == WEFT_F16 ? dnnl_f16 : dtype == WEFT_BF16 ? dnnl_bf16 : dnnl_f32;
}

static inline void wf_dnnl_desc_of_strides(wf_dnnl_desc *d, int n, const dnnl_dims_t dims,
                                           const dnnl_dims_t strides, dnnl_data_type_t type)
{
    WF_DNNL_TRY(WF_DNNL_DESC_INIT(strides)(d, n, dims, type, strides));
}

/** In one of oneDNN's own layouts; dnnl_format_tag_any: in the one that a primitive wants. */
static inline void wf_dnnl_desc_of_format(wf_dnnl_desc *d, int n, const dnnl_dims_t dims,
                                          dnnl_data_type_t type, dnnl_format_tag_t format)
{
    WF_DNNL_TRY(WF_DNNL_DESC_INIT(tag)(d, n, dims, type, format));
}
