/*
 * transposed_copy.h: the part of a strided copy in which the source lies element by element along
 * other loops than the destination, for elements of 4 bytes: 4 x 4 of them at a time.
 */
#pragma once

#include "base/elements/strided_copy.h"

/** Finds the loops of c, if it has such a part: rows are its last loop. */
void wf_transposed_copy_plan(struct wf_strided_copy *c);

/** Copies all rows and columns; the other loops are the caller's. */
void wf_transposed_copy_run(const struct wf_strided_copy *c, char *dst, const char *src);
