/* nccl_library.c: see nccl_library.h. It decides which file is NCCL's, and which versions will do.
 */
#include "comm/nccl/nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/load_once.h"
#include "base/settings/knob.h"

enum { LEAST_VERSION = 21400 }; /* the first whose communicators need not block */

struct wf_nccl_functions wf_nccl;

static struct wf_load_state loaded = WF_LOAD_ONCE_INIT;
static int found_version; /* once it is there */

#define F(name, arguments)                                                                         \
    _Static_assert(_Generic(&nccl##name, ncclResult_t(*) arguments : 1, default : 0),              \
                   "nccl" #name " is declared otherwise");
WF_NCCL_FUNCTIONS(F)
WF_NCCL_LATER_FUNCTIONS(F)
#undef F

static bool find_functions(void *object, char *why)
{
    const struct wf_wanted_function functions[] = {
#define F(name, arguments) {"nccl" #name, &wf_nccl.name},
        WF_NCCL_FUNCTIONS(F)
#undef F
            {"ncclGetErrorString", &wf_nccl.GetErrorString},
        {"ncclGetLastError", &wf_nccl.GetLastError},
    };
    const char *missing =
        wf_find_functions(object, functions, sizeof functions / sizeof *functions);

    if (missing) snprintf(why, WF_LOAD_WHY_BYTES, "NCCL has no %s", missing);
    if (missing) return false;
#define F(name, arguments) *(void **)&wf_nccl.name = dlsym(object, "nccl" #name);
    WF_NCCL_LATER_FUNCTIONS(F)
#undef F
    return true;
}

static bool check_version(char *why)
{
    int version = 0;
    ncclResult_t result = wf_nccl.GetVersion(&version);

    if (result != ncclSuccess)
        snprintf(why, WF_LOAD_WHY_BYTES, "ncclGetVersion: %s", wf_nccl.GetErrorString(result));
    else if (version < LEAST_VERSION)
        snprintf(why, WF_LOAD_WHY_BYTES, "this is NCCL %d, and %d is the least", version,
                 LEAST_VERSION);
    else
        found_version = version;
    return found_version != 0;
}

static bool load(char *why)
{
    const char *path = wf_knobs.nccl_library[0] ? wf_knobs.nccl_library : "libnccl.so.2";
    void *object = wf_open_object(path, why);

    return object && find_functions(object, why) && check_version(why);
}

int wf_nccl_load(char *why, size_t room)
{
    if (wf_load_once(&loaded, load)) return found_version;
    snprintf(why, room, "%s", loaded.why);
    return 0;
}
