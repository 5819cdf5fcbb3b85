/* dump.h: lists that are complete, as lines of the log and as files. */
#pragma once

#include "compile/replay/variant.h"

/** Say what was made, as WEFT_LOG and WEFT_COMPILE_DUMP ask for. */
void wf_variant_report(const struct wf_variant *variant);

/** Order, starts and waits, and when each node should begin and end (schedule.c). */
void wf_schedule_print(const struct wf_op_list *list, FILE *out);
