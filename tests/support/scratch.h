/* scratch.h: files that a test makes and forgets. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** A path in a folder of this test program, the same on every rank of a case; good for some
 * further calls. */
const char *wt_scratch(const char *name);

/** Remove all of that at the end of main, whose result it takes and gives. */
int wt_scratch_end(int result);

/** Write bytes, or text, to a file. */
void wt_write_file(const char *path, const void *bytes, size_t count);
void wt_write_text(const char *path, const char *text);

/** As if a file had been written to for the last time so many seconds ago. */
void wt_age_file(const char *path, int64_t seconds);

/** Remove a file, or a folder with all that is in it. */
void wt_remove(const char *path);
