/*
 * load_once.h: shared objects that are opened when somebody first needs them, once per process, and
 * never closed. Who opens one says which file it is and which functions are wanted; here is what
 * all of them have alike. C and C++ read it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { WF_LOAD_WHY_BYTES = 512 };

/** Written once, under the lock. */
struct wf_load_state {
    pthread_mutex_t lock;
    bool tried, there;
    char why[WF_LOAD_WHY_BYTES]; /* it is not there */
};
#define WF_LOAD_ONCE_INIT                                                                          \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, false, false, ""                                                \
    }

/** The first caller's `load` opens it, or writes why not into `why` of WF_LOAD_WHY_BYTES; later
 * callers get the same. gives: whether it is there; else once->why says why not */
bool wf_load_once(struct wf_load_state *once, bool (*load)(char *why));

/** gives: NULL, and the system's reason in `why` */
void *wf_open_object(const char *path, char *why);

/** A function that is wanted, and where its address goes. */
struct wf_wanted_function {
    const char *name;
    void *at;
};

/** gives: the first that the object does not have; NULL: all were found */
const char *wf_find_functions(void *object, const struct wf_wanted_function *functions, size_t n);
