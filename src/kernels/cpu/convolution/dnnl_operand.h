/*
 * dnnl_operand.h: an operand as the program has it, row-major, and as a primitive of oneDNN wants
 * it, with the reorder from the one to the other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/elements/strided_copy.h"
#include "kernels/cpu/products/dnnl_desc.h"

struct wf_dnnl_operand {
    dnnl_memory_t given, wanted; /* wanted NULL: it is given as it is wanted */
    bool result;
    size_t scratch;           /* bytes of wanted */
    dnnl_primitive_t reorder; /* NULL: by the copy */
    struct wf_strided_copy copy;
    void *data, *reordered; /* of a run */
};

/** result: the primitive writes it. */
void wf_dnnl_operand_init(struct wf_dnnl_operand *o, dnnl_engine_t engine, wf_dnnl_desc_ref given,
                          wf_dnnl_desc_ref wanted, bool result);
void wf_dnnl_operand_free(struct wf_dnnl_operand *o);

/** Where it lies in this run. gives: the memory for the primitive */
dnnl_memory_t wf_dnnl_operand_bind(struct wf_dnnl_operand *o, const void *data, void *scratch);

/** Before the primitive for what it reads, behind it for its result. */
void wf_dnnl_operand_reorder(const struct wf_dnnl_operand *o, dnnl_stream_t stream);
