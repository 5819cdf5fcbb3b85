/* scratch.c: one buffer per thread, counted by the plans that use it. */
#include "kernels/cpu/scratch.h"

#include "base/error.h"
#include "base/mem.h"

static _Thread_local struct {
    void *block; /* as wf_malloc gave it */
    char *aligned;
    size_t bytes;
    int64_t users;
} scratch;

void wf_scratch_reserve(size_t bytes)
{
    scratch.users++;
    if (bytes <= scratch.bytes) return;
    wf_free(scratch.block);
    scratch.block = wf_malloc(bytes + 64);
    scratch.aligned = (char *)wf_scratch_round_up((uintptr_t)scratch.block);
    scratch.bytes = bytes;
}

void wf_scratch_release(void)
{
    WF_ASSERT(scratch.users > 0);
    if (--scratch.users > 0) return;
    wf_free(scratch.block);
    scratch.block = NULL;
    scratch.aligned = NULL;
    scratch.bytes = 0;
}

/* Never NULL: callers add sizes of 0 to it, which C allows for an address only. */
void *wf_scratch_buffer(void)
{
    static char none;

    return scratch.aligned ? scratch.aligned : &none;
}
