/*
 * attention_inputs.c: masks, biases and positions, distinguished by dtype and number of dims, so
 * that they can be passed down a model in any combination.
 */
#include "nn/attention/attention_inputs.h"

#include <weft/factory.h>
#include <weft/ops.h>

#include "base/error.h"

static bool is_integer_tensor(const weft_tensor *t)
{
    return weft_tensor_dtype(t) == WEFT_I32 || weft_tensor_dtype(t) == WEFT_I64;
}

weft_status wf_attention_sort_inputs(struct wf_attention_inputs *in, const char *layer,
                                     weft_tensor *const *inputs, int n)
{
    *in = (struct wf_attention_inputs){0};
    for (int i = 0; i < n; i++) {
        weft_tensor **to = is_integer_tensor(inputs[i]) ? &in->positions
                           : weft_ndim(inputs[i]) >= 4  ? &in->bias
                                                        : &in->mask;

        WF_NEED(!*to, WEFT_ERR_ARG,
                "%s: two inputs are %s: a mask has 2 or 3 dims, a bias of the scores 4 or 5, "
                "positions are integers",
                layer,
                to == &in->mask   ? "masks"
                : to == &in->bias ? "biases"
                                  : "positions");
        *to = inputs[i];
    }
    return WEFT_OK;
}

weft_status wf_attention_refuse_positions(const struct wf_attention_inputs *in, const char *layer)
{
    WF_NEED(!in->positions, WEFT_ERR_ARG, "%s: positions turn nothing without rotary.base", layer);
    return WEFT_OK;
}

weft_tensor *wf_positions_from_mask(weft_tensor *mask, int64_t first, int64_t count)
{
    weft_spec all = {.dtype = WEFT_I64, .ndim = 1, .shape = {count}};
    int64_t column[] = {0, 1};
    weft_tensor *number, *shown;

    if (!mask) return NULL;
    all.mesh = weft_tensor_mesh(mask);
    column[0] = weft_size(mask, 0);
    shown = weft_reshape(weft_argmax(weft_cast(mask, WEFT_I32), 1), column, 2);
    number = weft_to_device(weft_make_arange(all, (double)first, 1), weft_tensor_device(mask));
    return weft_relu(weft_sub(number, shown));
}
