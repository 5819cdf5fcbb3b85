/* lower.h: from moves to copies and collectives. */
#pragma once

#include "compile/list/op_list.h"

/** Put the actions of each move's plan in its place: copies, fills, and the start and the wait of
 * each collective. */
void wf_op_list_lower(struct wf_op_list *list);
