/*
 * link_bytes.c: 4 ranks on 2 hosts (tests/support/hosts.sh): how many bytes cross the link, by the
 * counters of this host's interface, against what must cross it. Exit status 1 when it is more than
 * a tenth above.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "comm/comm.h"

enum { COUNT = 1 << 20, TIMES = 4 };

struct traffic {
    long long in, out;
};

static struct traffic counters(void)
{
    struct traffic now = {-1, -1};
    FILE *file = fopen("/proc/self/net/dev", "r");
    char line[512];

    while (file && fgets(line, sizeof line, file)) {
        char *at = strstr(line, "eth0:");

        if (at) (void)sscanf(at + 5, "%lld %*d %*d %*d %*d %*d %*d %*d %lld", &now.in, &now.out);
    }
    if (file) fclose(file);
    return now;
}

static void barrier(void)
{
    struct wf_coll coll = {.kind = WEFT_COLL_BARRIER, .comm = wf_comm_world()};

    wf_comm_run(&coll);
}

struct plan {
    const char *name;
    weft_coll kind;
    double in[2], out[2]; /* per host, as parts of COUNT elements */
};

/* Both hosts hold two of four ranks. */
static const struct plan plans[] = {
    {"all-reduce", WEFT_COLL_ALL_REDUCE, {1, 1}, {1, 1}},
    {"all-gather", WEFT_COLL_ALL_GATHER, {0.5, 0.5}, {0.5, 0.5}},
    {"reduce-scatter", WEFT_COLL_REDUCE_SCATTER, {0.5, 0.5}, {0.5, 0.5}},
    {"broadcast", WEFT_COLL_BROADCAST, {0, 1}, {1, 0}},
};

static void run(const struct plan *plan, float *send, float *recv)
{
    size_t counts[4] = {COUNT / 4, COUNT / 4, COUNT / 4, COUNT / 4};
    struct wf_coll coll = {.kind = plan->kind,
                           .comm = wf_comm_world(),
                           .count = COUNT,
                           .send = send,
                           .recv = recv,
                           .send_counts = counts,
                           .recv_counts = counts};

    for (int i = 0; i < TIMES; i++) wf_comm_run(&coll);
}

static int above(const char *name, const char *way, long long bytes, double wanted)
{
    double sent = TIMES * COUNT * (double)sizeof(float), limit = 1.1 * wanted * sent;

    /* what the other way's data causes: acknowledgements, and the barriers */
    limit += 0.05 * sent;
    printf("rank %d: %s: %s %.3f of the message, lower bound %.3f\n", wf_comm_rank(wf_comm_world()),
           name, way, (double)bytes / sent, wanted);
    return (double)bytes > limit;
}

static int measure(const struct plan *plan, int host, float *send, float *recv)
{
    struct traffic before, after;

    run(plan, send, recv);
    barrier();
    before = counters();
    barrier();
    run(plan, send, recv);
    barrier();
    after = counters();
    barrier();
    if (before.in < 0 || after.in == before.in) WF_DIE("the counters are not those of the link");
    if (wf_comm_rank(wf_comm_world()) % 2) return 0;
    return above(plan->name, "in", after.in - before.in, plan->in[host]) +
           above(plan->name, "out", after.out - before.out, plan->out[host]);
}

int main(int argc, char **argv)
{
    float *send = wf_calloc(COUNT, sizeof *send), *recv = wf_calloc(COUNT, sizeof *recv);
    int32_t mine = 0, all = 0;
    struct wf_coll verdict;

    wf_knobs_read();
    WEFT_CHECK(wf_comm_init(&argc, &argv));
    if (strcmp(wf_comm_backend_name(wf_comm_world()), "nodes") != 0)
        WF_DIE("the backend is %s, not nodes", wf_comm_backend_name(wf_comm_world()));
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        mine += measure(&plans[i], wf_comm_rank(wf_comm_world()) / 2, send, recv);
    verdict = (struct wf_coll){.kind = WEFT_COLL_ALL_REDUCE,
                               .comm = wf_comm_world(),
                               .dtype = WEFT_I32,
                               .count = 1,
                               .send = &mine,
                               .recv = &all};
    wf_comm_run(&verdict);
    if (wf_comm_rank(wf_comm_world()) == 0) printf("verdict: %s\n", all ? "fail" : "pass");
    fflush(stdout);
    wf_comm_finalize();
    wf_free(send);
    wf_free(recv);
    return all ? EXIT_FAILURE : EXIT_SUCCESS;
}
