/*
 * scaling.c: a GPT's training step on 1, 2 and 4 ranks that are threads of this process, and what
 * the library's own model says of it, for those and for meshes of 8 to 512 ranks that are not
 * there (docs/scaling.md).
 *
 * run: scaling
 */
#include <stdio.h>
#include <unistd.h>

#include "support/scaled.h"

enum { NODE = 8 }; /* ranks of a machine */

/* Seconds: medians over rounds. */
struct figures {
    double step;
    double cpu, in_comm;  /* of means over ranks */
    double least_in_comm; /* of the rank that the others wait for: nearest to what moving takes */
    struct scaled_link link;
};

static double mean_of(const double *values, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) sum += values[i];
    return sum / n;
}

static struct figures figures_of(struct scaled_run *run)
{
    double cpu[SCALED_ROUNDS], mean[SCALED_ROUNDS], least[SCALED_ROUNDS];

    for (int r = 0; r < SCALED_ROUNDS; r++) {
        cpu[r] = mean_of(run->cpu[r], run->ranks);
        mean[r] = mean_of(run->in_comm[r], run->ranks);
        least[r] = run->in_comm[r][0];
        for (int i = 1; i < run->ranks; i++)
            if (run->in_comm[r][i] < least[r]) least[r] = run->in_comm[r][i];
    }
    return (struct figures){.step = bench_median(run->step, SCALED_ROUNDS),
                            .cpu = bench_median(cpu, SCALED_ROUNDS),
                            .in_comm = bench_median(mean, SCALED_ROUNDS),
                            .least_in_comm = bench_median(least, SCALED_ROUNDS),
                            .link = {bench_median(run->latency, SCALED_ROUNDS),
                                     bench_median(run->bandwidth, SCALED_ROUNDS)}};
}

/* The first model's step on one rank, while every core runs one. */
struct machine {
    int cores;
    struct figures one;
};

/* Seconds that a core has to compute for the rank that has most to do. */
static double computing(const struct machine *machine, const struct bench_decoder *m, int ranks)
{
    return machine->one.cpu * scaled_work(m, ranks);
}

/* By the clock and on as few cores as there are, where ranks take turns. */
static double elapsed(const struct machine *machine, const struct bench_decoder *m, int ranks)
{
    double turns = ranks > machine->cores ? (double)ranks / machine->cores : 1;

    return machine->one.step * scaled_work(m, ranks) * turns;
}

static void print_run(struct scaled_run *run, const struct machine *machine)
{
    struct figures seen = figures_of(run);
    struct scaled_forecast f = {.model = run->model,
                                .dp = 1,
                                .tp = run->ranks,
                                .along_dp = seen.link,
                                .along_tp = seen.link};
    double computed = computing(machine, &run->model, run->ranks), predicted;
    const char *name = run->name;

    scaled_predict(&f);
    predicted = computed + f.result.seconds;
    bench_line(seen.link.latency_us, "us", "scaling.%s.latency", name);
    bench_line(seen.link.megabytes_per_s, "MB/s", "scaling.%s.bandwidth", name);
    bench_line(1e3 * seen.step, "ms", "scaling.%s.step_ms", name);
    bench_line(1e3 * seen.cpu, "ms", "scaling.%s.cpu_ms", name);
    bench_line(1e3 * seen.in_comm, "ms", "scaling.%s.comm_ms", name);
    bench_line(1e3 * seen.least_in_comm, "ms", "scaling.%s.comm_least_ms", name);
    bench_line(elapsed(machine, &run->model, run->ranks) / seen.step, "ratio",
               "scaling.%s.efficiency", name);
    bench_line(computed / seen.cpu, "ratio", "scaling.%s.cpu_efficiency", name);
    bench_line(1e3 * predicted, "ms", "scaling.%s.predicted_ms", name);
    bench_line(1e3 * f.result.seconds, "ms", "scaling.%s.predicted_comm_ms", name);
    bench_line(predicted / seen.cpu - 1, "ratio", "scaling.%s.error", name);
    bench_line((double)run->bytes / f.bytes_by_hand, "ratio", "scaling.%s.bytes_vs_closed_form",
               name);
    bench_line((double)run->bytes / f.bytes, "ratio", "scaling.%s.bytes_vs_forecast", name);
}

/* Not run: a core for every rank. */
static void print_prediction(const char *links, struct scaled_forecast *f,
                             const struct machine *machine)
{
    double even = computing(machine, &f->model, 1) / f->tp, predicted;
    char mesh[32];

    snprintf(mesh, sizeof mesh, f->dp > 1 ? "tp%d_dp%d" : "tp%d", f->tp, f->dp);
    scaled_predict(f);
    predicted = computing(machine, &f->model, f->tp) + f->result.seconds;
    bench_line(1e3 * predicted, "ms", "scaling.%s.predicted_ms.%s", links, mesh);
    bench_line(1e3 * f->result.seconds, "ms", "scaling.%s.predicted_comm_ms.%s", links, mesh);
    bench_line(even / predicted, "ratio", "scaling.%s.predicted_efficiency.%s", links, mesh);
    bench_line(f->bytes / f->bytes_by_hand, "ratio", "scaling.%s.bytes_vs_closed_form.%s", links,
               mesh);
}

/*
 * Machines of 8 ranks on a network: PyTorch's planner takes 19.3 GB/s and 2.7 us per rank waited
 * for between hosts. The 8 ranks share the former; the library's latency stands for 11 waits.
 */
static const struct scaled_link network = {2.7 * 11, 19300 / (double)NODE};

static void predict(const struct machine *machine, struct scaled_link node)
{
    static const struct {
        int dp, tp;
    } meshes[] = {{1, 8}, {1, 16}, {1, 32}, {1, 64}, {1, 128}, {1, 256}, {1, 512}, {8, 8}, {64, 8}};

    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        int tp = meshes[i].tp;
        struct scaled_forecast f = {.model = scaled_model(tp), .dp = meshes[i].dp, .tp = tp};

        f.along_tp = f.along_dp = node;
        print_prediction("node", &f, machine);
        f.along_tp = tp > NODE ? network : node;
        f.along_dp = network;
        print_prediction("network", &f, machine);
        if (f.dp == 1)
            bench_line(scaled_rate(tp) / scaled_rate(1), "ratio", "scaling.thin_rate.tp%d", tp);
    }
}

/* ---- the program ---- */

int main(void)
{
    enum { ALONE, BUSY, TP2, TP4, STRONG2, STRONG4, RUNS };
    struct machine machine = {.cores = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    int busy = machine.cores < SCALED_RANKS ? machine.cores : SCALED_RANKS;
    struct scaled_run runs[RUNS] = {
        [ALONE] = {.ranks = 1, .apart = true, .model = scaled_model(1)},
        [BUSY] = {.ranks = busy, .apart = true, .model = scaled_model(1)},
        [TP2] = {.name = "weak.tp2", .ranks = 2, .model = scaled_model(2)},
        [TP4] = {.name = "weak.tp4", .ranks = 4, .model = scaled_model(4)},
        [STRONG2] = {.name = "strong.tp2", .ranks = 2, .model = scaled_model(1)},
        [STRONG4] = {.name = "strong.tp4", .ranks = 4, .model = scaled_model(1)},
    };
    struct figures alone;

    for (int round = 0; round < SCALED_ROUNDS; round++)
        for (int i = 0; i < RUNS; i++) scaled_measure(&runs[i]);
    alone = figures_of(&runs[ALONE]);
    machine.one = figures_of(&runs[BUSY]);
    bench_line(1e3 * alone.step, "ms", "scaling.tp1.step_ms");
    bench_line(1e3 * alone.cpu, "ms", "scaling.tp1.cpu_ms");
    bench_line(1e3 * machine.one.step, "ms", "scaling.tp1.step_ms_all_cores");
    bench_line(1e3 * machine.one.cpu, "ms", "scaling.tp1.cpu_ms_all_cores");
    for (int i = TP2; i < RUNS; i++) print_run(&runs[i], &machine);
    predict(&machine, figures_of(&runs[TP2]).link);
    return 0;
}
