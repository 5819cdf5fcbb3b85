/*
 * load.c: finds and opens libweft-cuda.so when a rank first needs a GPU, so that programs on CPUs
 * load no CUDA library. It decides which file that is and whether it was built for this library.
 */
#include "device/load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "device/library_calls.h"
#include "device/pool.h"

enum { PATH_BYTES = 4096, REASON_BYTES = 512 };

static const char file_name[] = "libweft-cuda.so";

/* One per process; written once, under the lock. */
static struct {
    pthread_mutex_t lock;
    bool tried;
    const struct wf_device_library *library;
    char why[REASON_BYTES];
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Beside the object that this function is in: libweft.so, or a program with the library inside. */
static bool path_beside_library(char *path, size_t room)
{
    const char *slash;
    Dl_info here;

    if (!dladdr(&loaded, &here) || !here.dli_fname) return false;
    slash = strrchr(here.dli_fname, '/');
    if (!slash) return false;
    return (size_t)snprintf(path, room, "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname,
                            file_name) < room;
}

/* The file beside this one, where there is one: then the reason is about that one, too. */
static void *open_library(void)
{
    char path[PATH_BYTES];
    const char *name = file_name;

    if (wf_knobs.cuda_library[0])
        name = wf_knobs.cuda_library;
    else if (path_beside_library(path, sizeof path) && access(path, F_OK) == 0)
        name = path;
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static const struct wf_library_calls calls = {
    .fail = wf_fail,
    .fail_local = wf_fail_local,
    .die = wf_die,
    .log = wf_log,
    .log_rank = wf_log_rank,
    .error_status = weft_error_status,
    .malloc = wf_malloc,
    .calloc = wf_calloc,
    .realloc = wf_realloc,
    .free = wf_free,
    .give_back_memory = wf_pool_trim,
    .knobs = &wf_knobs,
    .log_threshold = &wf_log_threshold,
};

/* gives: NULL and the reason in loaded.why */
static const struct wf_device_library *ask_for_tables(void *object)
{
    const struct wf_device_library *library;
    wf_device_library_open *open_tables;

    *(void **)&open_tables = dlsym(object, WF_DEVICE_LIBRARY_SYMBOL);
    if (!open_tables) {
        snprintf(loaded.why, sizeof loaded.why, "it offers no %s", WF_DEVICE_LIBRARY_SYMBOL);
        return NULL;
    }
    library = open_tables(&calls);
    if (library->tables != WF_DEVICE_TABLES)
        snprintf(loaded.why, sizeof loaded.why,
                 "it was built with another Weft: its tables are %u, here %d", library->tables,
                 (int)WF_DEVICE_TABLES);
    else if (strcmp(library->version, WEFT_VERSION) != 0)
        snprintf(loaded.why, sizeof loaded.why, "it is of Weft %s, and this is %s",
                 library->version, WEFT_VERSION);
    else
        return library;
    return NULL;
}

static void load_once(void)
{
    void *object = open_library();
    const char *error;

    loaded.tried = true;
    if (object) {
        loaded.library = ask_for_tables(object);
        return;
    }
    error = dlerror();
    snprintf(loaded.why, sizeof loaded.why, "%s", error ? error : "it cannot be opened");
}

const struct wf_device_library *wf_device_library_load(char *why, size_t room)
{
    const struct wf_device_library *library;

    pthread_mutex_lock(&loaded.lock);
    if (!loaded.tried) load_once();
    library = loaded.library;
    if (!library)
        snprintf(why, room, "%s: %s (WEFT_CUDA_LIBRARY names another file)",
                 wf_knobs.cuda_library[0] ? wf_knobs.cuda_library : file_name, loaded.why);
    pthread_mutex_unlock(&loaded.lock);
    return library;
}
