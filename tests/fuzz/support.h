/* support.h: what fuzzers share: a folder for files, texts from inputs, and what must be true of
 * every error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/error.h>

/** Once per process: Weft without MPI, and no log. Called before every input. */
void fuzz_begin(void);

/** End the process, saying what is not true, when `truth` is false. */
#define FUZZ_NEED(truth) ((truth) ? (void)0 : fuzz_broken(#truth, __FILE__, __LINE__))
void fuzz_broken(const char *truth, const char *file, int line);

/** A path in a folder of this process, which is removed when the process ends; good for some
 * further calls. */
const char *fuzz_path(const char *name);
/** Make the file that it names. gives: the path */
const char *fuzz_file(const char *name, const void *bytes, size_t size);

/** The bytes as text of their own block; the caller frees. */
char *fuzz_text(const uint8_t *bytes, size_t size);

/** `status` is a failure, the failure is one line that a terminal can show, and cleared then; or it
 * is none, and there is no failure. gives: status == WEFT_OK */
bool fuzz_status(weft_status status);
/** The same of functions that return a pointer. */
bool fuzz_made(const void *made);
