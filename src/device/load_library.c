/*
 * load_library.c: finds and opens libweft-cuda.so when a rank first needs a GPU, so that programs
 * on CPUs load no CUDA library. It decides which file that is and whether it was built for this
 * library.
 */
#include "device/load_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/load_once.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "device/capture.h"
#include "device/library_calls.h"
#include "device/pool.h"

enum { PATH_BYTES = 4096 };

static const char file_name[] = "libweft-cuda.so";

static struct wf_load_state loaded = WF_LOAD_ONCE_INIT;
static const struct wf_device_library *tables; /* once it is there */

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
static void *open_library(char *why)
{
    char path[PATH_BYTES];
    const char *name = file_name;

    if (wf_knobs.cuda_library[0])
        name = wf_knobs.cuda_library;
    else if (path_beside_library(path, sizeof path) && access(path, F_OK) == 0)
        name = path;
    return wf_open_object(name, why);
}

/* Not the pool's caller asks, but a kernel. */
static void release_idle_memory(void)
{
    wf_capture_leave_for_local_reason("there is no memory for what a kernel needs");
    wf_pool_trim_device();
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
    .release_idle_memory = release_idle_memory,
    .knobs = &wf_knobs,
    .log_threshold = &wf_log_threshold,
};

static bool ask_for_tables(void *object, char *why)
{
    const struct wf_device_library *library;
    wf_device_library_open *open_tables;
    const struct wf_wanted_function function = {WF_DEVICE_LIBRARY_SYMBOL, &open_tables};

    if (wf_find_functions(object, &function, 1)) {
        snprintf(why, WF_LOAD_WHY_BYTES, "it offers no %s", WF_DEVICE_LIBRARY_SYMBOL);
        return false;
    }
    library = open_tables(&calls);
    if (library->tables != WF_DEVICE_TABLES)
        snprintf(why, WF_LOAD_WHY_BYTES,
                 "it was built with another Weft: its tables are %u, here %d", library->tables,
                 (int)WF_DEVICE_TABLES);
    else if (strcmp(library->version, WEFT_VERSION) != 0)
        snprintf(why, WF_LOAD_WHY_BYTES, "it is of Weft %s, and this is %s", library->version,
                 WEFT_VERSION);
    else
        tables = library;
    return tables != NULL;
}

static bool load(char *why)
{
    void *object = open_library(why);

    return object && ask_for_tables(object, why);
}

const struct wf_device_library *wf_device_library_load(char *why, size_t room)
{
    if (wf_load_once(&loaded, load)) return tables;
    snprintf(why, room, "%s: %s (WEFT_CUDA_LIBRARY names another file)",
             wf_knobs.cuda_library[0] ? wf_knobs.cuda_library : file_name, loaded.why);
    return NULL;
}
