/*
 * op_calls.h: what one call of an op costs, with its kernel and without, on tensors so small that
 * the kernel takes next to nothing: [8,8] on this rank. A program that uses it is linked with
 * --wrap=wf_op_plan_lookup, by which the kernels of a call are found.
 */
#pragma once

#include <stdint.h>

#include <weft/weft.h>

enum { BENCH_ROWS = 16, BENCH_COLUMNS = 8, BENCH_BATCH = 32 };

struct bench_operands {
    weft_mesh *mesh;               /* NULL: everything plain */
    weft_tensor *a, *b, *w, *bias; /* a, b: split over rows; w, bias replicated */
    weft_tensor *r;                /* like a, but replicated */
};

typedef weft_tensor *bench_op_fn(const struct bench_operands *f);

struct bench_op {
    const char *name;
    bench_op_fn *run;
};
extern const struct bench_op bench_ops[];
extern const int bench_op_count;

struct bench_operands bench_operands_make(weft_mesh *mesh);
/** [rows,8] with this placement along every axis of the mesh. */
weft_tensor *bench_spread(const struct bench_operands *f, int64_t rows, weft_placement placement);

void bench_run_batches(bench_op_fn *run, const struct bench_operands *f, int scopes);
/** A thread's first handles are new ones, and are used again once many others rest. */
void bench_use_many_handles(const struct bench_operands *f);
/** CPU time of a call, the best of some rounds; bench_host_ns: without that of its kernels. */
double bench_call_ns(bench_op_fn *run, const struct bench_operands *f);
double bench_host_ns(bench_op_fn *run, const struct bench_operands *f);

/** The kernels of one call, to be run alone, on the CPU. */
void bench_note_kernels(bench_op_fn *run, const struct bench_operands *f);
void bench_run_kernels(int times);
void bench_free_kernels(void);
