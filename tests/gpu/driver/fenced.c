/* fenced.c: two mappings of one memory file, and lists of what is mapped and pinned, for all ranks
 * of the process. */
#include "fenced.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 4096 };

static const size_t SPACE = (size_t)64 << 30;

struct range {
    char *at;
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    char *device, *host;
    size_t end, used, limit;
    struct range free[MOST], pinned[MOST];
    int n_free, n_pinned;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void end_program(const char *what, const void *p)
{
    fprintf(stderr, "test driver: %p %s\n", p, what);
    abort();
}

/* Pages are there when they are touched. */
static void open_memory(void)
{
    const char *mib = getenv("WEFT_TEST_DEVICE_MIB");
    void *device, *host;
    int fd;

    if (memory.device) return;
    fd = memfd_create("weft-test-device", MFD_CLOEXEC);
    memory.limit = mib ? (size_t)strtoul(mib, NULL, 10) << 20 : SPACE;
    if (fd < 0 || ftruncate(fd, (off_t)SPACE) != 0) end_program("cannot make device memory", NULL);
    device = mmap(NULL, SPACE, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    host = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (device == MAP_FAILED || host == MAP_FAILED) end_program("cannot map device memory", NULL);
    close(fd);
    memory.device = device;
    memory.host = host;
}

static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static char *take(size_t bytes)
{
    for (int i = 0; i < memory.n_free; i++) {
        char *at = memory.free[i].at;

        if (memory.free[i].bytes != bytes) continue;
        memory.free[i] = memory.free[--memory.n_free];
        return at;
    }
    if (memory.end + bytes > SPACE) return NULL;
    memory.end += bytes;
    return memory.device + memory.end - bytes;
}

void *fenced_map(size_t bytes)
{
    char *p = NULL;

    bytes = whole_pages(bytes);
    pthread_mutex_lock(&memory.lock);
    open_memory();
    if (memory.used + bytes <= memory.limit) p = take(bytes);
    if (p) memory.used += bytes;
    pthread_mutex_unlock(&memory.lock);
    return p;
}

void fenced_unmap(void *p, size_t bytes)
{
    bytes = whole_pages(bytes);
    madvise((char *)fenced_open(p), bytes, MADV_REMOVE);
    pthread_mutex_lock(&memory.lock);
    memory.used -= bytes;
    if (memory.n_free < MOST) memory.free[memory.n_free++] = (struct range){p, bytes};
    pthread_mutex_unlock(&memory.lock);
}

void *fenced_open(const void *p)
{
    uintptr_t offset;

    if (!p) return NULL; /* before what another rank may be about to open */
    offset = (uintptr_t)p - (uintptr_t)memory.device;
    if (!memory.device || offset >= SPACE) end_program("is no device memory", p);
    return memory.host + offset;
}

void fenced_count(size_t *used, size_t *total)
{
    pthread_mutex_lock(&memory.lock);
    open_memory();
    *used = memory.used;
    *total = memory.limit;
    pthread_mutex_unlock(&memory.lock);
}

void pinned_add(void *host, size_t bytes)
{
    pthread_mutex_lock(&memory.lock);
    if (memory.n_pinned == MOST) end_program("is one pinned range too many", host);
    memory.pinned[memory.n_pinned++] = (struct range){host, bytes};
    pthread_mutex_unlock(&memory.lock);
}

void pinned_remove(void *host)
{
    bool found = false;

    pthread_mutex_lock(&memory.lock);
    for (int i = 0; i < memory.n_pinned && !found; i++) {
        if (memory.pinned[i].at != host) continue;
        memory.pinned[i] = memory.pinned[--memory.n_pinned];
        found = true;
    }
    pthread_mutex_unlock(&memory.lock);
    if (!found) end_program("is unpinned and was not pinned", host);
}

void pinned_check(const void *host, size_t bytes)
{
    const char *p = host;
    bool found = false;

    pthread_mutex_lock(&memory.lock);
    for (int i = 0; i < memory.n_pinned; i++)
        found |=
            p >= memory.pinned[i].at && p + bytes <= memory.pinned[i].at + memory.pinned[i].bytes;
    pthread_mutex_unlock(&memory.lock);
    if (!found) end_program("is host memory that is not pinned", host);
}
