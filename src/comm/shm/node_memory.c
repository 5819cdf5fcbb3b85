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

    if (fd < 0 || ftruncate(fd, (off_t)shared_memory_id->bytes) != 0) return false;
    if (reserve && posix_fallocate(fd, 0, 4096) != 0) return false;
    base = map_file(fd, shared_memory_id->bytes);
    if (!base) return false;
    node->base[node->rank] = (uintptr_t)base;
    shared_memory_id->token = make_token();
    memcpy(base, &shared_memory_id->token, sizeof shared_memory_id->token);
    wf_arena_init(&node->arena, base, shared_memory_id->bytes, fd, reserve);
    return wf_arena_alloc_pages(&node->arena, sizeof shared_memory_id->token) == base;
}

static bool map_peer_memory(struct wf_comm_node *node, int peer,
                            const struct shared_memory_id *shared_memory_id)
{
    int fd = open(shared_memory_id->path, O_RDWR | O_CLOEXEC);
    struct stat stat;
    void *base = NULL;

    if (fd < 0) return false;
    if (fstat(fd, &stat) == 0 && (uint64_t)stat.st_size == shared_memory_id->bytes)
        base = map_file(fd, shared_memory_id->bytes);
    close(fd);
    if (!base) return false;
    node->base[peer] = (uintptr_t)base;
    return memcmp(base, &shared_memory_id->token, sizeof shared_memory_id->token) == 0;
}

/* Exchange cards and map all peers, which have as much; bytes is 0 where the own memory failed. */
static bool exchange_and_map_peers(struct wf_comm_node *node, const struct shared_memory_id *mine)
{
    struct shared_memory_id *cards = wf_calloc((size_t)node->size, sizeof *cards);
    bool ok = true;

    wf_mpi_allgather_bytes(node->comm, mine, cards, sizeof *cards);
    for (int peer = 0; peer < node->size; peer++)
        ok = ok && cards[peer].bytes && cards[peer].bytes == mine->bytes;
    for (int peer = 0; ok && peer < node->size; peer++)
        ok = peer == node->rank || map_peer_memory(node, peer, &cards[peer]);
    wf_free(cards);
    return wf_mpi_all_true(node->comm, ok);
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
    if (!map_own_memory(node, fd, &shared_memory_id, true)) shared_memory_id.bytes = 0;
    if (fd >= 0 && !shared_memory_id.bytes && !node->arena.base) close(fd);
    ok = exchange_and_map_peers(node, &shared_memory_id);
    if (fd >= 0) shm_unlink(name);
    return ok;
}

bool wf_comm_node_map_window(struct wf_comm_node *node, size_t bytes)
{
    void *mine = NULL;
    int unit;

    if (MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, node->comm, &mine,
                                &node->window) != MPI_SUCCESS)
        node->window = MPI_WIN_NULL;
    if (!wf_mpi_all_true(node->comm, node->window != MPI_WIN_NULL)) return false;
    for (int peer = 0; peer < node->size; peer++) {
        MPI_Aint size;
        void *base;

        WF_MPI(MPI_Win_shared_query(node->window, peer, &size, &unit, &base));
        node->base[peer] = (uintptr_t)base;
    }
    wf_arena_init(&node->arena, mine, bytes, -1, false);
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
