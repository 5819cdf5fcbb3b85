/* rename.h: what passes ask about storages, and giving their readers others. */
#pragma once

#include "compile/list/op_list.h"

/** Of each storage: by how many nodes it is written. gives: wf_free */
int *wf_list_count_writers(const struct wf_op_list *list);

/** Of each storage: the last node that writes it; -1: none. gives: wf_free */
int *wf_list_last_writers(const struct wf_op_list *list);
/** The last one that reads or writes it. */
int *wf_list_last_uses(const struct wf_op_list *list);

/** Every operand that names storage s names to[s] instead, `by[s]` bytes further on (by: NULL: none
 * is moved). Results and gradients too. */
void wf_list_rename(struct wf_op_list *list, const int *to, const int64_t *by);

/** Whether bytes of both may be the same: of what comes from outside a caller may give one block in
 * two roles. */
bool wf_storages_may_meet(const struct wf_op_list *list, int a, int b);
