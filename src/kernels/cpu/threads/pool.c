/* pool.c: see the header. One piece of work at a time; threads stay until the process ends. */
#include "kernels/cpu/threads/pool.h"

#include <pthread.h>
#include <stdint.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    int threads;    /* started, the callers not counted */
    uint64_t round; /* pieces of work so far */
    bool busy;
    wf_pool_part *part;
    const void *work;
    int n, left; /* parts, and those that are not done */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .begun = PTHREAD_COND_INITIALIZER,
          .ended = PTHREAD_COND_INITIALIZER};

/* Thread number i does part i + 1 of each piece that has as many. */
static void *serve(void *number)
{
    int mine = (int)(intptr_t)number + 1;
    uint64_t seen = 0;

    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.round == seen || mine >= pool.n) {
            seen = pool.round;
            pthread_cond_wait(&pool.begun, &pool.lock);
        }
        seen = pool.round;
        pthread_mutex_unlock(&pool.lock);
        pool.part(pool.work, mine);
        pthread_mutex_lock(&pool.lock);
        if (--pool.left == 0) pthread_cond_signal(&pool.ended);
    }
    return NULL;
}

/* With the lock. A thread that starts late finds the round that it was started for. */
static bool start_threads(int n)
{
    pthread_attr_t attributes;

    if (pool.threads >= n) return true;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pool.threads < n) {
        pthread_t thread;

        if (pthread_create(&thread, &attributes, serve, (void *)(intptr_t)pool.threads)) break;
        pool.threads++;
    }
    pthread_attr_destroy(&attributes);
    return pool.threads >= n;
}

bool wf_pool_run(int n, wf_pool_part *part, const void *work)
{
    pthread_mutex_lock(&pool.lock);
    if (pool.busy || !start_threads(n - 1)) {
        pthread_mutex_unlock(&pool.lock);
        return false;
    }
    pool.busy = true;
    pool.part = part;
    pool.work = work;
    pool.n = n;
    pool.left = n - 1;
    pool.round++;
    pthread_cond_broadcast(&pool.begun);
    pthread_mutex_unlock(&pool.lock);
    part(work, 0);
    pthread_mutex_lock(&pool.lock);
    while (pool.left) pthread_cond_wait(&pool.ended, &pool.lock);
    pool.n = 0;
    pool.busy = false;
    pthread_mutex_unlock(&pool.lock);
    return true;
}
