/*
 * registered_op.c: registered ops as calls of WF_OP_custom: its attributes say which op it is, and
 * its shape, kernel and gradient are those that the program registered. Layouts, redistribution and
 * the plan cache are dispatch's, as for any op.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/dispatch/plan_cache.h"
#include "dtensor/registration/registry.h"
#include "kernels/device_kernels.h"

/* ---- the arguments of registered functions ---- */

static void fill_operand(weft_operand *operand, const struct wf_tensor_desc *desc)
{
    operand->present = desc != NULL;
    if (!desc) return;
    operand->dtype = (weft_dtype)desc->dtype;
    operand->ndim = desc->ndim;
    memcpy(operand->shape, desc->global, sizeof operand->shape);
}

static_assert((int)WF_MAX_OP_ARGUMENTS == (int)WEFT_OP_INTEGERS, "as many as the program may give");

/* The length of each tensor list (1 for a single tensor); then integers and texts. */
static void fill_info_arguments(weft_op_info *info, const struct wf_registered_attrs *attrs)
{
    int at = 0;

    for (int a = 0; at < info->n_in; a++) {
        int count = (int)(attrs->list_lengths >> 4 * a & 15);

        info->first[a] = at;
        info->count[a] = count;
        info->n_arguments = a + 1;
        at += count;
    }
    for (int i = 0; i < attrs->n_arguments; i++) {
        if (attrs->texts >> i & 1)
            info->texts[info->n_texts++] = wf_interned_text(attrs->arguments[i]);
        else
            info->integers[info->n_integers++] = attrs->arguments[i];
    }
}

static int64_t attr_as_integer(const char *at, size_t size)
{
    int64_t whole;
    int32_t half;

    if (size == 1) return *(const uint8_t *)at;
    if (size == sizeof half) {
        memcpy(&half, at, sizeof half);
        return half;
    }
    memcpy(&whole, at, sizeof whole);
    return whole;
}

/* Of a built-in op: each tensor for itself, the attributes in their order as integers. */
static void fill_info_built_in(weft_op_info *info, const struct wf_infer *call)
{
    const struct wf_attrs_info *kind = &wf_attrs_table[call->row->attrs];
    const char *at = (const char *)call->attrs,
               *end = at + (size_t)call->attr_words * sizeof(uint64_t);
    int64_t count = -1; /* of the array that comes next; -1: all of it */

    info->n_arguments = info->n_in;
    for (int i = 0; i < info->n_in; i++) info->first[i] = i, info->count[i] = 1;
    for (int f = 0; f < kind->n_fields; f++) {
        const struct wf_attr_field *field = &kind->fields[f];
        int64_t n = count >= 0 ? count : field->n;

        count = -1;
        if (field->kind == WF_FIELD_COUNT) count = attr_as_integer(at, field->size);
        for (int64_t i = 0; field->kind == WF_FIELD_VALUE && i < n; i++)
            if (at + (size_t)i * field->size < end && info->n_integers < WEFT_OP_INTEGERS)
                info->integers[info->n_integers++] =
                    attr_as_integer(at + (size_t)i * field->size, field->size);
        at += field->size * (size_t)field->n;
    }
}

void wf_fill_op_info(weft_op_info *info, const struct wf_infer *call)
{
    memset(info, 0, sizeof *info);
    info->op = call->name;
    info->n_in = call->n_in;
    info->n_out = call->n_out;
    for (int i = 0; i < call->n_in; i++)
        fill_operand(&info->in[i], call->in[i] ? &call->in[i]->desc : NULL);
    for (int j = 0; j < call->n_out; j++) {
        info->out[j].present = call->out[j].ndim >= 0;
        info->out[j].dtype = call->out[j].dtype;
        info->out[j].ndim = call->out[j].ndim;
        memcpy(info->out[j].shape, call->out[j].shape, sizeof info->out[j].shape);
    }
    if (call->row->attrs == WF_ATTRS_registered)
        fill_info_arguments(info, &call->attrs->registered);
    else
        fill_info_built_in(info, call);
}

/* ---- planning ---- */

weft_status wf_plan_custom(struct wf_op_plan *plan, const struct wf_infer *call)
{
    struct wf_infer mine = *call;

    mine.n_out = wf_registered_op(call->attrs->registered.op, true)->n_out;
    return wf_op_plan_by_rule(plan, &mine);
}

static weft_status check_and_set_output(struct wf_infer *call, int j, const weft_operand *out)
{
    WF_NEED(j > 0 || out->present, WEFT_ERR_ARG, "%s: its first output cannot be left out",
            call->name);
    call->out[j].ndim = -1;
    if (!out->present) return WEFT_OK;
    WF_NEED(out->ndim >= 0 && out->ndim <= WEFT_MAX_DIMS && (unsigned)out->dtype < WEFT_DTYPE_COUNT,
            WEFT_ERR_ARG, "%s: output %d with %d dims of dtype %d", call->name, j, out->ndim,
            (int)out->dtype);
    call->out[j].ndim = out->ndim;
    call->out[j].dtype = out->dtype;
    for (int d = 0; d < out->ndim; d++) {
        WF_NEED(out->shape[d] >= 0, WEFT_ERR_SHAPE, "%s: output %d has %lld elements in dim %d",
                call->name, j, (long long)out->shape[d], d);
        call->out[j].shape[d] = out->shape[d];
    }
    return WEFT_OK;
}

weft_status wf_shape_custom(struct wf_infer *call)
{
    const weft_op_spec *spec = wf_registered_op(call->attrs->registered.op, true);
    weft_op_info info;

    for (int j = 0; j < call->n_out; j++) call->out[j].ndim = -1;
    wf_fill_op_info(&info, call);
    WF_TRY(spec->shape(&info, spec->payload));
    for (int j = 0; j < call->n_out; j++) WF_TRY(check_and_set_output(call, j, &info.out[j]));
    return WEFT_OK;
}

/* ---- the kernel ---- */

struct prepared_kernel {
    const weft_op_spec *spec;
    weft_op_info info;
    weft_op_shard in[WEFT_OP_INPUTS], out[WEFT_OP_OUTPUTS];
};

static void fill_local_operand(weft_op_shard *shard, const struct wf_tensor_desc *desc)
{
    if (!desc) return;
    shard->dtype = (weft_dtype)desc->dtype;
    shard->ndim = desc->ndim;
    memcpy(shard->shape, desc->shape, sizeof shard->shape);
    memcpy(shard->stride, desc->stride, sizeof shard->stride);
    memcpy(shard->offset, desc->offset, sizeof shard->offset);
}

/* On the stack: a kernel may call the op again. */
static void run_registered_kernel(const struct wf_kernel_call *k, void *const *out,
                                  const void *const *in, const struct wf_scalars *scalars)
{
    const struct prepared_kernel *p = k->prep;
    weft_op_shard from[WEFT_OP_INPUTS], to[WEFT_OP_OUTPUTS];

    memcpy(from, p->in, sizeof from);
    memcpy(to, p->out, sizeof to);
    for (int i = 0; i < k->n_in; i++) from[i].data = (void *)(uintptr_t)in[i];
    for (int j = 0; j < k->n_out; j++) to[j].data = out[j];
    p->spec->kernel(&p->info, from, to, scalars->s, p->spec->payload);
}

static weft_status prepare_registered_kernel(struct wf_kernel_call *k)
{
    struct prepared_kernel *p = WF_NEW(struct prepared_kernel);

    p->spec = wf_registered_op(k->attrs->registered.op, true);
    p->info.op = k->op;
    p->info.n_in = k->n_in;
    p->info.n_out = k->n_out;
    for (int i = 0; i < k->n_in; i++) {
        fill_operand(&p->info.in[i], k->in[i]);
        fill_local_operand(&p->in[i], k->in[i]);
    }
    for (int j = 0; j < k->n_out; j++) {
        fill_operand(&p->info.out[j], k->out[j]);
        fill_local_operand(&p->out[j], k->out[j]);
    }
    fill_info_arguments(&p->info, &k->attrs->registered);
    k->prep = p;
    k->run = run_registered_kernel;
    return WEFT_OK;
}

/* What a program registers reads and writes host memory. */
weft_status wf_prepare_custom_kernel(struct wf_kernel_call *k)
{
    return k->out[0]->device == WEFT_CPU ? prepare_registered_kernel(k)
                                         : wf_prepare_through_host(prepare_registered_kernel, k);
}

/* ---- the gradient ---- */

static void fill_info_of_plan(weft_op_info *info, const struct wf_op_plan *plan)
{
    memset(info, 0, sizeof *info);
    info->op = plan->name;
    info->n_in = plan->n_in;
    info->n_out = plan->n_out;
    for (int i = 0; i < plan->n_in; i++)
        fill_operand(&info->in[i], plan->in[i] ? &plan->in[i]->desc : NULL);
    for (int j = 0; j < plan->n_out; j++)
        fill_operand(&info->out[j], plan->out[j] ? &plan->out[j]->desc : NULL);
    fill_info_arguments(info, &plan->attrs.registered);
}

void wf_vjp_custom(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    const weft_op_spec *spec = wf_registered_op(plan->attrs.registered.op, true);
    weft_tensor *from[WEFT_OP_INPUTS] = {0}, *to[WEFT_OP_OUTPUTS] = {0};
    bool wanted[WEFT_OP_INPUTS] = {0};
    weft_op_info info;
    weft_op_backward call = {&info, from, to, g, wanted, n->s};

    fill_info_of_plan(&info, plan);
    for (int i = 0; i < plan->n_in; i++) {
        from[i] = wf_saved_input(n, i);
        wanted[i] = wf_tape_node_needs_grad(n, i);
    }
    for (int j = 0; j < plan->n_out; j++) to[j] = wf_saved_output(n, j);
    if (spec->gradient(&call, in, spec->payload) != WEFT_OK && weft_error_status() == WEFT_OK)
        WF_FAIL(WEFT_ERR_STATE, "backward: the gradient of %s failed", plan->name);
}

/* ---- calling ---- */

struct flat_op_arguments {
    weft_tensor *in[WF_MAX_IN];
    int n_in, n_arguments, n_numbers;
    struct wf_registered_attrs attrs;
    struct wf_scalars scalars;
};

static weft_status add_op_tensors(struct flat_op_arguments *f, const char *op,
                                  const weft_argument *a)
{
    int count = a->count < 0 ? 1 : a->count;

    WF_NEED(f->n_in + count <= WEFT_OP_INPUTS && f->n_arguments < WEFT_OP_INPUTS, WEFT_ERR_ARG,
            "%s: more than %d tensors", op, WEFT_OP_INPUTS);
    for (int i = 0; i < count; i++) f->in[f->n_in++] = a->count < 0 ? a->tensor : a->tensors[i];
    f->attrs.list_lengths |= (uint64_t)count << 4 * f->n_arguments++;
    return WEFT_OK;
}

static weft_status add_op_attribute(struct flat_op_arguments *f, const char *op,
                                    const weft_argument *a)
{
    bool text = a->kind == WEFT_ARGUMENT_TEXT;

    WF_NEED(f->attrs.n_arguments < WEFT_OP_INTEGERS, WEFT_ERR_ARG,
            "%s: more than %d integers and texts", op, WEFT_OP_INTEGERS);
    WF_NEED(!text || a->text, WEFT_ERR_ARG, "%s: no text", op);
    if (text) f->attrs.texts |= (uint64_t)1 << f->attrs.n_arguments;
    f->attrs.arguments[f->attrs.n_arguments++] = text ? wf_intern_text(a->text) : a->integer;
    return WEFT_OK;
}

static weft_status add_op_argument(struct flat_op_arguments *f, const char *op,
                                   const weft_argument *a)
{
    if (a->kind == WEFT_ARGUMENT_TENSORS) return add_op_tensors(f, op, a);
    if (a->kind != WEFT_ARGUMENT_NUMBER) return add_op_attribute(f, op, a);
    WF_NEED(f->n_numbers < WEFT_OP_NUMBERS, WEFT_ERR_ARG, "%s: more than %d numbers", op,
            WEFT_OP_NUMBERS);
    f->scalars.s[f->n_numbers++] = a->number;
    return WEFT_OK;
}

weft_status weft_op_run(int op, weft_tensor **out, const weft_argument *arguments, int n)
{
    const weft_op_spec *spec = wf_registered_op(op, true);
    struct flat_op_arguments f = {.n_in = 0};
    struct wf_op_args args;
    weft_tensor *more[WF_MAX_OUT] = {0};

    WF_NEED(spec, WEFT_ERR_NOT_FOUND, "op_run: no op has the number %d", op);
    WF_NEED(wf_registered_op(op, false), WEFT_ERR_NOT_FOUND,
            "%s does not have a sharding strategy registered: the op was unregistered", spec->name);
    WF_NEED(out && n >= 0 && (n == 0 || arguments), WEFT_ERR_ARG,
            "%s: no arguments or no place "
            "for outputs",
            spec->name);
    memset(out, 0, (size_t)spec->n_out * sizeof *out);
    f.attrs.op = op;
    for (int i = 0; i < n; i++) WF_TRY(add_op_argument(&f, spec->name, &arguments[i]));
    args =
        (struct wf_op_args){.attrs = &f.attrs,
                            .attr_words = WF_ATTR_WORDS(registered, arguments, f.attrs.n_arguments),
                            .scalars = f.scalars};
    if (!spec->gradient) weft_no_grad_open();
    out[0] = wf_dispatch_op(WF_OP_custom, f.in, f.n_in, &args, more);
    if (!spec->gradient) weft_no_grad_close();
    if (!out[0]) return weft_error_status();
    for (int j = 1; j < spec->n_out; j++) out[j] = more[j - 1];
    return WEFT_OK;
}
