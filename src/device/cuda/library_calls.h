/* library_calls.h: the shared object's side of device/library_calls.h. */
#pragma once

#include "device/library_calls.h"

/** From now on wf_fail, wf_die, wf_log, wf_malloc and their kin are the library's. */
void wf_library_calls_set(const struct wf_library_calls *calls);

/** Memory of the device that the library keeps for tensors to come. */
void wf_library_give_back_memory(void);
