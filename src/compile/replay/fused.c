/* fused.c: the walk over the tiles of a fused node. */
#include "compile/replay/fused.h"

#include <stdio.h>

#include "base/elements/prefetch.h"
#include "base/elements/stream_copy.h"
#include "compile/replay/fused_steps.h"

/* ---- running ---- */

static void begin_step(struct wf_tile_step *step, const struct wf_program_run *run)
{
    for (int i = 0; i < step->call[FUSED_WHOLE].n_in; i++) {
        const struct wf_fused_operand *o = &step->of.in[i];

        step->from[i] = o->inner         ? step->in_scratch[i]
                        : o->storage < 0 ? NULL
                                         : run->base[o->storage] + o->offset;
    }
    for (int j = 0; j < step->call[FUSED_WHOLE].n_out; j++) {
        const struct wf_fused_operand *o = &step->of.out[j];

        step->at[j] = o->inner || o->storage < 0 ? NULL : run->base[o->storage] + o->offset;
        step->to[j] = step->out_scratch[j] ? step->out_scratch[j] : step->at[j];
    }
    step->is_far = step->is_long[0] && step->stores && (uintptr_t)step->at[0] % FUSED_LINE == 0 &&
                   step->out_step[0] % FUSED_LINE == 0;
    if (step->is_far) step->to[0] = step->at[0];
}

/* To the next tile; a long result leaves the cache. */
static void go_on(struct wf_tile_step *step, int64_t rows)
{
    const struct wf_kernel_call *k = &step->call[FUSED_WHOLE];

    for (int i = 0; i < k->n_in; i++)
        if (step->in_step[i]) step->from[i] = (const char *)step->from[i] + step->in_step[i];
    for (int j = 0; j < k->n_out; j++) {
        if (!step->out_step[j]) continue;
        if (step->is_long[j] && !step->is_far) {
            wf_stream_copy(step->at[j], step->to[j], (size_t)(step->of.out[j].row_bytes * rows));
            step->at[j] += step->out_step[j];
        } else {
            step->to[j] = (char *)step->to[j] + step->out_step[j];
        }
    }
}

static void run_chain(struct wf_tile_step *steps, int n, int64_t rows)
{
    struct wf_chain_op ops[2 * FUSED_CHAIN];
    int n_ops = 0;

    for (int k = 0; k < n; k++) {
        const struct wf_tile_step *step = &steps[k];

        ops[n_ops++] =
            (struct wf_chain_op){.code = step->code,
                                 .s = (float)step->scalars.s[0],
                                 .array = step->other < 0 ? NULL : step->from[step->other]};
        if (step->stores)
            ops[n_ops++] = (struct wf_chain_op){
                .code = step->is_far ? WF_CHAIN_STORE_FAR : WF_CHAIN_STORE, .to = step->to[0]};
    }
    WF_ISA_PICK(wf_chain_loops)
        ->run(steps[0].of.out[0].row_bytes / (int64_t)sizeof(float) * rows, steps[0].from[0], ops,
              n_ops);
}

/* A kernel, or a chain. gives: how many steps that is */
static int run_steps(struct wf_tile_step *steps, int which, int64_t rows)
{
    int n = steps->chain ? steps->chain : 1;
    const struct wf_kernel_call *k = &steps->call[which];

    if (steps->chain)
        run_chain(steps, n, rows);
    else
        k->run(k, steps->to, steps->from, &steps->scalars);
    for (int i = 0; i < n; i++) go_on(&steps[i], rows);
    return n;
}

/* Before step s of a tile: a part of what the next tile reads, if that is a whole one too. A step
 * that has run in this tile stands at the next already. */
static void ask_for_next(const struct wf_fused *fused, int s, int parts)
{
    for (int a = 0; a < fused->n_ahead; a++) {
        const struct ahead *ahead = &fused->ahead[a];
        const struct wf_tile_step *reader = &fused->steps[ahead->step];
        int64_t part = (ahead->bytes / fused->n + FUSED_LINE - 1) / FUSED_LINE * FUSED_LINE,
                first = s * part, end = (s + parts) * part;
        const char *next = reader->from[ahead->in];

        if (ahead->step >= s) next += reader->in_step[ahead->in];
        if (first >= ahead->bytes) continue;
        if (end > ahead->bytes) end = ahead->bytes;
        wf_prefetch(next + first, end - first);
    }
}

void wf_fused_run(const struct wf_op_list *list, const struct wf_list_node *node,
                  const struct wf_program_run *run)
{
    struct wf_fused *fused = node->fused;

    (void)list;
    for (int s = 0; s < fused->n; s++) begin_step(&fused->steps[s], run);
    for (int64_t row = 0; row < fused->rows; row += fused->tile) {
        bool whole = row + fused->tile <= fused->rows, next = row + 2 * fused->tile <= fused->rows;

        for (int s = 0; s < fused->n;) {
            struct wf_tile_step *step = &fused->steps[s];

            if (next) ask_for_next(fused, s, step->chain ? step->chain : 1);
            s += run_steps(step, whole ? FUSED_WHOLE : FUSED_REST,
                           whole ? fused->tile : fused->rows - row);
        }
    }
    if (fused->any_long) wf_stream_end();
}

/* ---- what others ask ---- */

void wf_fused_visit_storages(const struct wf_fused *fused, wf_storage_visitor *visit, void *payload)
{
    for (int i = 0; i < fused->n_outside; i++)
        visit(fused->outside[i].storage, fused->outside[i].write, payload);
}

void wf_fused_print(const struct wf_fused *fused, char *text, size_t bytes)
{
    size_t at = (size_t)snprintf(text, bytes, "fused:");

    for (int s = 0; s < fused->n && at < bytes; s++)
        at += (size_t)snprintf(text + at, bytes - at, " %s", fused->steps[s].of.plan->name);
}
