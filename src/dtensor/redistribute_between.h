/*
 * redistribute_between.h: from a layout on one mesh to a layout on another: who sends which
 * elements to whom, found by meeting parts, and the one exchange that carries it out.
 */
#pragma once

#include "placement/layout.h"

struct wf_between;

/**
 * Neither layout is pending; both have the same shape and dtype. `from` may be strided, `to` is
 * row-major. Pure: every rank of the two meshes comes to the same exchange.
 *
 * A rank keeps what it has. Of the ranks that hold an element alike, the one with least to send so
 * far sends it, once per receiver. gives: wf_between_free
 */
struct wf_between *wf_between_new(const struct wf_layout *from, const struct wf_layout *to);
void wf_between_free(void *between);

/** True when some rank, be it another one, needs elements that it has not. */
bool wf_between_moves(const struct wf_between *between);

/** This rank's part by `to` into `dst`. Collective over the ranks of both meshes when something
 *  moves; ranks in neither take no part. */
void wf_between_run(const struct wf_between *between, void *dst, const void *src);
