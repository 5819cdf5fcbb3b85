/* pointwise.h: the tables between cpu/pointwise/pointwise.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cpu/pointwise/elementwise.h"

/** Line functions of one element type; NULL where the type has no such kernel. */
struct wf_pointwise {
#define WF_UNARY(name, ...) wf_elementwise_loop *name, *name##_grad;
#define WF_UNARY_BY_OPS(name, ...) wf_elementwise_loop *name;
#define WF_BINARY(name, ...) wf_elementwise_loop *name[WF_LINE_FORMS];  /* or the first alone */
#define WF_TERNARY(name, ...) wf_elementwise_loop *name[WF_LINE_FORMS]; /* without FIRST_ONE */
#define WF_WHOLE_BINARY(name, ...) wf_elementwise_loop *name[WF_LINE_FORMS];
#define WF_COMPARE(name, ...) wf_elementwise_loop *name[WF_LINE_FORMS];
#define WF_TEST(name, ...) wf_elementwise_loop *name;
#include "kernels/pointwise.def"
};

WF_ISA_TABLE(struct wf_pointwise, wf_pointwise_f32)
WF_ISA_TABLE(struct wf_pointwise, wf_pointwise_f64)
WF_ISA_TABLE(struct wf_pointwise, wf_pointwise_bf16)
WF_ISA_TABLE(struct wf_pointwise, wf_pointwise_i32)
WF_ISA_TABLE(struct wf_pointwise, wf_pointwise_i64)
WF_ISA_TABLE(struct wf_pointwise, wf_pointwise_u8)

/** Elementwise moves that do not calculate. */
struct wf_cast_where_fill_loops {
    wf_elementwise_loop *cast[WEFT_DTYPE_COUNT][WEFT_DTYPE_COUNT]; /* [from][to] */
    wf_elementwise_loop *where[9];                                 /* by bytes of an element */
    wf_elementwise_loop *fill[9];                                  /* all elements are in[0][0] */
};

WF_ISA_TABLE(struct wf_cast_where_fill_loops, wf_cast_where_fill_loops)
