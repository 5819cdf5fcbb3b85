/* cross_entropy.c: the mean loss of class scores, as a module, so that a style can take it over. */
#include <weft/ops.h>

#include "nn/layer.h"

struct cross_entropy {
    struct wf_features features;
    int64_t ignore_index;
};

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct cross_entropy *loss = m->payload;

    (void)n;
    return weft_cross_entropy(inputs[0], inputs[1], loss->ignore_index);
}

const weft_module_class wf_class_cross_entropy = {
    .type = "cross entropy", .forward = forward, .free = wf_free, .inputs = 2};

weft_module *weft_cross_entropy_new(weft_cross_entropy_config config)
{
    struct cross_entropy *loss;
    weft_module *m;

    WF_NEED_PTR(config.classes >= 0, WEFT_ERR_ARG, "cross entropy: classes is %lld",
                (long long)config.classes);
    m = wf_layer_new(&wf_class_cross_entropy, sizeof *loss);
    loss = m->payload;
    loss->features = (struct wf_features){.input_dim = -1, .n_in = 1, .in_sizes = {config.classes}};
    loss->ignore_index = config.ignore_index ? config.ignore_index : -100;
    m->features = &loss->features;
    return m;
}
