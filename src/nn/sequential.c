/* sequential.c: children called one after the other; further inputs go to every one of them. */
#include <string.h>

#include "nn/layer_construction.h"

static weft_status check_child_has_one_output(const weft_module *child)
{
    WF_NEED(wf_module_output_count(child) == 1, WEFT_ERR_ARG,
            "sequential: child '%s' (%s) gives %d outputs, one is handed on: call it with "
            "weft_call_outputs in a module of your own",
            child->name, child->kind->type, wf_module_output_count(child));
    return WEFT_OK;
}

static weft_tensor *sequential_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *in[WEFT_MODULE_INPUTS];

    for (int i = 0; i < m->n_children; i++) WF_TRY_PTR(check_child_has_one_output(m->children[i]));
    memcpy(in, inputs, (size_t)n * sizeof *in);
    for (int i = 0; i < m->n_children && in[0]; i++) in[0] = weft_call_n(m->children[i], in, n);
    return in[0];
}

static const weft_module_class class_sequential = {
    .type = "sequential", .forward = sequential_forward, .optional = WEFT_MODULE_INPUTS - 1};

weft_module *weft_sequential_new(void) { return weft_module_new(&class_sequential, NULL); }
