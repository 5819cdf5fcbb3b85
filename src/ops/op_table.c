/* op_table.c: ops.def as a table, and the rules' text form. */
#include "ops/op_table.h"

#include <ctype.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/op_functions.h"

#define NONE 0u
#define SET1(a) ((uint32_t)(a))
#define SET2(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)
#define ADDEND(mask) ((uint32_t)(mask) << WF_ADDEND_SHIFT)
#define ANY_REDUCE ((uint32_t)WF_ANY_REDUCE)
#define OF_FLOATS ((uint32_t)WF_FLOATS_ONLY)
#define BOXES ((uint32_t)WF_BOXES_ONLY)
#define RISING ((uint32_t)WF_RISING)
#define COMPLEX WF_TAKES_COMPLEX
#define CONVERTS ((uint32_t)WF_CONVERTS)
#define ONLY(reduce) ((uint32_t)((reduce)-WEFT_AVG) << WF_ONLY_SHIFT)
#define RISES (SET1(1) | RISING)
#define SUM WEFT_SUM
#define PRODUCT WEFT_PRODUCT
#define MIN WEFT_MIN
#define NORM WEFT_NORM
#define MAX WEFT_MAX
#define MASKED WEFT_MASKED
#define I0 1u
#define I1 2u
#define I2 4u
#define I3 8u
#define I4 16u
#define O0 (1u << 8)
#define O1 (1u << 9)
#define O2 (1u << 10)
#define ALL_SAVED 0xfffu
#define SAVED_INDICES 0xfeu /* all inputs but the first */

/* A rule column is text, FN(f) or PLANNER(f), a kernel column a name or FN(f); each becomes two
 * fields. */
#define FN(f) NULL, .rule = wf_##f
#define WF_KERNEL_FN(f) WF_KERNEL_COUNT, .prepare = wf_##f
#define PLANNER(f) NULL, .planner = wf_##f
/* The linear column of ops whose operands are promoted. */
#define PROMOTES(to, linear) linear, .promotes = WF_PROMOTES_##to
#define wf_NULL NULL /* a column without function */

const struct wf_op_row wf_ops[WF_OP_COUNT] = {
#define WF_OP(id, attrs_, in, req, outs, rule_, linear_, reduce_, shape_, kernel_, saves_, vjp_)   \
    [WF_OP_##id] = {.name = #id,                                                                   \
                    .attrs = WF_ATTRS_##attrs_,                                                    \
                    .n_in = in,                                                                    \
                    .n_required = req,                                                             \
                    .n_out = outs,                                                                 \
                    .rule_text = rule_,                                                            \
                    .linear = linear_,                                                             \
                    .reduce = reduce_,                                                             \
                    .shape = wf_##shape_,                                                          \
                    .kernel = WF_KERNEL_##kernel_,                                                 \
                    .saves = saves_,                                                               \
                    .vjp = wf_##vjp_},
#define WF_VIEW(id, attrs_, rule_, linear_, shape_, view_, planner_, vjp_)                         \
    [WF_OP_##id] = {.name = #id,                                                                   \
                    .attrs = WF_ATTRS_##attrs_,                                                    \
                    .n_in = 1,                                                                     \
                    .n_required = 1,                                                               \
                    .n_out = 1,                                                                    \
                    .rule_text = rule_,                                                            \
                    .linear = linear_,                                                             \
                    .reduce = WEFT_SUM,                                                            \
                    .shape = wf_##shape_,                                                          \
                    .kernel = WF_KERNEL_COUNT,                                                     \
                    .view = wf_##view_,                                                            \
                    .planner = wf_##planner_,                                                      \
                    .vjp = wf_##vjp_},
#include "ops/ops.def"
#undef WF_OP
#undef WF_VIEW
};

enum { FIRST_STAR_LABEL = 27, LETTERS = 26 };

/* Number of letters in one operand's term, without the star. */
static int count_letters(const char *term)
{
    int n = 0;

    for (; *term && *term != ',' && *term != '-'; term++) n += *term != '*';
    return n;
}

/*
 * Labels of one operand. Star dims are numbered from the right of the result's star group, so
 * operands align as broadcasting does; a dim of size 1 that stands for more carries no label.
 */
static const char *label_operand_dims(const char *term, const int64_t *size, int ndim,
                                      const int64_t *star_size, int8_t *labels)
{
    int stars = ndim - count_letters(term), d = 0;

    for (; *term && *term != ',' && *term != '-'; term++) {
        if (*term != '*') {
            if (ndim >= 0)
                labels[d++] = islower((unsigned char)*term) ? (int8_t)(*term - 'a' + 1) : 0;
            continue;
        }
        for (int s = 0; s < stars; s++, d++) {
            int from_right = stars - 1 - s;

            labels[d] =
                size[d] == star_size[from_right] ? (int8_t)(FIRST_STAR_LABEL + from_right) : 0;
        }
    }
    return *term == ',' ? term + 1 : term;
}

/* The result's star group, sizes from the right: the largest operand size in each place. */
static void broadcast_star_sizes(const struct wf_infer *call, const char *text, int64_t *size)
{
    for (int i = 0; i < WEFT_MAX_DIMS; i++) size[i] = 1;
    for (int i = 0; i < call->n_in; i++) {
        const char *star = text;
        int stars, before = 0;

        for (; *star && *star != ',' && *star != '-' && *star != '*'; star++) before++;
        if (*star == '*' && call->in[i]) {
            stars = call->in[i]->desc.ndim - count_letters(text);
            for (int s = 0; s < stars; s++) {
                int64_t n = call->in[i]->desc.global[before + s], *most = &size[stars - 1 - s];

                if (n != 1) *most = n;
            }
        }
        while (*text && *text != ',' && *text != '-') text++;
        if (*text == ',') text++;
    }
}

static void label_dims_from_text(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    const char *text = call->row->rule_text;
    int64_t star[WEFT_MAX_DIMS];

    broadcast_star_sizes(call, text, star);
    for (int i = 0; i < call->row->n_in && *text != '-'; i++) {
        const struct wf_layout *in = i < call->n_in ? call->in[i] : NULL;

        text = label_operand_dims(text, in ? in->desc.global : NULL, in ? in->desc.ndim : -1, star,
                                  labels->in[i]);
    }
    text += 2; /* "->" */
    for (int j = 0; j < call->n_out; j++)
        text =
            label_operand_dims(text, call->out[j].shape, call->out[j].ndim, star, labels->out[j]);
    labels->count = FIRST_STAR_LABEL + WEFT_MAX_DIMS - 1;
}

void wf_label_dims(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    memset(labels, 0, sizeof *labels);
    if (call->row->rule)
        call->row->rule(call, labels);
    else
        label_dims_from_text(call, labels);
}

bool wf_label_needs_contiguous_shards(const struct wf_infer *call, int label)
{
    bool of_star = call->row->rule_text && label >= FIRST_STAR_LABEL;

    return call->row->linear & (uint32_t)WF_BOXES_ONLY && !of_star;
}

/* Products with numbers and quotients say so where their operand is partial. */
static bool has_nonnegative_factor(const struct wf_infer *call)
{
    return call->row->attrs == WF_ATTRS_none && call->attr_words > 0;
}

bool wf_op_passes_partial(const struct wf_infer *call, weft_reduce reduce)
{
    uint32_t linear = call->row->linear;
    weft_dtype dtype = call->out[0].dtype;
    uint32_t only = linear >> WF_ONLY_SHIFT & WF_MAX_ONLY;
    bool has_extremes = wf_dtype_can_reduce(dtype, WEFT_MAX);

    if (linear & (uint32_t)WF_FLOATS_ONLY && !weft_dtype_is_float(dtype)) return false;
    if (linear & (uint32_t)WF_RISING)
        return (reduce == WEFT_MAX || reduce == WEFT_MIN) && has_extremes;
    if (only) return reduce == (weft_reduce)(WEFT_AVG + only) && has_extremes;
    if (reduce == WEFT_NORM && has_nonnegative_factor(call)) return true;
    return linear & (uint32_t)WF_ANY_REDUCE || reduce == WEFT_SUM || reduce == WEFT_AVG ||
           reduce == WEFT_MASKED;
}
