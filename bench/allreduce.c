/*
 * allreduce.c: our all-reduce against MPI's blocking one, in one run, by turns.
 *
 *     run: mpiexec -n 2 allreduce
 *     run: mpiexec -n 4 allreduce
 *
 * A ratio is MPI's median over ours: above 1, ours is faster. With more ranks than cores MPI's
 * blocking calls keep spinning on the core that the peer needs. Our buffers come from the arena,
 * MPI's from private memory.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/knob.h"
#include "comm/comm.h"
#include "device/pool.h"
#include "support/bench.h"

enum { ROUNDS = 15 };

struct buffers {
    struct wf_block *send, *recv;
};

static struct buffers take(size_t bytes, enum wf_category category)
{
    struct buffers buffers = {bench_need(wf_block_new(bytes, category)),
                              bench_need(wf_block_new(bytes, category))};

    memset(buffers.send->data, 0, bytes);
    memset(buffers.recv->data, 0, bytes);
    return buffers;
}

static void give_back(struct buffers buffers)
{
    wf_block_release(buffers.send);
    wf_block_release(buffers.recv);
}

static void barrier(void)
{
    struct wf_coll coll = {.kind = WEFT_COLL_BARRIER, .comm = wf_comm_world()};

    wf_comm_run(&coll);
}

/* Seconds per call over a batch. */
static double ours(struct buffers buffers, size_t bytes, int batch)
{
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = wf_comm_world(),
                           .count = bytes / sizeof(float),
                           .send = buffers.send->data,
                           .recv = buffers.recv->data};
    double start;

    barrier();
    start = bench_now();
    for (int i = 0; i < batch; i++) wf_comm_run(&coll);
    return (bench_now() - start) / batch;
}

static double theirs(struct buffers buffers, size_t bytes, int batch)
{
    double start;

    barrier();
    start = bench_now();
    for (int i = 0; i < batch; i++)
        MPI_Allreduce(buffers.send->data, buffers.recv->data, (int)(bytes / sizeof(float)),
                      MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (bench_now() - start) / batch;
}

static void measure(size_t bytes, const char *size, int our_batch, int their_batch)
{
    double our[ROUNDS], their[ROUNDS], us, them;
    struct buffers shared = take(bytes, WF_MEM_COMM), own = take(bytes, WF_MEM_WEIGHTS);
    int ranks = wf_comm_size(wf_comm_world());

    (void)ours(shared, bytes, our_batch);
    (void)theirs(own, bytes, 1);
    for (int i = 0; i < ROUNDS; i++) {
        our[i] = ours(shared, bytes, our_batch);
        their[i] = theirs(own, bytes, their_batch);
    }
    us = bench_median(our, ROUNDS);
    them = bench_median(their, ROUNDS);
    if (wf_comm_rank(wf_comm_world()) == 0) {
        printf("%d ranks, %s: %.2f us, MPI_Allreduce %.2f us\n", ranks, size, us * 1e6, them * 1e6);
        bench_line(them / us, "ratio", "allreduce.vs_mpich_%d.%s", ranks, size);
    }
    give_back(shared);
    give_back(own);
}

int main(int argc, char **argv)
{
    static const struct {
        size_t bytes;
        const char *name;
    } sizes[] = {{64, "64B"},        {4096, "4KiB"},    {16384, "16KiB"},  {65536, "64KiB"},
                 {262144, "256KiB"}, {1048576, "1MiB"}, {4194304, "4MiB"}, {16777216, "16MiB"}};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool crowded;

    wf_knobs_read();
    WEFT_CHECK(wf_comm_init(&argc, &argv));
    crowded = wf_comm_size(wf_comm_world()) > cores;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i].bytes;
        int batch = bytes <= 4096 ? 500 : bytes <= 262144 ? 50 : 5;

        if (crowded && bytes > 262144) break;
        measure(bytes, sizes[i].name, crowded ? 20 : batch, crowded ? 2 : batch);
    }
    wf_comm_finalize();
    return EXIT_SUCCESS;
}
