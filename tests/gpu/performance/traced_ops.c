/*
 * traced_ops.c: every op passes wf_op_plan_lookup, which the linker's --wrap gives to this file:
 * the launches between one call of it and the next are those of one op. The stand-in's streams must
 * be eager.
 *
 * The least that an op moves is each element of its operands once, of each operand at least a
 * sector, and of a table only the rows that are asked for, which no two tokens do.
 */
#include "traced_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access_trace.h"
#include "base/elements/dtype.h"
#include "dtensor/dispatch/plan_cache.h"
#include "ops/op_table.h"
#include "placement/layout.h"

enum {
    SECTOR = 32,
    TRACED_BLOCKS = 8,
    BLOCKS_OF_SUMS = 128,
    BLOCKS_OF_LISTS = 1024,
    MOST_LAUNCHES = 64,
    MOST_OPS = 4096,
    TEXT = 512
};

static struct {
    const char *model;
    int ranks;
    bool counting, on;
    char op[TEXT]; /* "": nothing that has launches */
    double least;
    bool is_new;
    int launches;
    char *seen[MOST_OPS];
    int n_seen;
} ops;

static bool note_seen(const char *text)
{
    for (int i = 0; i < ops.n_seen; i++)
        if (strcmp(ops.seen[i], text) == 0) return false;
    if (ops.n_seen == MOST_OPS) abort();
    ops.seen[ops.n_seen++] = strdup(text);
    return true;
}

static double bytes_of(const struct wf_layout *layout)
{
    double bytes = layout ? (double)wf_dtypes[layout->desc.dtype].size : 0;

    for (int d = 0; layout && d < layout->desc.ndim; d++)
        if (layout->desc.stride[d] != 0) bytes *= (double)layout->desc.shape[d];
    return bytes > 0 && bytes < SECTOR ? SECTOR : bytes;
}

/* The table of an embedding or of its gradient; NULL: another op. */
static const struct wf_tensor_desc *table_of(const struct wf_op_plan *plan)
{
    if (plan->op == WF_OP_embedding) return &plan->used[0]->desc;
    return plan->op == WF_OP_embedding_grad ? &plan->out[0]->desc : NULL;
}

/* The part of a table's rows that is here, and so of the tokens, which mean all of them alike. */
static double part_of_tokens(const struct wf_op_plan *plan)
{
    const struct wf_tensor_desc *table = table_of(plan);

    return table ? (double)table->shape[0] / (double)table->global[0] : 1;
}

static double least_bytes(const struct wf_op_plan *plan)
{
    double bytes = 0, out = 0;

    for (int j = 0; j < plan->n_out; j++) out += bytes_of(plan->out[j]);
    for (int i = 0; i < plan->n_in; i++) {
        double in = plan->absent[i] ? 0 : bytes_of(plan->used[i]);

        if (plan->op == WF_OP_embedding && i == 0) { /* the rows that are asked for */
            double asked = out * part_of_tokens(plan);

            if (in > asked) in = asked;
        }
        if (plan->op == WF_OP_embedding_grad && i == 0) in *= part_of_tokens(plan);
        bytes += in;
    }
    return bytes + out;
}

static void print_launch(const struct wt_cuda_launch *l)
{
    double blocks = (double)l->grid[0] * l->grid[1] * l->grid[2];
    double scale = l->blocks_traced > 0 ? blocks / l->blocks_traced : 0;

    printf("launch\t%s\t%.0f\t%u\t%zu\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%.3f\n",
           l->kernel, blocks, l->block[0] * l->block[1] * l->block[2], l->shared, l->blocks_traced,
           32 * scale * (l->sectors_read + l->sectors_written), 32 * scale * l->sectors_of_blocks,
           scale * l->useful_bytes, scale * l->shared_passes, scale * l->shared_passes_least,
           scale * l->flops, scale * l->tensor_flops, l->worst ? l->worst : "-", l->worst_ratio);
}

static void end_op(void)
{
    static struct wt_cuda_launch launches[MOST_LAUNCHES];
    int n = wt_cuda_trace_end(launches, MOST_LAUNCHES);

    ops.launches += n;
    if (n > 0 && ops.is_new && ops.op[0]) {
        if (n > MOST_LAUNCHES) abort();
        printf("op\t%s\t%d\t%s\t%.0f\n", ops.model, ops.ranks, ops.op, ops.least);
        for (int i = 0; i < n; i++) print_launch(&launches[i]);
        fflush(stdout);
    }
    ops.op[0] = 0;
    ops.is_new = false;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Blocks of a launch that are run. Those of a sum of few columns are not alike, nor are those of an
 * embedding, whose tokens are here or not; the last launch of embedding_grad follows lists that
 * those before it make, which have fewer blocks. */
static int blocks_of(const char *text)
{
    if (begins(text, "sum(")) return BLOCKS_OF_SUMS;
    return begins(text, "embedding") ? BLOCKS_OF_LISTS : TRACED_BLOCKS;
}

static void begin_op(const char *text, double least)
{
    char key[TEXT + 64];

    if (!ops.on) return;
    end_op();
    snprintf(ops.op, sizeof ops.op, "%s", text);
    snprintf(key, sizeof key, "%s %d %s", ops.model, ops.ranks, text);
    ops.least = least;
    ops.is_new = !ops.counting && note_seen(key);
    wt_cuda_trace_begin(ops.is_new ? blocks_of(text) : -1);
}

struct wf_op_plan *__wrap_wf_op_plan_lookup(enum wf_op op, weft_tensor *const *in, int n,
                                            const struct wf_op_args *args);
struct wf_op_plan *__real_wf_op_plan_lookup(enum wf_op op, weft_tensor *const *in, int n,
                                            const struct wf_op_args *args);

struct wf_op_plan *__wrap_wf_op_plan_lookup(enum wf_op op, weft_tensor *const *in, int n,
                                            const struct wf_op_args *args)
{
    struct wf_op_plan *plan = __real_wf_op_plan_lookup(op, in, n, args);
    bool left_out = wf_ops[op].n_in == 0; /* what is made without an input: numbers, masks */
    char text[TEXT];

    if (!plan || !ops.on) return plan;
    /* A plain table of some rows: main.c has it with tokens that mean the others too. */
    left_out = left_out || (ops.ranks > 1 && table_of(plan) && part_of_tokens(plan) == 1);
    wf_op_plan_print(plan, text, sizeof text);
    begin_op(left_out ? "" : text, least_bytes(plan));
    return plan;
}

void traced_ops_begin(const char *model, int ranks)
{
    ops.model = model;
    ops.ranks = ranks;
    ops.counting = false;
    ops.launches = 0;
    ops.on = true;
    begin_op("", 0);
}

void traced_ops_count(void)
{
    ops.counting = true;
    ops.launches = 0;
    ops.on = true;
    begin_op("", 0);
}

void traced_ops_name(const char *name, double least) { begin_op(name, least); }

int traced_ops_end(void)
{
    end_op();
    ops.on = false;
    wt_cuda_trace_begin(-1); /* what nobody looks at: nothing runs */
    return ops.launches;
}
