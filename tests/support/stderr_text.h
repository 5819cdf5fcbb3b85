/* stderr_text.h: what the library wrote to stderr, for tests of warnings. */
#pragma once

#include <stdbool.h>

/** What this process writes to stderr while `act` runs; valid until the next call. Without ranks.
 */
const char *wt_stderr_of(void (*act)(void));

/** From now on what this process writes is kept. All ranks together; threads share a stderr, so
 *  that rank 0 answers for all of its process. */
void wt_stderr_begin(void);

/** Until the first of these calls: whether what was written contains `part` / how often (-1 on
 *  ranks other than 0). All ranks together. The text is shown when it does not. */
bool wt_stderr_had(const char *part);
int wt_stderr_times(const char *part);

/** What a child process that runs `act` writes to stderr, valid until the next call, and how it
 *  ends, as waitpid says it. Without ranks. */
const char *wt_stderr_of_child(void (*act)(const void *payload), const void *payload, int *status);
