/*
 * index_of.c: where in the whole tensor the first element stands that equals a value.
 *
 *   x, values  ->  index of i64: x's shape without the dims of reduce.dims, or with them at size 1
 *
 * values: one per output, of x's dtype, such as the maximum along these dims. The index is that of
 * the dim, and of several dims the row-major one over them, counted over the whole tensor, of which
 * this rank may have any part; where no element equals, it is INT64_MAX, so that the least index
 * over all ranks is the answer.
 *
 * The reduced dims are walked in order. Where x has stride 1 along a kept dim, all outputs along it
 * are looked after at once (columns); elsewhere one output at a time, until its element is found.
 */
#include "kernels/cpu/reductions/index_of.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/loop_nest.h"

enum { BLOCK = 256, X = 0, Y = 1 };

/* A reduced dim. */
struct place {
    int64_t size, step; /* bytes in x */
    int64_t weight;     /* what one index counts in the result */
    int64_t *index;     /* the global index of each local one */
};

struct index_of {
    struct wf_index_of_loops loops;
    struct wf_loop_nest kept;
    struct wf_loop_dim columns; /* of size 0: there are none, and lines are searched */
    struct wf_operand values;
    int n_places; /* at least 1; the last one is the inner dim of lines */
    struct place place[WEFT_MAX_DIMS];
    int64_t bytes;
    bool empty;
    int64_t *room; /* of all the places' indexes */
};

static void free_index_of(void *prep)
{
    struct index_of *p = prep;

    wf_operand_free(&p->values);
    wf_scratch_release();
    wf_free(p->room);
    wf_free(p);
}

/* The next index of the first n places, in row-major order; `at` follows in x. false: that was the
 * last. */
static bool next_place(const struct index_of *p, int n, int64_t *local, const char **at)
{
    for (int d = n - 1; d >= 0; d--) {
        *at += p->place[d].step;
        if (++local[d] < p->place[d].size) return true;
        *at -= p->place[d].step * p->place[d].size;
        local[d] = 0;
    }
    return false;
}

/* What the first n places add to the result. */
static int64_t number_of_place(const struct index_of *p, int n, const int64_t *local)
{
    int64_t number = 0;

    for (int d = 0; d < n; d++) number += p->place[d].index[local[d]] * p->place[d].weight;
    return number;
}

static int64_t find_along_line(const struct index_of *p, const char *x, const void *value)
{
    const struct place *line = &p->place[p->n_places - 1];
    uint64_t buffer[BLOCK];

    if (line->step == p->bytes || line->size == 1) return p->loops.line(line->size, x, value);
    for (int64_t i = 0; i < line->size; i += BLOCK) {
        int64_t n = line->size - i < BLOCK ? line->size - i : BLOCK, found;

        wf_gather_strided(buffer, x + i * line->step, n, line->step / p->bytes, p->bytes);
        found = p->loops.line(n, buffer, value);
        if (found >= 0) return i + found;
    }
    return -1;
}

static int64_t index_of_value(const struct index_of *p, const char *x, const void *value)
{
    const struct place *line = &p->place[p->n_places - 1];
    int64_t local[WEFT_MAX_DIMS] = {0};

    do {
        int64_t found = find_along_line(p, x, value);

        if (found >= 0)
            return number_of_place(p, p->n_places - 1, local) + line->index[found] * line->weight;
    } while (next_place(p, p->n_places - 1, local, &x));
    return INT64_MAX;
}

static void run_lines(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                      const struct wf_scalars *scalars)
{
    const struct index_of *p = k->prep;
    const char *values = wf_operand_copy_if_needed(&p->values, in[1], wf_scratch_buffer());
    struct wf_loop_walk kept = {.at = {in[0], out[0]}};

    (void)scalars;
    do {
        int64_t y = (kept.at[Y] - (char *)out[0]) / p->bytes;

        ((int64_t *)out[0])[y] =
            p->empty ? INT64_MAX : index_of_value(p, kept.at[X], values + y * p->bytes);
    } while (wf_loop_walk_next(&p->kept, &kept));
}

static void run_columns(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct index_of *p = k->prep;
    const char *values = wf_operand_copy_if_needed(&p->values, in[1], wf_scratch_buffer());
    struct wf_loop_walk kept = {.at = {in[0], out[0]}};

    (void)scalars;
    do {
        int64_t y = (kept.at[Y] - (char *)out[0]) / p->bytes, local[WEFT_MAX_DIMS] = {0};
        int64_t *index = (int64_t *)out[0] + y;
        const char *x = kept.at[X];

        for (int64_t j = 0; j < p->columns.size; j++) index[j] = INT64_MAX;
        do {
            if (!p->empty)
                p->loops.columns(p->columns.size, x, values + y * p->bytes,
                                 number_of_place(p, p->n_places, local), index);
        } while (!p->empty && next_place(p, p->n_places, local, &x));
    } while (wf_loop_walk_next(&p->kept, &kept));
}

static void fill_global_indexes(int64_t *index, const struct wf_tensor_desc *x, int d)
{
    int64_t n = 0;

    if (!x->runs) {
        for (int64_t i = 0; i < x->shape[d]; i++) index[i] = x->offset[d] + i;
        return;
    }
    for (int64_t r = 0; r < x->runs->count[d]; r++)
        for (int64_t i = 0; i < x->runs->of[d][r].size; i++)
            index[n++] = x->runs->of[d][r].offset + i;
}

static void list_places(struct index_of *p, const struct wf_tensor_desc *x, uint32_t dims)
{
    int64_t weight = 1, total = 1, *room;

    for (int d = 0; d < x->ndim; d++) total += dims >> d & 1 ? x->shape[d] : 0;
    p->room = room = wf_malloc((size_t)total * sizeof *room);
    for (int d = 0; d < x->ndim; d++) {
        if (!(dims >> d & 1)) continue;
        p->place[p->n_places++] = (struct place){x->shape[d], x->stride[d] * p->bytes, 0, room};
        fill_global_indexes(room, x, d);
        room += x->shape[d];
        p->empty |= x->shape[d] == 0;
    }
    for (int d = x->ndim - 1, at = p->n_places - 1; d >= 0; d--) {
        if (!(dims >> d & 1)) continue;
        p->place[at--].weight = weight;
        weight *= x->global[d];
    }
    if (p->n_places > 0) return;
    *room = 0; /* over no dim the element itself is the first */
    p->place[p->n_places++] = (struct place){1, p->bytes, 1, room};
}

weft_status wf_cpu_index_of(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct index_of *p;
    int inner;

    if (!WF_ISA_PICK(wf_index_ofs)->of[x->dtype].line) return wf_fail_no_kernel(k, x->dtype);
    if (k->in[1]->dtype != x->dtype) return wf_fail_no_kernel(k, k->in[1]->dtype);
    k->prep = p = WF_NEW(struct index_of);
    k->drop = free_index_of;
    p->loops = WF_ISA_PICK(wf_index_ofs)->of[x->dtype];
    p->bytes = wf_dtypes[x->dtype].size;
    wf_operand_prepare_dense(&p->values, k->in[1]);
    wf_scratch_reserve(p->values.scratch);
    list_places(p, x, k->attrs->reduce.dims);
    wf_loop_nest_of_dims(&p->kept, x, k->attrs->reduce.dims, false);
    inner = p->kept.n_dims - 1;
    k->run = k->out[0]->numel == 0 ? wf_kernel_run_noop : run_lines;
    if (k->out[0]->numel == 0 || inner < 0 || p->kept.dim[inner].step[X] != p->bytes)
        return WEFT_OK;
    p->columns =
        wf_loop_nest_remove_dim(&p->kept, inner); /* the last kept dim: y's are dense too */
    k->run = run_columns;
    return WEFT_OK;
}
