#include "base/sys.h"

#include <sched.h>
#include <time.h>

enum { SPIN_TURNS = 64, YIELD_TURNS = 4000 };

double wf_now(void)
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

double wf_wait_turn(struct wf_patience *patience)
{
    int turn = patience->turns++;

    if (turn < SPIN_TURNS) {
        cpu_pause();
        return 0;
    }
    if (patience->since == 0) patience->since = wf_now();
    if (turn < YIELD_TURNS)
        sched_yield();
    else
        short_sleep(turn - YIELD_TURNS);
    return turn % 16 == 0 || turn >= YIELD_TURNS ? wf_now() - patience->since : 0;
}
