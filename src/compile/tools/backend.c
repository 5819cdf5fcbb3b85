/* backend.c: the backends of this rank: two of the library, and what the program has registered. */
#include "compile/tools/backend.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { MOST_BACKENDS = 16, NAME_BYTES = 64, OWN_BACKENDS = 2 };

static const char *const own[OWN_BACKENDS] = {"weft", "in_order"};

static _Thread_local struct {
    struct {
        char name[NAME_BYTES];
        weft_compile_backend *backend;
    } of[MOST_BACKENDS];
    int n;
} registered;

const char *weft_compile_backend_name(int i)
{
    if (i < 0 || i >= OWN_BACKENDS + registered.n) return NULL;
    return i < OWN_BACKENDS ? own[i] : registered.of[i - OWN_BACKENDS].name;
}

static int find(const char *name)
{
    for (int i = 0; i < OWN_BACKENDS + registered.n; i++)
        if (strcmp(weft_compile_backend_name(i), name) == 0) return i;
    return -1;
}

weft_status weft_compile_backend_register(const char *name, weft_compile_backend *backend)
{
    WF_NEED(name && name[0] && strlen(name) < NAME_BYTES && backend, WEFT_ERR_ARG,
            "compile backend: a name of at most %d bytes and a function are needed",
            NAME_BYTES - 1);
    WF_NEED(find(name) < 0, WEFT_ERR_ARG, "compile backend: the name %s is taken", name);
    WF_NEED(registered.n < MOST_BACKENDS, WEFT_ERR_ARG, "compile backend: %s is one more than %d",
            name, MOST_BACKENDS);
    snprintf(registered.of[registered.n].name, NAME_BYTES, "%s", name);
    registered.of[registered.n++].backend = backend;
    return WEFT_OK;
}

bool wf_backend_find(const char *name, weft_compile_backend **backend, bool *plain)
{
    int i = name ? find(name) : 0;

    *backend = i < OWN_BACKENDS ? NULL : registered.of[i - OWN_BACKENDS].backend;
    *plain = i == 1;
    return i >= 0;
}
