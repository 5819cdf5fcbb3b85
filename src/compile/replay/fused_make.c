/* fused_make.c: the kernels of a tile, prepared for its rows; places for what is only between them;
 * what is asked for ahead, stored past the cache, or kept in registers. */
#include "base/elements/dtype.h"
#include "base/mem.h"
#include "compile/replay/fused_steps.h"
#include "dtensor/dispatch/plan_cache.h"
#include "kernels/device_kernels.h"

enum {
    TILE_BYTES = 32 << 10, /* of all operands of a tile: they stay in the first cache */
    LONG_BYTES = 8 << 20,  /* a result so long is out of the cache when it is read */
    TILE_ROWS = 64,        /* a multiple of this: loops end alike in every tile */
    MOST_ARRAYS = 8 /* that a chain of formulas reads, and that it stores (kernels/cpu/isa) */
};

struct slot {
    int storage; /* -1: free */
    int64_t row_bytes, offset;
};

/* ---- operands of a tile ---- */

static void set_shape(struct wf_tensor_desc *desc, int64_t *shape, int ndim)
{
    desc->ndim = (int8_t)ndim;
    desc->contiguous = true;
    desc->numel = wf_row_major_strides(desc->stride, shape, ndim);
    for (int d = 0; d < ndim; d++) {
        desc->shape[d] = desc->global[d] = shape[d];
        desc->offset[d] = 0;
    }
    desc->runs = NULL;
}

/* The leading dims, of `rows` elements together, become one of `tile`. */
static void cut_rows(struct wf_tensor_desc *desc, int64_t rows, int64_t tile)
{
    int64_t shape[WEFT_MAX_DIMS] = {0}, before = 1;
    int d = 0;

    while (d < desc->ndim - 1 && before * desc->shape[d] != rows) before *= desc->shape[d++];
    for (int i = 0; i < desc->ndim; i++) shape[i] = i < d ? 1 : i == d ? tile : desc->shape[i];
    set_shape(desc, shape, desc->ndim);
}

static void make_desc(struct wf_tensor_desc *desc, const struct wf_tensor_desc *whole,
                      const struct wf_fused_operand *operand, bool flat, int64_t rows, int64_t tile)
{
    int64_t elements = operand->row_bytes / (int64_t)wf_dtypes[whole->dtype].size * tile;

    *desc = *whole;
    if (operand->row_bytes && flat)
        set_shape(desc, &elements, 1);
    else if (operand->row_bytes)
        cut_rows(desc, rows, tile);
    else if (flat)
        set_shape(desc, NULL, 0); /* one element */
}

static weft_status prepare_call(struct wf_tile_step *step, int which, int64_t rows, int64_t tile)
{
    const struct wf_op_plan *plan = step->of.plan;
    struct wf_kernel_call *k = &step->call[which];
    struct wf_tensor_desc *desc;

    *k = (struct wf_kernel_call){.op = plan->name,
                                 .n_in = plan->kernel.n_in,
                                 .n_out = plan->kernel.n_out,
                                 .attrs = &plan->attrs};
    step->descs[which] = desc = wf_malloc((size_t)(k->n_in + k->n_out) * sizeof *desc);
    for (int i = 0; i < k->n_in; i++, desc++) {
        if (!plan->kernel.in[i]) continue;
        make_desc(desc, plan->kernel.in[i], &step->of.in[i], step->of.flat, rows, tile);
        k->in[i] = desc;
    }
    for (int j = 0; j < k->n_out; j++, desc++) {
        if (!plan->kernel.out[j]) continue;
        make_desc(desc, plan->kernel.out[j], &step->of.out[j], step->of.flat, rows, tile);
        k->out[j] = desc;
    }
    return wf_prepare_kernel_on(WEFT_CPU, wf_ops[plan->op].kernel, k);
}

/* ---- the size of a tile ---- */

/* Bytes that all operands have in a row; one that several steps use counts once. */
static int64_t bytes_of_row(const struct wf_fused *fused)
{
    int64_t bytes = 0;
    int seen[1024], n = 0;

    for (int s = 0; s < fused->n; s++) {
        const struct wf_fused_step *step = &fused->steps[s].of;

        for (int k = 0; k < WF_MAX_IN + WF_MAX_OUT; k++) {
            const struct wf_fused_operand *o =
                k < WF_MAX_IN ? &step->in[k] : &step->out[k - WF_MAX_IN];
            bool again = o->storage < 0;

            for (int i = 0; i < n && !again; i++) again = seen[i] == o->storage;
            if (again || n == 1024) continue;
            seen[n++] = o->storage;
            bytes += o->row_bytes;
        }
    }
    return bytes ? bytes : 1;
}

static int64_t rows_of_tile(const struct wf_fused *fused)
{
    int64_t tile = TILE_BYTES / bytes_of_row(fused);

    tile = tile / TILE_ROWS * TILE_ROWS;
    if (tile < TILE_ROWS) tile = TILE_ROWS;
    return tile < fused->rows ? tile : fused->rows;
}

/* ---- places for what is only between steps ---- */

struct slots {
    struct slot *items;
    int n;
    int64_t bytes;
};

static struct slot *find_slot(const struct slots *slots, int storage)
{
    for (int i = 0; i < slots->n; i++)
        if (slots->items[i].storage == storage) return &slots->items[i];
    return NULL;
}

/* A free one of this size, or a new one. */
static struct slot *take_slot(struct slots *slots, int storage, int64_t row_bytes, int64_t tile)
{
    struct slot *slot = NULL;

    for (int i = 0; i < slots->n && !slot; i++)
        if (slots->items[i].storage < 0 && slots->items[i].row_bytes == row_bytes)
            slot = &slots->items[i];
    if (!slot) {
        slot = &slots->items[slots->n++];
        *slot = (struct slot){.row_bytes = row_bytes, .offset = slots->bytes};
        slots->bytes += (row_bytes * tile + FUSED_LINE - 1) / FUSED_LINE * FUSED_LINE;
    }
    slot->storage = storage;
    return slot;
}

static bool is_used_later(const struct wf_fused *fused, int step, int storage)
{
    for (int s = step + 1; s < fused->n; s++)
        for (int i = 0; i < WF_MAX_IN; i++)
            if (fused->steps[s].of.in[i].storage == storage) return true;
    return false;
}

static size_t size_of_in(const struct wf_fused_step *step, int i)
{
    return wf_dtypes[step->plan->kernel.in[i]->dtype].size;
}

static size_t size_of_out(const struct wf_fused_step *step, int j)
{
    return wf_dtypes[step->plan->kernel.out[j]->dtype].size;
}

/* A formula's result may lie where an operand is that nobody reads after it. */
static bool take_over(const struct wf_fused *fused, struct slots *slots, int step, int j)
{
    const struct wf_fused_step *of = &fused->steps[step].of;
    const struct wf_fused_operand *out = &of->out[j];

    if (!of->flat) return false;
    for (int i = 0; i < WF_MAX_IN; i++) {
        const struct wf_fused_operand *in = &of->in[i];
        struct slot *slot;

        if (in->storage < 0 || !in->inner || in->row_bytes != out->row_bytes ||
            size_of_in(of, i) != size_of_out(of, j) || is_used_later(fused, step, in->storage))
            continue;
        slot = find_slot(slots, in->storage);
        if (!slot) continue;
        slot->storage = out->storage;
        return true;
    }
    return false;
}

static void release_after(const struct wf_fused *fused, struct slots *slots, int step)
{
    for (int i = 0; i < slots->n; i++)
        if (slots->items[i].storage >= 0 && !is_used_later(fused, step, slots->items[i].storage))
            slots->items[i].storage = -1;
}

static bool has_scratch(const struct wf_tile_step *step, int j)
{
    return step->of.out[j].storage >= 0 && (step->of.out[j].inner || step->is_long[j]);
}

static void place_scratch(struct wf_fused *fused)
{
    struct slots slots = {wf_calloc((size_t)fused->n * WF_MAX_OUT + 1, sizeof *slots.items), 0, 0};
    int64_t *of_in = wf_calloc((size_t)fused->n * WF_MAX_IN + 1, sizeof *of_in);
    int64_t *of_out = wf_calloc((size_t)fused->n * WF_MAX_OUT + 1, sizeof *of_out);
    char *at;

    for (int s = 0; s < fused->n; s++) {
        const struct wf_fused_step *step = &fused->steps[s].of;

        for (int i = 0; i < WF_MAX_IN; i++)
            if (step->in[i].storage >= 0 && step->in[i].inner)
                of_in[s * WF_MAX_IN + i] = find_slot(&slots, step->in[i].storage)->offset;
        for (int j = 0; j < WF_MAX_OUT; j++)
            if (has_scratch(&fused->steps[s], j)) {
                if (!take_over(fused, &slots, s, j))
                    take_slot(&slots, step->out[j].storage, step->out[j].row_bytes, fused->tile);
                of_out[s * WF_MAX_OUT + j] = find_slot(&slots, step->out[j].storage)->offset;
            }
        release_after(fused, &slots, s);
    }
    fused->scratch_bytes = slots.bytes;
    fused->scratch = wf_malloc((size_t)slots.bytes + FUSED_LINE);
    at = fused->scratch + (FUSED_LINE - (uintptr_t)fused->scratch % FUSED_LINE) % FUSED_LINE;
    for (int s = 0; s < fused->n; s++) {
        struct wf_tile_step *step = &fused->steps[s];

        for (int i = 0; i < WF_MAX_IN; i++)
            step->in_scratch[i] = step->of.in[i].inner ? at + of_in[s * WF_MAX_IN + i] : NULL;
        for (int j = 0; j < WF_MAX_OUT; j++)
            step->out_scratch[j] = has_scratch(step, j) ? at + of_out[s * WF_MAX_OUT + j] : NULL;
    }
    wf_free(slots.items);
    wf_free(of_in);
    wf_free(of_out);
}

/* ---- making ---- */

static void set_steps(struct wf_tile_step *step, int64_t tile)
{
    for (int i = 0; i < WF_MAX_IN; i++)
        step->in_step[i] = step->of.in[i].inner ? 0 : step->of.in[i].row_bytes * tile;
    for (int j = 0; j < WF_MAX_OUT; j++)
        step->out_step[j] = step->of.out[j].inner ? 0 : step->of.out[j].row_bytes * tile;
}

static bool is_written_before(const struct wf_fused *fused, int step, int storage)
{
    for (int s = 0; s < step; s++)
        for (int j = 0; j < WF_MAX_OUT; j++)
            if (fused->steps[s].of.out[j].storage == storage) return true;
    return false;
}

/* No later step may look for a long result where it will be. */
static void find_long_results(struct wf_fused *fused)
{
    for (int s = 0; s < fused->n; s++)
        for (int j = 0; j < WF_MAX_OUT; j++) {
            struct wf_tile_step *step = &fused->steps[s];
            const struct wf_fused_operand *o = &step->of.out[j];

            step->is_long[j] = o->storage >= 0 && !o->inner &&
                               o->row_bytes * fused->rows >= LONG_BYTES &&
                               !is_used_later(fused, s, o->storage);
            fused->any_long |= step->is_long[j];
        }
}

/* What comes from outside, each once, and from the second tile on. */
static void find_operands_to_prefetch(struct wf_fused *fused)
{
    fused->ahead = wf_calloc((size_t)fused->n * WF_MAX_IN + 1, sizeof *fused->ahead);
    for (int s = 0; s < fused->n; s++)
        for (int i = 0; i < WF_MAX_IN; i++) {
            const struct wf_fused_operand *o = &fused->steps[s].of.in[i];
            bool again = o->storage < 0 || o->inner || !o->row_bytes ||
                         is_written_before(fused, s, o->storage);

            for (int k = 0; k < fused->n_ahead && !again; k++)
                again = fused->steps[fused->ahead[k].step].of.in[fused->ahead[k].in].storage ==
                        o->storage;
            if (!again)
                fused->ahead[fused->n_ahead++] = (struct ahead){s, i, o->row_bytes * fused->tile};
        }
}

/* ---- chains of formulas ---- */

static bool is_f32_run(const struct wf_fused_operand *o, const struct wf_tensor_desc *desc)
{
    return o->storage >= 0 && o->row_bytes > 0 && desc && desc->dtype == WEFT_F32;
}

/* The step can go on from a value that is its operand `value`. */
static bool can_go_on(struct wf_tile_step *step, int value)
{
    const struct wf_fused_step *of = &step->of;
    const struct wf_kernel_call *k = &of->plan->kernel;
    bool both = k->n_in == 2 && of->in[0].storage == of->in[1].storage;

    step->code = WF_CHAIN_NONE;
    step->other = -1;
    if (!of->flat || k->n_in < 1 || k->n_in > 2 || k->n_out != 1 ||
        !is_f32_run(&of->out[0], k->out[0]) || !is_f32_run(&of->in[value], k->in[value]))
        return false;
    if (k->n_in == 2 && !both) step->other = 1 - value;
    if (step->other >= 0 && !is_f32_run(&of->in[step->other], k->in[step->other])) return false;
    step->code = wf_chain_code_of(wf_ops[of->plan->op].kernel, value, both);
    return step->code != WF_CHAIN_NONE;
}

static bool is_written_between(const struct wf_fused *fused, int first, int last, int storage)
{
    for (int s = first; s < last; s++)
        if (fused->steps[s].of.out[0].storage == storage) return true;
    return false;
}

/* One more step: it takes the value of the one before, and nothing else of the chain. */
static bool joins_chain(struct wf_fused *fused, int first, int s)
{
    struct wf_tile_step *step = &fused->steps[s];
    int before = fused->steps[s - 1].of.out[0].storage, other;

    for (int value = 0; value < 2; value++) {
        if (step->of.in[value].storage != before || !can_go_on(step, value)) continue;
        other = step->other < 0 ? -1 : step->of.in[step->other].storage;
        return other < 0 || !is_written_between(fused, first, s, other);
    }
    return false;
}

static void find_chains(struct wf_fused *fused)
{
    for (int first = 0, end; first < fused->n; first = end) {
        int arrays = 0, stores = 0;

        end = first + 1;
        if (!can_go_on(&fused->steps[first], 0)) continue;
        arrays += fused->steps[first].other >= 0;
        while (end < fused->n && joins_chain(fused, first, end) &&
               arrays + (fused->steps[end].other >= 0) <= MOST_ARRAYS &&
               stores + 2 <= MOST_ARRAYS && end - first < FUSED_CHAIN) {
            struct wf_tile_step *before = &fused->steps[end - 1];

            before->stores =
                !before->of.out[0].inner || is_used_later(fused, end, before->of.out[0].storage);
            stores += before->stores;
            arrays += fused->steps[end++].other >= 0;
        }
        fused->steps[end - 1].stores = end - first > 1;
        fused->steps[first].chain = end - first > 1 ? end - first : 0;
    }
}

static void note_outside(struct wf_fused *fused, int storage, bool write)
{
    for (int i = 0; i < fused->n_outside; i++)
        if (fused->outside[i].storage == storage && fused->outside[i].write == write) return;
    fused->outside[fused->n_outside++] = (struct outside){storage, write};
}

static void find_outside(struct wf_fused *fused)
{
    fused->outside =
        wf_calloc((size_t)fused->n * (WF_MAX_IN + WF_MAX_OUT) + 1, sizeof *fused->outside);
    for (int s = 0; s < fused->n; s++)
        for (int i = 0; i < WF_MAX_IN; i++) {
            const struct wf_fused_operand *o = &fused->steps[s].of.in[i];

            if (o->storage >= 0 && !is_written_before(fused, s, o->storage))
                note_outside(fused, o->storage, false);
        }
    for (int s = 0; s < fused->n; s++)
        for (int j = 0; j < WF_MAX_OUT; j++) {
            const struct wf_fused_operand *o = &fused->steps[s].of.out[j];

            if (o->storage >= 0 && !o->inner) note_outside(fused, o->storage, true);
        }
}

struct wf_fused *wf_fused_new(const struct wf_fused_step *steps, int n, int64_t rows)
{
    struct wf_fused *fused = WF_NEW(struct wf_fused);
    weft_status status = WEFT_OK;

    fused->steps = wf_calloc((size_t)n, sizeof *fused->steps);
    fused->n = n;
    fused->rows = rows;
    for (int s = 0; s < n; s++) {
        fused->steps[s].of = steps[s];
        fused->steps[s].scalars = *steps[s].scalars;
        fused->steps[s].of.plan->refs++;
    }
    fused->tile = rows_of_tile(fused);
    for (int s = 0; s < n && status == WEFT_OK; s++) {
        set_steps(&fused->steps[s], fused->tile);
        status = prepare_call(&fused->steps[s], FUSED_WHOLE, rows, fused->tile);
        if (status == WEFT_OK && rows % fused->tile)
            status = prepare_call(&fused->steps[s], FUSED_REST, rows, rows % fused->tile);
    }
    if (status == WEFT_OK) {
        find_long_results(fused);
        find_operands_to_prefetch(fused);
        find_outside(fused);
        find_chains(fused);
        place_scratch(fused);
        return fused;
    }
    weft_error_clear();
    wf_fused_free(fused);
    return NULL;
}

void wf_fused_free(struct wf_fused *fused)
{
    if (!fused) return;
    for (int s = 0; s < fused->n; s++) {
        wf_kernel_call_drop(&fused->steps[s].call[FUSED_WHOLE]);
        wf_kernel_call_drop(&fused->steps[s].call[FUSED_REST]);
        wf_free(fused->steps[s].descs[FUSED_WHOLE]);
        wf_free(fused->steps[s].descs[FUSED_REST]);
        wf_op_plan_release(fused->steps[s].of.plan);
    }
    wf_free(fused->steps);
    wf_free(fused->ahead);
    wf_free(fused->outside);
    wf_free(fused->scratch);
    wf_free(fused);
}

int64_t wf_fused_scratch(const struct wf_fused *fused) { return fused->scratch_bytes; }
