/* embedding.h: the inner loops of embedding_grad. */
#pragma once

#include "kernels/cpu/isa.h"

struct wf_embedding {
    /** sum[i] += row[i]; the sums are f32 for rows of 16-bit floats. */
    void (*add)(int64_t n, void *sum, const void *row);
    /** to[i] = sum[i], rounded to the rows' dtype. */
    void (*round)(int64_t n, void *to, const void *sum);
};

WF_ISA_TABLE(struct wf_embedding, wf_embedding_f32)
WF_ISA_TABLE(struct wf_embedding, wf_embedding_f64)
WF_ISA_TABLE(struct wf_embedding, wf_embedding_bf16)
WF_ISA_TABLE(struct wf_embedding, wf_embedding_f16)
