#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

enum { SPIN_TURNS = 64, YIELD_TURNS = 4000 };

double wf_monotonic_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void short_sleep(int turns)
{
    long ns = 20000L * (1 + turns / 64);

    nanosleep(&(struct timespec){.tv_nsec = ns < 1000000 ? ns : 1000000}, NULL);
}

double wf_backoff_wait(struct wf_backoff *patience)
{
    int turn = patience->turns++;

    if (turn < SPIN_TURNS) {
        cpu_pause();
        return 0;
    }
    if (patience->since == 0) patience->since = wf_monotonic_seconds();
    if (turn < YIELD_TURNS)
        sched_yield();
    else
        short_sleep(turn - YIELD_TURNS);
    return turn % 16 == 0 || turn >= YIELD_TURNS ? wf_monotonic_seconds() - patience->since : 0;
}

uint64_t wf_system_random(void)
{
    struct {
        struct timespec now;
        uint64_t count, process;
    } seed = {.process = (uint64_t)getpid()};
    static _Atomic uint64_t count;
    uint64_t number;

    if (getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number) return number;
    clock_gettime(CLOCK_REALTIME, &seed.now); /* kernels before 3.17 */
    seed.count = ++count;
    return wf_hash_bytes(&seed, sizeof seed);
}

int wf_open_regular_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))) return fd;
    close(fd);
    errno = 0;
    return -1;
}
