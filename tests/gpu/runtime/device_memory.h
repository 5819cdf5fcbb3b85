/* device_memory.h: device memory, and memory of the host that the runtime was told of. */
#pragma once

#include <stddef.h>

namespace stand_in
{

/** Reserve addresses; the bytes are there from make_live on. gives: NULL when the device is full.
 */
void *device_reserve(int device, size_t bytes);
void device_make_live(void *p);
/** A second time for one address: false. */
bool device_begin_free(void *p, bool of_library = false);
void device_end_free(void *p);
bool is_device_address(const void *p);
int device_of_address(const void *p);
/** It was allocated by a library on top of the runtime, and is freed by it. */
void device_mark_of_library(void *p);
/** The allocation that holds p may not be freed until it is let go as often. */
void device_keep(const void *p, bool keep);
void device_use(int device, size_t *used, size_t *total);
/** Where the bytes of a device address are; refuses what is not inside one live allocation. */
char *device_bytes(const void *p, size_t bytes, const char *what);

void host_register(void *p, size_t bytes);
/** The registered range that holds p begins here; NULL: none. */
void *host_registered(const void *p, size_t bytes);
bool host_unregister(void *p);

/** What a running operation may touch: the memory of this device and of its peers. */
extern thread_local int running_device;
void allow_peer(int device, int peer);
bool peer_allowed(int device, int peer);

} // namespace stand_in
