/* memory_report.h: names that several reports use. */
#pragma once

#include <weft/debug.h>

/** "weights", ..., and "all" for WEFT_MEMORY_CATEGORIES. */
const char *wf_memory_category_name(int category);
