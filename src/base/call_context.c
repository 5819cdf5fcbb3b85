/*
 * call_context.c: the module and op that this thread computes for, and the strings of module paths.
 * A tape node or a ledger may keep a path longer than its module lives, so a released path is not
 * freed but reused for the next module with the same path. No two living modules share a string:
 * its address identifies the module.
 */
#include "base/call_context.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

_Thread_local struct wf_call_context wf_current_context;

struct path {
    bool taken;
    bool listed; /* false: the rank has ended; the owner of the path frees it */
    char text[];
};

/* Open addressing, at most half full. */
static _Thread_local struct {
    struct path **slots;
    size_t count, mask;
} paths;

/* The slot of an unused path with this text, or an empty slot for a new one. */
static struct path **find_path_slot(const char *text)
{
    size_t at = (size_t)wf_hash_bytes(text, strlen(text));
    struct path *path;

    while ((path = paths.slots[at & paths.mask]) && (path->taken || strcmp(path->text, text) != 0))
        at++;
    return &paths.slots[at & paths.mask];
}

static void insert_path(struct path *path)
{
    size_t at = (size_t)wf_hash_bytes(path->text, strlen(path->text));

    while (paths.slots[at & paths.mask]) at++;
    paths.slots[at & paths.mask] = path;
}

static void grow_path_table(void)
{
    struct path **old = paths.slots;
    size_t n = old ? paths.mask + 1 : 0;

    paths.mask = old ? 2 * paths.mask + 1 : 63;
    paths.slots = wf_calloc(paths.mask + 1, sizeof(struct path *));
    for (size_t i = 0; i < n; i++)
        if (old[i]) insert_path(old[i]);
    wf_free(old);
}

const char *wf_module_path_acquire(const char *text)
{
    struct path **slot;

    if (2 * paths.count >= paths.mask) grow_path_table();
    slot = find_path_slot(text);
    if (!*slot) {
        size_t bytes = strlen(text) + 1;

        *slot = wf_malloc(sizeof **slot + bytes);
        (*slot)->listed = true;
        memcpy((*slot)->text, text, bytes);
        paths.count++;
    }
    (*slot)->taken = true;
    return (*slot)->text;
}

void wf_module_path_release(const char *text)
{
    struct path *path = (struct path *)(text - offsetof(struct path, text));

    path->taken = false;
    if (!path->listed) wf_free(path);
}

void wf_module_paths_finalize(void)
{
    for (size_t i = 0; paths.slots && i <= paths.mask; i++) {
        struct path *path = paths.slots[i];

        if (path && path->taken)
            path->listed = false;
        else
            wf_free(path);
    }
    wf_free(paths.slots);
    memset(&paths, 0, sizeof paths);
}
