/* pool_reserve.h: the device's memory that a captured step uses and that stays as it is. */
#pragma once

#include <stdbool.h>

struct wf_reserve;

/** From now on blocks of the device come from regions of the reserve. `keeps`: every block of the
 * device that is there already gets a reference. */
struct wf_reserve *wf_reserve_open(bool keeps);
/** The end of that; blocks of the reserve still go back to it. gives: a block that was there before
 * has lost all its other references meanwhile */
bool wf_reserve_close(struct wf_reserve *reserve);
/** What was written in place between open and close is written again. */
void wf_reserve_record_writes(struct wf_reserve *reserve);
/** Its memory is the pool's as any other. */
void wf_reserve_free(struct wf_reserve *reserve);
