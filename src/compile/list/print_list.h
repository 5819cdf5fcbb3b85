/* print_list.h: a list as text. */
#pragma once

#include <stdio.h>

#include "compile/list/op_list.h"

void wf_op_list_print(const struct wf_op_list *list, FILE *out);
