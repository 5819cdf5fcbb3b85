/* file_map.h: a whole file, mapped for reading. */
#pragma once

#include <stddef.h>

#include <weft/error.h>

struct wf_file_map {
    void *bytes; /* NULL for an empty file */
    size_t size;
};

/** fails: WEFT_ERR_NOT_FOUND, WEFT_ERR_IO; on this rank alone */
weft_status wf_file_map(struct wf_file_map *map, const char *path);
void wf_file_unmap(struct wf_file_map *map);
