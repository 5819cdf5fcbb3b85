/*
 * node_memory.c: three ways for the ranks of a machine to see each other's memory. Each one either
 * works on all ranks or is undone on all ranks. None leaves a name behind when a rank is killed:
 * a memfd has none, and what shm_open made is unlinked as soon as the peers hold it, or by whoever
 * starts a minute after a rank was killed before that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "comm/shm/comm_node.h"

/* Nobody else can take a name before us that has a number drawn by chance. */
#define NAME "/weft-%ld-%016" PRIx64

/* What a rank tells its peers, so that they find its memory and know that it is the right one. */
struct shared_memory_id {
    char path[64];
    uint64_t token; /* stands at the start of the memory */
    uint64_t bytes;
};

/* Why this rank cannot take a level; the first reason counts. Returns false. */
WEFT_PRINTF(2, 3) static bool refuse(struct wf_comm_node *node, const char *format, ...)
{
    va_list values;

    if (node->refusal[0]) return false;
    va_start(values, format);
    vsnprintf(node->refusal, sizeof node->refusal, format, values);
    va_end(values);
    return false;
}

/* True if no rank of the node has refused; otherwise every rank gets the first rank's reason. */
static bool agree_on_refusal(struct wf_comm_node *node)
{
    enum { BYTES = sizeof node->refusal };
    char *all = wf_malloc((size_t)node->size * BYTES);
    int first = 0;

    wf_mpi_allgather_bytes(node->comm, node->refusal, all, BYTES);
    while (first < node->size && !all[first * BYTES]) first++;
    if (first < node->size) memcpy(node->refusal, all + first * BYTES, BYTES);
    wf_free(all);
    return first == node->size;
}

static uint64_t make_token(void)
{
    double now = wf_monotonic_seconds();
    uint64_t bits;

    memcpy(&bits, &now, sizeof bits);
    return bits * 0x9E3779B97F4A7C15u ^ (uint64_t)getpid();
}

static void *map_file(int fd, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Own memory behind `fd`, with the token in place. */
static bool map_own_memory(struct wf_comm_node *node, int fd,
                           struct shared_memory_id *shared_memory_id, bool reserve)
{
    void *base;

    if (fd < 0) return refuse(node, "rank %d: a memory file: %s", node->rank, strerror(errno));
    if (ftruncate(fd, (off_t)shared_memory_id->bytes) != 0 ||
        (reserve && posix_fallocate(fd, 0, 4096) != 0))
        return refuse(node, "rank %d: %" PRIu64 " MiB of shared memory: no room", node->rank,
                      shared_memory_id->bytes >> 20);
    base = map_file(fd, shared_memory_id->bytes);
    if (!base)
        return refuse(node, "rank %d: mapping %" PRIu64 " MiB (WEFT_ARENA_MIB): %s", node->rank,
                      shared_memory_id->bytes >> 20, strerror(errno));
    node->base[node->rank] = (uintptr_t)base;
    shared_memory_id->token = make_token();
    memcpy(base, &shared_memory_id->token, sizeof shared_memory_id->token);
    wf_arena_init(&node->arena, base, shared_memory_id->bytes, fd, reserve);
    if (wf_arena_alloc_pages(&node->arena, sizeof shared_memory_id->token) == base) return true;
    return refuse(node, "rank %d: no room for a first page", node->rank);
}

static bool map_peer_memory(struct wf_comm_node *node, int peer,
                            const struct shared_memory_id *shared_memory_id)
{
    int fd = open(shared_memory_id->path, O_RDWR | O_CLOEXEC);
    struct stat stat;
    void *base = NULL;

    if (fd < 0)
        return refuse(node, "rank %d: the memory of rank %d, %s: %s", node->rank, peer,
                      shared_memory_id->path, strerror(errno));
    if (fstat(fd, &stat) == 0 && (uint64_t)stat.st_size == shared_memory_id->bytes)
        base = map_file(fd, shared_memory_id->bytes);
    close(fd);
    node->base[peer] = (uintptr_t)base;
    if (base && memcmp(base, &shared_memory_id->token, sizeof shared_memory_id->token) == 0)
        return true;
    return refuse(node, "rank %d: %s is not the memory of rank %d", node->rank,
                  shared_memory_id->path, peer);
}

/* Exchange the ids and map all peers. A rank whose own memory failed has refused and has 0 bytes;
 * a rank with another number of bytes was started with another WEFT_ARENA_MIB. */
static bool exchange_and_map_peers(struct wf_comm_node *node, const struct shared_memory_id *mine)
{
    struct shared_memory_id *ids = wf_calloc((size_t)node->size, sizeof *ids);
    bool ok = true;

    wf_mpi_allgather_bytes(node->comm, mine, ids, sizeof *ids);
    for (int peer = 0; peer < node->size; peer++) {
        if (!mine->bytes || !ids[peer].bytes)
            ok = false;
        else if (ids[peer].bytes != mine->bytes)
            ok = refuse(node, "rank %d has %" PRIu64 " MiB, rank %d has %" PRIu64 " MiB",
                        node->rank, mine->bytes >> 20, peer, ids[peer].bytes >> 20);
    }
    for (int peer = 0; ok && peer < node->size; peer++)
        ok = peer == node->rank || map_peer_memory(node, peer, &ids[peer]);
    wf_free(ids);
    return agree_on_refusal(node);
}

bool wf_comm_node_map_memfd(struct wf_comm_node *node, size_t bytes)
{
    struct shared_memory_id shared_memory_id = {.bytes = bytes};
    int fd = memfd_create("weft", MFD_CLOEXEC);

    snprintf(shared_memory_id.path, sizeof shared_memory_id.path, "/proc/%ld/fd/%d", (long)getpid(),
             fd);
    if (!map_own_memory(node, fd, &shared_memory_id, false)) shared_memory_id.bytes = 0;
    if (fd >= 0 && !shared_memory_id.bytes && !node->arena.base) close(fd);
    return exchange_and_map_peers(node, &shared_memory_id);
}

/* The file system behind shm_open may be small: all together take half of what is free, the same
 * for each, by the rank that sees least. */
static size_t equal_shm_bytes_per_rank(const struct wf_comm_node *node, size_t bytes)
{
    struct statvfs fs;
    uint64_t share = 0, *shares = wf_malloc((size_t)node->size * sizeof *shares);

    if (statvfs("/dev/shm", &fs) == 0)
        share = (uint64_t)fs.f_bavail * fs.f_frsize / 2 / (uint64_t)node->size;
    wf_mpi_allgather_bytes(node->comm, &share, shares, sizeof share);
    for (int peer = 0; peer < node->size; peer++)
        share = shares[peer] < share ? shares[peer] : share;
    wf_free(shares);
    return share < bytes ? share / 4096 * 4096 : bytes;
}

/* Names of processes that were killed between making and unlinking them. Those of another machine's
 * or container's processes look alike, so what is young stays. */
static void unlink_stale_shm_names(void)
{
    enum { YOUNG_SECONDS = 60 };
    DIR *folder = opendir("/dev/shm");
    struct dirent *entry;

    for (; folder && (entry = readdir(folder));) {
        uint64_t number;
        char again[48];
        struct stat st;
        long process;

        if (sscanf(entry->d_name, "weft-%ld-%16" SCNx64, &process, &number) != 2) continue;
        snprintf(again, sizeof again, &NAME[1], process, number);
        if (strcmp(again, entry->d_name) != 0 || kill((pid_t)process, 0) == 0 || errno != ESRCH ||
            fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (st.st_uid == geteuid() && S_ISREG(st.st_mode) &&
            time(NULL) - st.st_mtime > YOUNG_SECONDS)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder) closedir(folder);
}

bool wf_comm_node_map_shm_open(struct wf_comm_node *node, size_t bytes)
{
    enum { LEAST_BYTES = 4 << 20 };
    struct shared_memory_id shared_memory_id = {.bytes = equal_shm_bytes_per_rank(node, bytes)};
    char name[48];
    int fd = -1;
    bool ok;

    unlink_stale_shm_names();
    snprintf(name, sizeof name, NAME, (long)getpid(), wf_system_random());
    snprintf(shared_memory_id.path, sizeof shared_memory_id.path, "/dev/shm%s", name);
    if (shared_memory_id.bytes >= LEAST_BYTES)
        fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    else
        refuse(node, "rank %d: %zu KiB of /dev/shm for each rank", node->rank,
               (size_t)shared_memory_id.bytes >> 10);
    if (!map_own_memory(node, fd, &shared_memory_id, true)) shared_memory_id.bytes = 0;
    if (fd >= 0 && !shared_memory_id.bytes && !node->arena.base) close(fd);
    ok = exchange_and_map_peers(node, &shared_memory_id);
    if (fd >= 0) shm_unlink(name);
    return ok;
}

/* MPI aligns a segment as it likes (Open MPI 4.1.4: to 8 bytes). Each rank's arena begins at the
 * first page of its segment, and the ranks tell each other how many bytes they skip. */
bool wf_comm_node_map_window(struct wf_comm_node *node, size_t bytes)
{
    const MPI_Aint room = (MPI_Aint)(bytes + WF_ARENA_PAGE - 1);
    void *segment = NULL;
    uint32_t skip, *skips;
    int unit, code;

    code = MPI_Win_allocate_shared(room, 1, MPI_INFO_NULL, node->comm, &segment, &node->window);
    if (code != MPI_SUCCESS) {
        node->window = MPI_WIN_NULL;
        refuse(node, "rank %d: %s", node->rank, wf_mpi_error_text(code, "MPI_Win_allocate_shared"));
    }
    if (!agree_on_refusal(node)) return false;
    skip = (uint32_t)(-(uintptr_t)segment % WF_ARENA_PAGE);
    skips = wf_malloc((size_t)node->size * sizeof *skips);
    wf_mpi_allgather_bytes(node->comm, &skip, skips, sizeof skip);
    for (int peer = 0; peer < node->size; peer++) {
        MPI_Aint size;
        void *base;

        WF_MPI(MPI_Win_shared_query(node->window, peer, &size, &unit, &base));
        node->base[peer] = (uintptr_t)base + skips[peer];
    }
    wf_free(skips);
    wf_arena_init(&node->arena, (char *)segment + skip, bytes, -1, false);
    return true;
}

void wf_comm_node_unmap(struct wf_comm_node *node)
{
    size_t bytes = node->arena.bytes;
    int fd = node->arena.fd;

    if (node->window != MPI_WIN_NULL) {
        WF_MPI(MPI_Win_free(&node->window));
    } else {
        for (int peer = 0; peer < node->size; peer++)
            if (node->base[peer]) munmap((void *)node->base[peer], bytes);
        if (node->arena.base && fd >= 0) close(fd);
    }
    memset(node->base, 0, (size_t)node->size * sizeof *node->base);
    wf_arena_destroy(&node->arena);
}
