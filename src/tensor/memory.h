/* memory.h: names of the categories of bytes, for reports. */
#pragma once

#include <weft/extend/memory.h>

/** "weights", ..., and "all" for WEFT_MEMORY_CATEGORIES. */
const char *wf_memory_category_name(int category);
