/* timing.h: seconds of work that a GPU does later. */
#pragma once

/** Of one call, all ranks together: the median of rounds of several calls, each round waited for.
 */
double timing_of(void (*call)(void *payload), void *payload);
