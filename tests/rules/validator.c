/* validator.c: shard, run the raw kernel once per simulated rank, glue, compare. */
#include "rules/validator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "dtensor/dispatch/choose_placements.h"
#include "kernels/device_kernels.h"
#include "mesh/mesh.h"
#include "rules/shards.h"

/* One sample on one number of ranks. */
struct bench {
    const struct wf_op_row *row;
    const struct wt_op_case *sample;
    weft_dtype dtype;
    int ranks, n_in;
    struct wt_operand operand[WF_MAX_IN];
    weft_mesh *mesh[WT_MAX_RANKS];
    struct wf_infer plain; /* shapes of the outputs */
    double *want[WF_MAX_OUT];
};

struct strategy {
    weft_placement in[WF_MAX_IN], out[WF_MAX_OUT];
    bool once[WF_MAX_IN]; /* an addend that only the first rank gets */
};

/* One rank's call, or the one-rank reference. */
struct call {
    struct wf_infer infer;
    struct wf_layout *in[WF_MAX_IN], *out[WF_MAX_OUT];
    void *data[WF_MAX_IN];
    double *result[WF_MAX_OUT]; /* row-major elements of the box */
};

/* ---- one rank ---- */

static struct wf_layout *operand_layout(const struct bench *b, int i, weft_mesh *mesh,
                                        weft_placement p)
{
    const struct wt_operand *o = &b->operand[i];

    return o->present ? wf_layout_new(mesh, &p, o->dtype, o->shape, NULL, o->ndim) : NULL;
}

static void begin_infer(const struct bench *b, struct wf_infer *infer, struct wf_layout *const *in)
{
    *infer = (struct wf_infer){.row = b->row,
                               .n_in = b->row->n_in ? b->n_in : 0,
                               .n_out = b->row->n_out,
                               .attrs = &b->sample->attrs,
                               .attr_words = b->sample->attr_words,
                               .want = b->row->n_in ? NULL : in[0]};
    for (int i = 0; i < infer->n_in; i++) infer->in[i] = in[i];
}

static bool run_kernel(const struct bench *b, struct call *c, const bool *absent)
{
    struct wf_kernel_call k = {.op = b->row->name, .n_in = c->infer.n_in, .n_out = c->infer.n_out};
    const void *from[WF_MAX_IN] = {0};
    void *to[WF_MAX_OUT] = {0};

    for (int i = 0; i < k.n_in; i++) {
        k.in[i] = c->in[i] ? &c->in[i]->desc : NULL;
        from[i] = absent[i] ? NULL : c->data[i];
    }
    for (int j = 0; j < k.n_out; j++) {
        if (!c->out[j]) continue;
        k.out[j] = &c->out[j]->desc;
        to[j] = wt_room(&c->out[j]->desc);
    }
    k.attrs = &b->sample->attrs;
    if (wf_prepare_kernel_on(WEFT_CPU, b->row->kernel, &k) != WEFT_OK) return false;
    k.run(&k, to, from, &b->sample->scalars);
    wf_kernel_call_drop(&k);
    for (int j = 0; j < k.n_out; j++) {
        if (c->out[j]) c->result[j] = wt_read_box(&c->out[j]->desc, c->out[j]->desc.stride, to[j]);
        free(to[j]);
    }
    return true;
}

static bool run_view(const struct bench *b, struct call *c)
{
    struct wf_view view = {0};
    const struct wf_tensor_desc *in = &c->in[0]->desc, *box = &c->out[0]->desc;
    int64_t at;

    if (!b->row->view(&c->infer, in, box->shape, &view)) return false;
    at = view.offset + view.step * b->sample->scalars.v[0];
    c->result[0] =
        wt_read_box(box, view.stride, (char *)c->data[0] + at * (int64_t)wf_dtypes[in->dtype].size);
    return true;
}

static bool run_call(const struct bench *b, struct call *c, weft_mesh *mesh,
                     const weft_placement *out, const bool *absent)
{
    for (int j = 0; j < c->infer.n_out; j++)
        if (c->infer.out[j].ndim >= 0)
            c->out[j] = wf_layout_new(mesh, &out[j], c->infer.out[j].dtype, c->infer.out[j].shape,
                                      NULL, c->infer.out[j].ndim);
    return wf_op_has_kernel(b->row) ? run_kernel(b, c, absent) : run_view(b, c);
}

static void end_call(struct call *c)
{
    for (int i = 0; i < WF_MAX_IN; i++) {
        if (c->in[i]) wf_layout_release(c->in[i]);
        free(c->data[i]);
    }
    for (int j = 0; j < WF_MAX_OUT; j++) {
        if (c->out[j]) wf_layout_release(c->out[j]);
        free(c->result[j]);
    }
}

/* ---- all ranks ---- */

static bool is_first_only(const struct strategy *s, int i, int rank)
{
    return s->once[i] && rank > 0;
}

/* False when the strategy does not hold. */
static bool holds(const struct bench *b, const struct strategy *s)
{
    struct call calls[WT_MAX_RANKS] = {0};
    const double *parts[WT_MAX_RANKS];
    const struct wf_tensor_desc *boxes[WT_MAX_RANKS];
    bool good = true;

    for (int r = 0; r < b->ranks && good; r++) {
        struct call *c = &calls[r];
        bool absent[WF_MAX_IN] = {0};

        for (int i = 0; i < b->n_in; i++) {
            weft_placement p = s->once[i] ? weft_replicate() : s->in[i];

            absent[i] = is_first_only(s, i, r);
            c->in[i] = operand_layout(b, i, b->mesh[r], p);
            if (c->in[i]) c->data[i] = wt_cut(b->sample, i, &b->operand[i], c->in[i], r, b->ranks);
        }
        begin_infer(b, &c->infer, c->in);
        good = b->row->shape(&c->infer) == WEFT_OK && run_call(b, c, b->mesh[r], s->out, absent);
    }
    for (int j = 0; j < b->plain.n_out && good; j++) {
        if (b->plain.out[j].ndim < 0) continue;
        for (int r = 0; r < b->ranks; r++) {
            parts[r] = calls[r].result[j];
            boxes[r] = &calls[r].out[j]->desc;
        }
        good = wt_glued_equals(parts, boxes, b->ranks, s->out[j], b->want[j]);
    }
    for (int r = 0; r < b->ranks; r++) end_call(&calls[r]);
    return good;
}

/* The whole operands and what one rank makes of them. */
static bool open_bench(struct bench *b, const struct wf_op_row *row,
                       const struct wt_op_case *sample, weft_dtype dtype, int ranks)
{
    weft_placement whole[WF_MAX_OUT] = {{0}};
    bool absent[WF_MAX_IN] = {0};
    struct call c = {0};
    bool good;

    *b = (struct bench){.row = row, .sample = sample, .dtype = dtype, .ranks = ranks};
    b->n_in = wt_operands(b->operand, sample, dtype);
    for (int r = 0; r < ranks; r++)
        b->mesh[r] = wf_mesh_new_fake(&ranks, &r, (const char *const[]){"tp"}, 1);
    for (int i = 0; i < b->n_in; i++) {
        c.in[i] = operand_layout(b, i, NULL, weft_replicate());
        if (c.in[i]) c.data[i] = wt_cut(sample, i, &b->operand[i], c.in[i], 0, 1);
    }
    begin_infer(b, &c.infer, c.in);
    good = row->shape(&c.infer) == WEFT_OK && run_call(b, &c, NULL, whole, absent);
    b->plain = c.infer;
    memcpy(b->want, c.result, sizeof b->want);
    memset(c.result, 0, sizeof c.result);
    end_call(&c);
    return good;
}

static void close_bench(struct bench *b)
{
    for (int j = 0; j < WF_MAX_OUT; j++) free(b->want[j]);
    for (int r = 0; r < b->ranks; r++) weft_mesh_release(b->mesh[r]);
}

static void print_strategy(const struct bench *b, const struct strategy *s, char *text,
                           size_t bytes)
{
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < b->n_in + b->row->n_out && at < bytes; i++) {
        const weft_placement *p = i < b->n_in ? &s->in[i] : &s->out[i - b->n_in];

        at += (size_t)snprintf(text + at, bytes - at, "%s", i == b->n_in ? " -> " : i ? ", " : "");
        if (at < bytes) at += (size_t)weft_placements_format(p, 1, text + at, bytes - at);
        if (at < bytes && i < b->n_in && s->once[i])
            at += (size_t)snprintf(text + at, bytes - at, " on rank 0");
    }
}

/* ---- what a row accepts ---- */

/* What dispatch would do with inputs placed so. gives: false when it would move one of them */
static bool accepted(const struct bench *b, const weft_placement *in, const weft_placement *want,
                     struct strategy *s)
{
    struct wf_layout *layout[WF_MAX_IN] = {0}, *wanted = NULL;
    struct wf_placement_choice choice = {0};
    struct wf_infer infer;
    bool still = true;

    for (int i = 0; i < b->n_in; i++) layout[i] = operand_layout(b, i, b->mesh[0], in[i]);
    begin_infer(b, &infer, layout);
    if (b->row->shape(&infer) != WEFT_OK) abort();
    if (want)
        infer.want = wanted = wf_layout_new(b->mesh[0], want, infer.out[0].dtype,
                                            infer.out[0].shape, NULL, infer.out[0].ndim);
    wf_choose_placements(&infer, b->mesh[0], &choice);
    *s = (struct strategy){0};
    for (int i = 0; i < b->n_in; i++) {
        uint32_t addends = b->row->linear >> WF_ADDEND_SHIFT & WF_MAX_ADDEND;

        s->in[i] = choice.in[i][0];
        s->once[i] = layout[i] && addends >> i & 1 && in[i].kind == WEFT_KIND_REPLICATE &&
                     weft_placement_equal(choice.in[i][0], weft_partial(WEFT_SUM));
        if (layout[i] && !s->once[i]) still &= weft_placement_equal(in[i], choice.in[i][0]);
        if (layout[i]) wf_layout_release(layout[i]);
    }
    for (int j = 0; j < b->row->n_out; j++) s->out[j] = choice.out[j][0];
    if (wanted) wf_layout_release(wanted);
    return still;
}

static void judge(struct wt_verdict *verdict, const struct bench *b, const struct strategy *s)
{
    char text[256];

    verdict->checked++;
    if (holds(b, s)) return;
    if (verdict->wrong++ > 0) return;
    print_strategy(b, s, text, sizeof text);
    snprintf(verdict->first_wrong, sizeof verdict->first_wrong, "%s on %d ranks: %s is WRONG %s",
             wt_op_case_text(b->sample, b->dtype), b->ranks, text, weft_error_message());
}

static void judge_placed(struct wt_verdict *verdict, const struct bench *b,
                         const weft_placement *in, const weft_placement *want)
{
    struct strategy s;

    if (accepted(b, in, want, &s)) judge(verdict, b, &s);
}

/* ---- which placements are tried ---- */

/* Number `index` of an operand's placements: replicated, each dim, each reduction. */
static weft_placement numbered(int ndim, int index)
{
    if (index == 0) return weft_replicate();
    return index <= ndim ? weft_shard(index - 1) : weft_partial((weft_reduce)(index - 1 - ndim));
}

static int placements_of(const struct wt_operand *o)
{
    int reductions = weft_dtype_is_float(o->dtype) ? WEFT_REDUCE_COUNT
                     : o->dtype == WEFT_BOOL       ? 0
                                                   : 1;

    return o->present ? 1 + o->ndim + reductions : 1;
}

/* All placements of all inputs; for one input also each placement that the result might be wanted
 * in. */
static void try_all(struct wt_verdict *verdict, const struct bench *b)
{
    int index[WF_MAX_IN] = {0}, i;

    do {
        weft_placement in[WF_MAX_IN];

        for (i = 0; i < b->n_in; i++) in[i] = numbered(b->operand[i].ndim, index[i]);
        judge_placed(verdict, b, in, NULL);
        for (int d = 0; b->n_in == 1 && d < b->plain.out[0].ndim; d++) {
            weft_placement want = weft_shard(d);

            judge_placed(verdict, b, in, &want);
        }
        for (i = 0; i < b->n_in && ++index[i] == placements_of(&b->operand[i]); i++) index[i] = 0;
    } while (i < b->n_in);
}

/* Every dim with this letter is cut alike. */
static void try_label(struct wt_verdict *verdict, const struct bench *b,
                      const struct wf_dim_labels *labels, int label, weft_placement style)
{
    weft_placement in[WF_MAX_IN] = {{0}};
    bool used = false;

    for (int i = 0; i < b->n_in; i++)
        for (int d = 0; d < b->operand[i].ndim; d++) {
            if (labels->in[i][d] != label) continue;
            in[i] = style;
            in[i].dim = (int8_t)d;
            used = true;
        }
    if (used) judge_placed(verdict, b, in, NULL);
}

static void try_labels(struct wt_verdict *verdict, const struct bench *b)
{
    const weft_placement styles[] = {weft_shard(0), weft_shard_balanced(0),
                                     weft_strided_shard(0, 2), weft_strided_shard(0, 3)};
    struct wf_layout *layout[WF_MAX_IN];
    struct wf_dim_labels labels;
    struct wf_infer infer;

    for (int i = 0; i < b->n_in; i++) layout[i] = operand_layout(b, i, NULL, weft_replicate());
    begin_infer(b, &infer, layout);
    if (b->row->shape(&infer) != WEFT_OK) abort();
    wf_label_dims(&infer, &labels);
    for (int i = 0; i < b->n_in; i++)
        if (layout[i]) wf_layout_release(layout[i]);
    for (int label = 1; label < 64; label++)
        for (size_t k = 0; k < sizeof styles / sizeof styles[0]; k++)
            try_label(verdict, b, &labels, label, styles[k]);
}

static void try_set(struct wt_verdict *verdict, const struct bench *b, uint32_t set,
                    weft_reduce reduce)
{
    weft_placement in[WF_MAX_IN] = {{0}};

    for (int i = 0; i < b->n_in; i++)
        if (set >> i & 1) in[i] = weft_partial(reduce);
    judge_placed(verdict, b, in, NULL);
}

/* Rows of many inputs: what the row itself offers. */
static void try_offered(struct wt_verdict *verdict, const struct bench *b)
{
    for (int reduce = WEFT_SUM; reduce < WEFT_REDUCE_COUNT; reduce++) {
        if (reduce > WEFT_SUM && !weft_dtype_is_float(b->dtype)) break;
        try_set(verdict, b, b->row->linear & 0xff, (weft_reduce)reduce);
        try_set(verdict, b, b->row->linear >> 8 & 0xff, (weft_reduce)reduce);
    }
}

/* Ops without inputs make their result in the layout asked for. */
static void try_wanted(struct wt_verdict *verdict, const struct bench *b)
{
    for (int index = 0; index <= b->operand[0].ndim; index++) {
        struct strategy s = {.in = {numbered(b->operand[0].ndim, index)}};

        s.out[0] = s.in[0];
        judge(verdict, b, &s);
    }
}

void wt_validate(struct wt_verdict *verdict, const struct wf_op_row *row,
                 const struct wt_op_case *sample, weft_dtype dtype, int ranks)
{
    enum { FEW = 3 };
    struct bench b;

    weft_error_clear();
    if (!open_bench(&b, row, sample, dtype, ranks)) {
        if (verdict->wrong++ == 0)
            snprintf(verdict->first_wrong, sizeof verdict->first_wrong, "%s does not run: %s",
                     wt_op_case_text(sample, dtype), weft_error_message());
    } else if (row->n_in == 0) {
        try_wanted(verdict, &b);
    } else {
        (b.n_in <= FEW ? try_all : try_offered)(verdict, &b);
        try_labels(verdict, &b);
    }
    close_bench(&b);
}

/* ---- true but absent ---- */

/* Local shapes must follow from local shapes, else the kernel would read beyond its parts. */
static bool fits(const struct bench *b, const struct strategy *s)
{
    bool fit = true;

    for (int r = 0; r < b->ranks && fit; r++) {
        struct wf_layout *in[WF_MAX_IN], *local[WF_MAX_IN];
        struct wf_infer infer;

        for (int i = 0; i < b->n_in; i++) {
            in[i] = operand_layout(b, i, b->mesh[r], s->in[i]);
            local[i] = in[i] ? wf_layout_local(in[i]) : NULL;
        }
        begin_infer(b, &infer, local);
        fit = b->row->shape(&infer) == WEFT_OK;
        weft_error_clear();
        for (int j = 0; j < b->row->n_out && fit; j++) {
            struct wf_layout *out =
                wf_layout_new(b->mesh[r], &s->out[j], infer.out[j].dtype, b->plain.out[j].shape,
                              NULL, b->plain.out[j].ndim);

            fit = memcmp(out->desc.shape, infer.out[j].shape,
                         (size_t)out->desc.ndim * sizeof(int64_t)) == 0;
            wf_layout_release(out);
        }
        for (int i = 0; i < b->n_in; i++) {
            if (!in[i]) continue;
            wf_layout_release(in[i]);
            wf_layout_release(local[i]);
        }
    }
    return fit;
}

static bool holds_at(const struct wt_op_case *sample, int ranks, const struct strategy *s,
                     bool *known)
{
    struct strategy chosen;
    struct bench b;
    bool good = open_bench(&b, &wf_ops[sample->op], sample, WEFT_F64, ranks);

    *known = good && accepted(&b, s->in, NULL, &chosen) &&
             memcmp(s->out, chosen.out, (size_t)b.row->n_out * sizeof *s->out) == 0;
    good = good && !*known && fits(&b, s) && holds(&b, s);
    weft_error_clear();
    close_bench(&b);
    return good;
}

static int explore_strategy(const struct wt_op_case *sample, const struct strategy *s, FILE *out)
{
    bool known = false;
    struct bench b;
    char text[256];

    for (int ranks = 2; ranks <= WT_MAX_RANKS; ranks++)
        if (!holds_at(sample, ranks, s, &known) || known) return 0;
    if (out) {
        if (!open_bench(&b, &wf_ops[sample->op], sample, WEFT_F64, 2)) abort();
        print_strategy(&b, s, text, sizeof text);
        fprintf(out, "  true but absent: %s: %s\n", wt_op_case_text(sample, WEFT_F64), text);
        close_bench(&b);
    }
    return 1;
}

int wt_explore(const struct wt_op_case *sample, FILE *out)
{
    const struct wf_op_row *row = &wf_ops[sample->op];
    struct wt_operand operand[WF_MAX_IN];
    int n = wt_operands(operand, sample, WEFT_F64), found = 0;

    /* It ends the job at negative weights, which terms of a sum may be. */
    if (sample->op == WF_OP_multinomial) return 0;
    /* Their attributes hold sizes of the whole, which do not fit shards of other dims. */
    if (row->attrs == WF_ATTRS_conv || row->attrs == WF_ATTRS_windows ||
        row->attrs == WF_ATTRS_resample)
        return 0;
    if (row->n_in == 0 || n > 2 || row->n_out > 1 || !wf_op_has_kernel(row)) return 0;
    for (int i = 0; i < n; i++)
        if (operand[i].numel == 0 || operand[i].below)
            return 0; /* anything holds; sums are no indices */
    for (int a = 0; a < operand[0].ndim + 2; a++)
        for (int c = 0; c < (n > 1 ? operand[1].ndim + 2 : 1); c++)
            for (int o = 0; o < WEFT_MAX_DIMS + 2; o++) {
                struct strategy s = {
                    .in = {numbered(operand[0].ndim, a), numbered(operand[1].ndim, c)}};

                s.out[0] =
                    o == WEFT_MAX_DIMS + 1 ? weft_partial(WEFT_SUM) : numbered(WEFT_MAX_DIMS, o);
                if (s.out[0].kind == WEFT_KIND_SHARD && s.out[0].dim >= operand[0].ndim) continue;
                found += explore_strategy(sample, &s, out);
            }
    return found;
}
