/* sequential.c: children called one after the other. */
#include "nn/layer.h"

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *x = inputs[0];

    (void)n;
    for (int i = 0; i < m->n_children && x; i++) x = weft_call(m->children[i], x);
    return x;
}

static const weft_module_class class_sequential = {.type = "sequential", .forward = forward};

weft_module *weft_sequential_new(void) { return weft_module_new(&class_sequential, NULL); }
