/* stderr_text.h: what the library wrote to stderr, for tests of warnings. */
#pragma once

#include <stdbool.h>

/** From now on / until now: whether what this process wrote contains `part`. All ranks together;
 *  threads share a stderr, so that rank 0 answers for all of its process. The text is shown when it
 *  does not. */
void wt_stderr_begin(void);
bool wt_stderr_had(const char *part);
