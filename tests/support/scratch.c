/* scratch.c: one folder per job, named by its process group so that all processes of mpiexec agree.
 */
#include "support/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"

enum { PATHS = 16, PATH_BYTES = 256 };

static const char *temporary(void)
{
    const char *folder = getenv("TMPDIR");

    return folder && folder[0] ? folder : "/tmp";
}

/* All processes of one mpiexec have one parent. */
static void job_folder(char *path)
{
    long job = (long)(wf_comm_is_started_by_mpiexec() ? getppid() : getpid());

    snprintf(path, PATH_BYTES, "%s/weft-weights-%ld", temporary(), job);
}

/* Threads may be ranks, so each has its own ring of paths. */
const char *wt_scratch(const char *name)
{
    static _Thread_local char paths[PATHS][PATH_BYTES];
    static _Thread_local int next;
    char *path = paths[next++ % PATHS];

    job_folder(path);
    mkdir(path, 0777);
    snprintf(path + strlen(path), PATH_BYTES - strlen(path), "/%s", name);
    return path;
}

int wt_scratch_end(int result)
{
    char path[PATH_BYTES];

    job_folder(path);
    wt_remove(path);
    return result;
}

void wt_write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(bytes, 1, count, file) != count) abort();
    fclose(file);
}

void wt_write_text(const char *path, const char *text) { wt_write_file(path, text, strlen(text)); }

void wt_age_file(const char *path, int64_t seconds)
{
    struct timespec times[2];

    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= (time_t)seconds;
    times[1] = times[0];
    if (utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) != 0) abort();
}

void wt_remove(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    char inner[2 * PATH_BYTES + 256];

    for (; folder && (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (remove(inner) != 0) wt_remove(inner);
    }
    if (folder) closedir(folder);
    remove(path);
}
