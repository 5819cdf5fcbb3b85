/*
 * write_rows.c: the rows of ops.def as docs/reference/ops.md has them, and which strategies hold
 * for their samples though no row has them. The page is put together by ops_page.
 *
 *     write_rows rows      lines "family NAME" and "| op | rule | ... |"
 *     write_rows absent    lines "op: strategy"
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "base/elements/dtype.h"
#include "kernels/device_kernels.h"
#include "kernels/kernels.h"
#include "rules/validator.h"

static bool is_gradient_of_another(const char *name)
{
    size_t n = strlen(name);

    return (n > 5 && strcmp(name + n - 5, "_grad") == 0) || strcmp(name, "linear_dx") == 0 ||
           strcmp(name, "linear_dw") == 0;
}

static const struct wt_op_case *first_sample(enum wf_op op)
{
    for (int i = 0; i < wt_op_case_count; i++)
        if (wt_op_cases[i].op == op) return &wt_op_cases[i];
    return NULL;
}

/* ---- rule ---- */

/* The letter of a label: in the order in which labels appear, X where a dim may not be sharded. */
static char letter_of(int label, int8_t *seen, int *n)
{
    if (label <= 0) return 'X';
    for (int i = 0; i < *n; i++)
        if (seen[i] == label) return (char)('a' + i);
    seen[*n] = (int8_t)label;
    return (char)('a' + (*n)++);
}

static void print_labels(const struct wf_infer *call)
{
    struct wf_dim_labels labels = {0};
    int8_t seen[128];
    int n = 0;

    wf_label_dims(call, &labels);
    for (int i = 0; i < call->n_in; i++) {
        printf("%s", i ? "," : "`");
        for (int d = 0; call->in[i] && d < call->in[i]->desc.ndim; d++)
            putchar(letter_of(labels.in[i][d], seen, &n));
    }
    printf("->");
    for (int j = 0; j < call->n_out; j++) {
        printf("%s", j ? "," : "");
        for (int d = 0; d < call->out[j].ndim; d++) putchar(letter_of(labels.out[j][d], seen, &n));
    }
    printf("` for `%s`",
           strchr(wt_op_case_text(first_sample((enum wf_op)(call->row - wf_ops)), WEFT_F64), '('));
}

/* A rule that is a function, at the row's first sample. */
static void print_rule_of_function(enum wf_op op)
{
    const struct wf_op_row *row = &wf_ops[op];
    const struct wt_op_case *sample = first_sample(op);
    struct wt_operand operand[WF_MAX_IN];
    struct wf_layout *layout[WF_MAX_IN] = {0};
    int n = wt_operands(operand, sample, WEFT_F64);
    struct wf_infer call = {.row = row,
                            .n_in = n,
                            .n_out = row->n_out,
                            .attrs = &sample->attrs,
                            .attr_words = sample->attr_words};

    for (int i = 0; i < n; i++) {
        if (operand[i].present)
            layout[i] = wf_layout_new(NULL, NULL, operand[i].dtype, operand[i].shape, NULL,
                                      operand[i].ndim);
        call.in[i] = layout[i];
    }
    if (row->shape(&call) == WEFT_OK) print_labels(&call);
    for (int i = 0; i < n; i++)
        if (layout[i]) wf_layout_release(layout[i]);
}

static void print_rule(enum wf_op op)
{
    if (wf_ops[op].rule_text)
        printf("`%s`", wf_ops[op].rule_text);
    else if (wf_ops[op].rule)
        print_rule_of_function(op);
    else
        printf("its own");
}

/* ---- partial sums ---- */

static void print_set(const struct wf_op_row *row, uint32_t set)
{
    int n = 0;

    if (row->n_in == 1 || set == (1u << row->n_in) - 1) {
        printf(row->n_in == 1 ? "the input" : "all inputs together");
        return;
    }
    for (int i = 0; i < row->n_in; i++)
        if (set >> i & 1) printf("%s%d", n++ ? " with " : "input ", i + 1);
}

static void print_linear(const struct wf_op_row *row)
{
    uint32_t first = row->linear & 0xff, second = row->linear >> 8 & 0xff;

    if (!first) {
        printf("reduced first");
        return;
    }
    print_set(row, first);
    if (second) {
        printf("; or ");
        print_set(row, second);
    }
    if (row->linear & WF_RISING) printf(" (maxima and minima)");
    if (row->linear & WF_ANY_REDUCE) printf(" (of every kind)");
    if (row->linear & WF_FLOATS_ONLY) printf(" (of floats)");
    if (row->linear >> WF_ADDEND_SHIFT & WF_MAX_ADDEND) printf("; a bias counts once");
}

/* ---- dtypes and devices ---- */

static void print_dtypes(enum wf_op op)
{
    unsigned dtypes = 0;
    const char *before = "";

    for (int i = 0; i < wt_op_case_count; i++)
        if (wt_op_cases[i].op == op) dtypes |= wt_op_cases[i].dtypes;
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if (!(dtypes >> d & 1)) continue;
        printf("%s%s", before, weft_dtype_name((weft_dtype)d));
        before = " ";
    }
}

/* Kernels by number, as kernels.def says. */
static const bool on_gpus[] = {
#define OF_CPU false
#define OF_CPU_CUDA true
#define WF_KERNEL(name, devices) [WF_KERNEL_##name] = OF_##devices,
#include "kernels/kernels.def"
#undef WF_KERNEL
};

static const char *reduction_name(weft_reduce reduce)
{
    static const char *const names[WEFT_REDUCE_COUNT] = {
        [WEFT_SUM] = "sum", [WEFT_PRODUCT] = "product", [WEFT_MAX] = "max",
        [WEFT_MIN] = "min", [WEFT_NORM] = "norm",       [WEFT_MASKED] = "masked sum"};

    return names[reduce] ? names[reduce] : "?";
}

static void print_row(enum wf_op op)
{
    const struct wf_op_row *row = &wf_ops[op];

    printf("| `%s` | ", row->name);
    print_rule(op);
    printf(" | %s | ", reduction_name(row->reduce));
    print_linear(row);
    printf(" | %s | ", row->vjp ? "yes" : is_gradient_of_another(row->name) ? "is one" : "none");
    print_dtypes(op);
    printf(" | %s |\n", !wf_op_has_kernel(row)           ? "view"
                        : row->kernel == WF_KERNEL_COUNT ? "its own"
                        : on_gpus[row->kernel]           ? "CPU, GPU"
                                                         : "CPU");
}

/* ---- families, in the order of ops.def ---- */

#define WF_OP(...) +1
#define WF_VIEW(...) +1
static const struct {
    const char *name;
    int rows;
} families[] = {
    {"pointwise", 0
#include "ops/pointwise/pointwise_rows.def"
    },
    {"fills", 0
#include "ops/fills/fills.def"
    },
    {"products", 0
#include "ops/products/products.def"
    },
    {"convolution", 0
#include "ops/convolution/convolution.def"
    },
    {"reductions", 0
#include "ops/reductions/reductions.def"
    },
    {"scans", 0
#include "ops/scans/scans.def"
    },
    {"normalization", 0
#include "ops/normalization/normalization.def"
    },
    {"indexing", 0
#include "ops/indexing/indexing.def"
    },
    {"attention", 0
#include "ops/attention/attention.def"
    },
    {"losses", 0
#include "ops/losses/losses.def"
    },
    {"shape", 0
#include "ops/shape/shape.def"
    },
    {"conversions", 0
#include "ops/conversions.def"
    },
};
#undef WF_OP
#undef WF_VIEW

static int print_rows(void)
{
    int op = 0;

    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        printf("family %s\n", families[f].name);
        for (int i = 0; i < families[f].rows; i++) print_row((enum wf_op)op++);
    }
    if (op == WF_OP_COUNT) return 0;
    fprintf(stderr, "write_rows.c lists %d rows, ops.def has %d\n", op, WF_OP_COUNT);
    return 1;
}

int main(int argc, char **argv)
{
    wf_kernels_choose_isa();
    if (argc < 2 || strcmp(argv[1], "absent") != 0) return print_rows();
    for (int i = 0; i < wt_op_case_count; i++)
        if (wt_op_cases[i].dtypes >> WEFT_F64 & 1) wt_explore(&wt_op_cases[i], stdout);
    return 0;
}
