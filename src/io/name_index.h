/* name_index.h: positions by name, for lists that are made once and then asked often. */
#pragma once

#include <stdint.h>

struct wf_name_index {
    struct wf_name_at {
        const char *name; /* borrowed */
        int64_t at;
    } * items;
    int64_t count;
};

/** Add names, then sort once, then find. */
void wf_name_index_add(struct wf_name_index *index, const char *name, int64_t at);
void wf_name_index_sort(struct wf_name_index *index);

/** The position of a name, -1 when there is none. */
int64_t wf_name_index_find(const struct wf_name_index *index, const char *name);
void wf_name_index_free(struct wf_name_index *index);
