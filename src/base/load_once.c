/* load_once.c: see load_once.h. */
#include "base/load_once.h"

#include <dlfcn.h>
#include <stdio.h>

bool wf_load_once(struct wf_load_state *once, bool (*load)(char *why))
{
    bool there;

    pthread_mutex_lock(&once->lock);
    if (!once->tried) once->there = load(once->why);
    once->tried = true;
    there = once->there;
    pthread_mutex_unlock(&once->lock);
    return there;
}

void *wf_open_object(const char *path, char *why)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *error = object ? NULL : dlerror();

    if (!object) snprintf(why, WF_LOAD_WHY_BYTES, "%s", error ? error : "it cannot be opened");
    return object;
}

const char *wf_find_functions(void *object, const struct wf_wanted_function *functions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *function = dlsym(object, functions[i].name);

        if (!function) return functions[i].name;
        *(void **)functions[i].at = function;
    }
    return NULL;
}
