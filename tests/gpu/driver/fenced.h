/*
 * fenced.h: "device memory" that the host may not touch: address space without any access, and the
 * same pages a second time at an address that only this driver knows. Kernels and copies get the
 * second address; whoever else follows a pointer to device memory crashes at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** Of all ranks together. gives: NULL beyond WEFT_TEST_DEVICE_MIB */
void *fenced_map(size_t bytes);
void fenced_unmap(void *p, size_t bytes);

/** The address at which the driver may read and write. What is no device memory ends the program
 * with a sentence; NULL stays. */
void *fenced_open(const void *p);

/** Bytes of all ranks together, and the limit of them, read at one moment. */
void fenced_count(size_t *used, size_t *total);

/** Host memory that was pinned; a copy from or to other memory ends the program with a sentence. */
void pinned_add(void *host, size_t bytes);
void pinned_remove(void *host);
void pinned_check(const void *host, size_t bytes);
