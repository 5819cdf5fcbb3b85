/* options.h: what the user asked for. The names and meanings are in options.def. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/decoder.h"

enum family { GPT2, LLAMA };
enum on_off { ON, OFF };
enum device { CPU, GPU };

struct options {
    const char *data, *config, *weights, *mesh, *plan, *checkpoint, *jsonl; /* NULL: not given */
    int model;                                                              /* an enum family */
    struct decoder decoder;
    int schedule; /* a weft_schedule_kind */
    int loss;     /* an enum on_off */
    int device;   /* an enum device */
    int token_bytes, context, batch, accumulate;
    int steps, until, warmup, period, every, sample;
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
    uint64_t seed;
    double lr, min_lr, gamma, decay, clip;
    bool bf16, sequence, shard, print_plan, dry_run, resume;
};

/** Read them, and have every rank do `run`; see common/command_line.h. gives: the exit code */
int options_run(int argc, char **argv, int (*run)(void *options));
