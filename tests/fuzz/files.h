/* files.h: what fuzz_files.c and files_checkpoint.c share. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** "9 {...}": the bytes of a safetensors file with that header and 9 bytes of zeros as data; the
 * caller frees. gives: its size */
size_t fuzz_safetensors(uint8_t **file, const char *text);

void fuzz_checkpoint(char *text);
