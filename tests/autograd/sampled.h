/* sampled.h: samples as tensors, and one number out of a call of them. */
#pragma once

#include "cases/op_cases.h"

/** A sample's operands as f64 where they are floating-point; owned by the open scope. */
struct wt_sampled {
    const struct wt_op_case *sample;
    int n_in;
    struct wt_operand operand[WF_MAX_IN];
    double *value[WF_MAX_IN]; /* from malloc */
};

void wt_sampled_open(struct wt_sampled *s, const struct wt_op_case *sample);
void wt_sampled_close(struct wt_sampled *s);

/** Operand `i` as a plain tensor; NULL when it is left out. */
weft_tensor *wt_sampled_plain(const struct wt_sampled *s, int i);

/** True when a gradient flows to operand `i` (floating-point, and the row has one). */
bool wt_sampled_has_gradient(const struct wt_sampled *s, int i);

/** The op's first output. */
weft_tensor *wt_sampled_call(const struct wt_sampled *s, weft_tensor *const *in);

/** Fixed weights of the output's shape: the number whose gradient is taken is sum(weights *
 * output). */
weft_tensor *wt_weights_like(const weft_tensor *y);
