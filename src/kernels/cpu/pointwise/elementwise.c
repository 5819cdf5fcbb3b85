/* elementwise.c: the walk over lines, the gathering of strided operands, and lines of another type.
 */
#include "kernels/cpu/pointwise/elementwise.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"

enum { BLOCK = 256, MAX_LINE_INPUTS = 3 };

struct lines {
    wf_elementwise_loop *line;
    int64_t n;                       /* elements of a line */
    struct wf_loop_nest nest;        /* of lines; operand 0 is the output */
    int64_t stride[WF_MAX_OPERANDS]; /* along a line, in elements */
    bool gathered[WF_MAX_OPERANDS], one[WF_MAX_OPERANDS];
    int64_t bytes[WF_MAX_OPERANDS];
    struct wf_computed_in wide; /* as what `line` computes; NULL: as the elements are */
};

weft_status wf_fail_no_kernel(const struct wf_kernel_call *k, uint8_t dtype)
{
    return WF_FAIL(WEFT_ERR_DTYPE, "%s: no CPU kernel for %s", k->op, wf_dtypes[dtype].name);
}

#define GATHER(type)                                                                               \
    do {                                                                                           \
        type *to_ = to;                                                                            \
        const type *from_ = from;                                                                  \
                                                                                                   \
        for (int64_t i = 0; i < n; i++) to_[i] = from_[i * stride];                                \
    } while (0)

#define REPEAT(type)                                                                               \
    do {                                                                                           \
        type *to_ = to;                                                                            \
        const type value = *(const type *)from;                                                    \
                                                                                                   \
        for (int64_t i = 0; i < n; i++) to_[i] = value;                                            \
    } while (0)

static void repeat_element(void *to, const void *from, int64_t n, int64_t bytes)
{
    if (bytes == 4)
        REPEAT(uint32_t);
    else if (bytes == 8)
        REPEAT(uint64_t);
    else if (bytes == 2)
        REPEAT(uint16_t);
    else
        memset(to, *(const uint8_t *)from, (size_t)n);
}

void wf_gather_strided(void *to, const void *from, int64_t n, int64_t stride, int64_t bytes)
{
    if (stride == 1)
        memcpy(to, from, (size_t)(n * bytes));
    else if (stride == 0)
        repeat_element(to, from, n, bytes);
    else if (bytes == 4)
        GATHER(uint32_t);
    else if (bytes == 8)
        GATHER(uint64_t);
    else if (bytes == 2)
        GATHER(uint16_t);
    else
        GATHER(uint8_t);
}

void wf_kernel_run_noop(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    (void)k, (void)out, (void)in, (void)scalars;
}

static void run_one_line(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    const struct lines *p = k->prep;

    p->line(p->n, out[0], in, scalars);
}

static struct wf_loop_walk start_walk(const struct lines *p, void *const *out,
                                      const void *const *in)
{
    struct wf_loop_walk walk = {.at = {out[0]}};

    for (int i = 1; i < p->nest.n_operands; i++) walk.at[i] = in[i - 1];
    return walk;
}

static void run_lines(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                      const struct wf_scalars *scalars)
{
    const struct lines *p = k->prep;
    struct wf_loop_walk walk = start_walk(p, out, in);
    char *y = out[0];

    do {
        p->line(p->n, y, (const void *const *)(walk.at + 1), scalars);
        y += p->n * p->bytes[0];
    } while (wf_loop_walk_next(&p->nest, &walk));
}

/* Elements of another type than `line` computes: a block is converted, computed and converted back
 * while it is in the first cache. */
static void run_converted_block(const struct lines *p, int64_t n, void *y, const void **x,
                                const struct wf_scalars *scalars)
{
    uint32_t wide[MAX_LINE_INPUTS][BLOCK], made[BLOCK];

    for (int i = 1; i < p->nest.n_operands; i++) {
        p->wide.load(p->one[i] ? 1 : n, wide[i - 1], &x[i - 1], NULL);
        x[i - 1] = wide[i - 1];
    }
    if (!p->wide.store) {
        p->line(n, y, x, scalars);
        return;
    }
    p->line(n, made, x, scalars);
    p->wide.store(n, y, (const void *const[]){made}, NULL);
}

/* One block of all lines before the next block: what a gather across rows pulls into the cache is
 * then used by the following lines. */
static void run_lines_in_blocks(const struct wf_kernel_call *k, void *const *out,
                                const void *const *in, const struct wf_scalars *scalars)
{
    const struct lines *p = k->prep;
    uint64_t buffer[MAX_LINE_INPUTS][BLOCK];
    const void *x[MAX_LINE_INPUTS],
        *repeated[MAX_LINE_INPUTS] = {NULL}; /* what a buffer is full of */

    for (int64_t first = 0; first < p->n; first += BLOCK) {
        int64_t n = p->n - first < BLOCK ? p->n - first : BLOCK;
        struct wf_loop_walk walk = start_walk(p, out, in);
        char *y = (char *)out[0] + first * p->bytes[0];

        do {
            for (int i = 1; i < p->nest.n_operands; i++) {
                int64_t stride = p->stride[i];

                x[i - 1] = walk.at[i] + (p->one[i] ? 0 : first * stride * p->bytes[i]);
                if (!p->gathered[i]) continue;
                if (stride != 0 || repeated[i - 1] != x[i - 1])
                    wf_gather_strided(buffer[i - 1], x[i - 1], n, stride, p->bytes[i]);
                if (stride == 0) repeated[i - 1] = x[i - 1];
                x[i - 1] = buffer[i - 1];
            }
            if (p->wide.load)
                run_converted_block(p, n, y, x, scalars);
            else
                p->line(n, y, x, scalars);
            y += p->n * p->bytes[0];
        } while (wf_loop_walk_next(&p->nest, &walk));
    }
}

/* A repeated element is read as one where the line function has a form for that. */
static enum wf_elementwise_form choose_broadcast_form(struct lines *p, int n_in,
                                                      wf_elementwise_loop *const *forms)
{
    if (p->n == 1) return WF_LINE_FULL;
    if (forms[WF_LINE_LAST_ONE] && p->stride[n_in] == 0)
        return p->one[n_in] = true, WF_LINE_LAST_ONE;
    if (forms[WF_LINE_FIRST_ONE] && p->stride[1] == 0) return p->one[1] = true, WF_LINE_FIRST_ONE;
    return WF_LINE_FULL;
}

weft_status wf_elementwise_prepare(struct wf_kernel_call *k, wf_elementwise_loop *line)
{
    wf_elementwise_loop *const forms[WF_LINE_FORMS] = {line};

    return wf_elementwise_prepare_broadcast(k, forms, (struct wf_computed_in){0});
}

weft_status wf_elementwise_prepare_broadcast(struct wf_kernel_call *k,
                                             wf_elementwise_loop *const forms[WF_LINE_FORMS],
                                             struct wf_computed_in wide)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_operand_strides operands[WF_MAX_OPERANDS];
    struct lines *p = k->prep = WF_NEW(struct lines);
    struct wf_loop_dim line;
    bool blocks = wide.load != NULL;

    operands[0] = wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    for (int i = 0; i < k->n_in; i++)
        operands[i + 1] = wf_strides_broadcast(k->in[i], y->shape, y->ndim);
    wf_loop_nest_make(&p->nest, y->shape, y->ndim, operands, k->n_in + 1);
    line = wf_loop_nest_remove_dim(&p->nest, p->nest.n_dims - 1);
    p->n = line.size;
    for (int i = 0; i <= k->n_in; i++) {
        p->bytes[i] = operands[i].bytes;
        p->stride[i] = line.step[i] / operands[i].bytes;
    }
    p->wide = wide;
    p->line = forms[choose_broadcast_form(p, k->n_in, forms)];
    for (int i = 1; i <= k->n_in; i++) {
        p->gathered[i] = p->stride[i] != 1 && p->n != 1 && !p->one[i];
        blocks |= p->gathered[i];
    }
    k->run = y->numel == 0    ? wf_kernel_run_noop
             : blocks         ? run_lines_in_blocks
             : p->nest.n_dims ? run_lines
                              : run_one_line;
    return WEFT_OK;
}
