/* malloc_count.h: how often this process has asked malloc and its kin for memory. */
#pragma once

#include <stdint.h>

int64_t malloc_count(void);
