/* traced_ops.h: what each op of a program asks of a GPU's memory, by a trace of its launches
 * (access_trace.h). One line for each op and shape that has not been seen before. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** Ops from now on are of this model at so many ranks; their blocks run where an op is new. */
void traced_ops_begin(const char *model, int ranks);
/** The same, and no block runs: launches are only counted. */
void traced_ops_count(void);
/** What comes now is no op of the table; `least` bytes must be moved. */
void traced_ops_name(const char *name, double least);
/** Print lines for the ops so far; how many launches there were. */
int traced_ops_end(void);
