/*
 * local_region.h: what is recorded while a local function runs, between unwrapping and wrapping.
 *
 * A rank may use an argument that another leaves alone (an expert without tokens), and may drop
 * what an exchange brought. Backward has to come to all arguments and to all exchanges
 * nevertheless, on every rank and in one order, because they communicate. So those are threaded one
 * behind another, from the arguments through the exchanges to the results: a walk from any result
 * comes to every one of them, in the reverse of their order. Where nothing arrives it is zeros.
 */
#pragma once

#include "autograd/tape.h"

struct wf_local_region {
    struct wf_tape_node *last;   /* the thread's end; NULL: nothing wants a gradient */
    struct wf_tape_node *before; /* what it was when the region was opened */
    struct wf_local_region *outer;
};

void wf_local_region_open(struct wf_local_region *region);
void wf_local_region_close(struct wf_local_region *region);

/** An argument as the function is to see it; t itself where no gradient is wanted. */
weft_tensor *wf_local_region_argument(struct wf_local_region *region, weft_tensor *t);
/** A result as the caller is to see it. */
weft_tensor *wf_local_region_result(struct wf_local_region *region, weft_tensor *t);

/** A node that communicates in backward was recorded; its vjp takes no gradient for zeros. Nothing
 *  outside of local functions. */
void wf_local_region_add_node(struct wf_tape_node *node);

/** Some argument of the local function that runs wants a gradient: the same on all ranks, whatever
 *  its tensors want here. */
bool wf_local_region_wants_grad(void);

/** Zeros of a layout, of the open scope. */
weft_tensor *wf_tensor_zeros(struct wf_layout *layout);
