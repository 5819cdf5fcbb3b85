/* nccl_library.c: see nccl_library.h. It decides which file is NCCL's, and which versions will do.
 */
#include "comm/nccl/nccl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/settings/knob.h"

enum {
    LEAST_VERSION = 21400, /* the first whose communicators need not block */
    WHY_BYTES = 256
};

struct wf_nccl_functions wf_nccl;

/* One per process; written once, under the lock. */
static struct {
    pthread_mutex_t lock;
    bool tried;
    int version;
    char why[WHY_BYTES];
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define F(name, arguments)                                                                         \
    _Static_assert(_Generic(&nccl##name, ncclResult_t(*) arguments : 1, default : 0),              \
                   "nccl" #name " is declared otherwise");
WF_NCCL_FUNCTIONS(F)
WF_NCCL_LATER_FUNCTIONS(F)
#undef F

static bool find_functions(void *object)
{
    static const struct {
        const char *name;
        void *at;
    } functions[] = {
#define F(name, arguments) {"nccl" #name, &wf_nccl.name},
        WF_NCCL_FUNCTIONS(F)
#undef F
            {"ncclGetErrorString", &wf_nccl.GetErrorString},
        {"ncclGetLastError", &wf_nccl.GetLastError},
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(object, functions[i].name);

        if (!function) {
            snprintf(loaded.why, sizeof loaded.why, "NCCL has no %s", functions[i].name);
            return false;
        }
        *(void **)functions[i].at = function;
    }
#define F(name, arguments) *(void **)&wf_nccl.name = dlsym(object, "nccl" #name);
    WF_NCCL_LATER_FUNCTIONS(F)
#undef F
    return true;
}

static void check_version(void)
{
    int version = 0;
    ncclResult_t result = wf_nccl.GetVersion(&version);

    if (result != ncclSuccess)
        snprintf(loaded.why, sizeof loaded.why, "ncclGetVersion: %s",
                 wf_nccl.GetErrorString(result));
    else if (version < LEAST_VERSION)
        snprintf(loaded.why, sizeof loaded.why, "this is NCCL %d, and %d is the least", version,
                 LEAST_VERSION);
    else
        loaded.version = version;
}

static void load_once(void)
{
    const char *path = wf_knobs.nccl_library[0] ? wf_knobs.nccl_library : "libnccl.so.2";
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *error;

    loaded.tried = true;
    if (object) {
        if (find_functions(object)) check_version();
        return;
    }
    error = dlerror();
    snprintf(loaded.why, sizeof loaded.why, "%s", error ? error : "it cannot be opened");
}

int wf_nccl_load(char *why, size_t room)
{
    int version;

    pthread_mutex_lock(&loaded.lock);
    if (!loaded.tried) load_once();
    version = loaded.version;
    if (!version) snprintf(why, room, "%s", loaded.why);
    pthread_mutex_unlock(&loaded.lock);
    return version;
}
