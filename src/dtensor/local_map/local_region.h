/*
 * local_region.h: what the tape records while a function of local_map runs.
 *
 * A rank may leave an argument unused that another uses (an expert without tokens), and may drop
 * the result of an exchange. Backward has to reach all arguments and all exchanges nevertheless, on
 * every rank and in one order, because they communicate. So order edges on the tape link them, from
 * the arguments through the exchanges to the results: backward from any result reaches each of
 * them, in reverse order. A node that gets no gradient takes zeros.
 */
#pragma once

#include "autograd/tape.h"

struct wf_local_region {
    struct wf_tape_node *last;   /* the last node that was linked; NULL: nothing wants a gradient */
    struct wf_tape_node *before; /* what it was when the region was opened */
    struct wf_local_region *outer;
};

void wf_local_region_open(struct wf_local_region *region);
void wf_local_region_close(struct wf_local_region *region);

/** The argument that the function gets; t itself where no gradient is wanted. */
weft_tensor *wf_local_region_argument(struct wf_local_region *region, weft_tensor *t);
/** The result that the caller gets. */
weft_tensor *wf_local_region_result(struct wf_local_region *region, weft_tensor *t);

/** A node that communicates in backward was recorded; its vjp takes a NULL gradient as zeros. Does
 * nothing outside of local functions. */
void wf_local_region_add_node(struct wf_tape_node *node);

/** Whether some argument of the running local function wants a gradient: the same on all ranks,
 *  whatever the tensors of this rank want. */
bool wf_local_region_wants_grad(void);

/** Zeros of a layout, owned by the open scope. */
weft_tensor *wf_tensor_zeros(struct wf_layout *layout);
