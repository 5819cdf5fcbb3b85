/* name_set.h: names met so far, each once; owns them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct wf_name_set {
    char **slots; /* open addressing, at most half full */
    size_t size, count;
};

/** Take `name` (wf_malloc'ed) in; false, and the caller keeps it, when it is there already. */
bool wf_name_set_add(struct wf_name_set *set, char *name);
void wf_name_set_free(struct wf_name_set *set);
