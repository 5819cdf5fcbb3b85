/* adapter.c: the module that stands in a linear layer's place, and what of a model is trained. */
#include "lora/adapter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const double *scale = weft_module_payload(m);
    weft_tensor *y = weft_call(weft_module_child(m, "base"), inputs[0]);
    weft_tensor *low = weft_call(weft_module_child(m, "a"), inputs[0]);

    (void)n;
    return weft_add(y, weft_mul_scalar(weft_call(weft_module_child(m, "b"), low), *scale));
}

static const weft_module_class adapted = {.type = "adapted", .forward = forward, .free = free};

static weft_status add_low_rank(weft_module *m, const struct adapter *adapter)
{
    weft_linear_config a = {.in_split = adapter->in_split,
                            .out = {adapter->rank},
                            .no_bias = true,
                            .std = 1 / sqrt((double)adapter->rank),
                            .dtype = adapter->dtype};
    weft_linear_config b = {.in = {adapter->rank},
                            .out_split = adapter->out_split,
                            .no_bias = true,
                            .dtype = adapter->dtype};

    memcpy(a.in, adapter->in, sizeof a.in);
    memcpy(b.out, adapter->out, sizeof b.out);
    if (weft_module_add_child(m, "a", weft_linear_new(a)) != WEFT_OK) return weft_error_status();
    if (weft_module_add_child(m, "b", weft_linear_new(b)) != WEFT_OK) return weft_error_status();
    return weft_fill_(weft_module_parameter(m, "b.weight"), 0);
}

weft_status adapt(weft_module *model, const char *path, struct adapter adapter)
{
    double *scale = malloc(sizeof *scale);
    weft_module *m = weft_module_new(&adapted, scale), *base;

    *scale = adapter.scale;
    base = weft_module_replace_child(model, path, m);
    if (!base) return weft_error_status();
    if (weft_module_add_child(m, "base", base) != WEFT_OK) return weft_error_status();
    return add_low_rank(m, &adapter);
}

static weft_status freeze(const weft_module_tensor *it, void *payload)
{
    int64_t *trained = payload;
    bool low = strcmp(weft_module_name(it->module), "a") == 0 ||
               strcmp(weft_module_name(it->module), "b") == 0;

    if (it->buffer) return WEFT_OK;
    *trained += low ? weft_numel(it->tensor) : 0;
    return weft_set_requires_grad(it->tensor, low) ? WEFT_OK : weft_error_status();
}

int64_t freeze_base(weft_module *model)
{
    int64_t trained = 0;

    return weft_module_each_tensor(model, freeze, &trained) == WEFT_OK ? trained : -1;
}
