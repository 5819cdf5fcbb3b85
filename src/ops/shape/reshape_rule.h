/* reshape_rule.h: which dims of a reshape correspond. */
#pragma once

#include <stdint.h>

#include <weft/export.h>

/** Dims of the old and of the new shape with the same elements: what is flattened to one dim on
 * the way from old to new. Dims of size 1 are left out, unless the group is such a dim on each
 * side. */
struct wf_reshape_group {
    int n_old, n_new;
    int8_t old_dim[WEFT_MAX_DIMS], new_dim[WEFT_MAX_DIMS];
};

/** The smallest groups, in order; of shapes with equal products that are not 0.
 *  gives: their number */
int wf_reshape_groups(struct wf_reshape_group groups[WEFT_MAX_DIMS], const int64_t *old, int n_old,
                      const int64_t *new, int n_new);
