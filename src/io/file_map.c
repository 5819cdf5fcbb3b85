/* file_map.c: mapping a file. A file that somebody cuts short while it is mapped ends the process,
 * as any program that maps it: writers rename (file_write.h). */
#include "io/file_map.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sys.h"

static weft_status map_open_file(struct wf_file_map *map, int fd, const char *path)
{
    struct stat st;
    void *bytes;

    WF_NEED(fstat(fd, &st) == 0, WEFT_ERR_IO, "%s: %s", path, strerror(errno));
    WF_NEED((uint64_t)st.st_size <= SIZE_MAX / 2, WEFT_ERR_IO, "%s: too large to map", path);
    map->size = (size_t)st.st_size;
    if (map->size == 0) return WEFT_OK;
    bytes = mmap(NULL, map->size, PROT_READ, MAP_SHARED, fd, 0);
    WF_NEED(bytes != MAP_FAILED, WEFT_ERR_IO, "%s: cannot map: %s", path, strerror(errno));
    map->bytes = bytes;
    return WEFT_OK;
}

weft_status wf_file_map(struct wf_file_map *map, const char *path)
{
    weft_status status;
    int fd = wf_open_regular_file(path);

    *map = (struct wf_file_map){0};
    WF_NEED(fd >= 0, errno == ENOENT ? WEFT_ERR_NOT_FOUND : WEFT_ERR_IO, "%s: %s", path,
            errno ? strerror(errno) : "not a file");
    status = map_open_file(map, fd, path);
    close(fd);
    return status;
}

void wf_file_unmap(struct wf_file_map *map)
{
    if (map->bytes) munmap(map->bytes, map->size);
    *map = (struct wf_file_map){0};
}
