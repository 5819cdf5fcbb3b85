/* resnet.c: batch norm is written around the op; the rest are layers of the library. */
#include "models/resnet.h"

#include <stdio.h>
#include <string.h>

/* ---- batch norm ---- */

static weft_tensor *norm_forward(weft_module *m, weft_tensor *const *in, int n)
{
    weft_batch_norm_options options = {.training = weft_module_training(m),
                                       .running_mean = weft_module_buffer(m, "running_mean"),
                                       .running_var = weft_module_buffer(m, "running_var")};

    (void)n;
    return weft_batch_norm(in[0], weft_module_parameter(m, "weight"),
                           weft_module_parameter(m, "bias"), 1e-5, options);
}

static weft_module *norm_new(int64_t channels, weft_dtype dtype)
{
    static const weft_module_class kind = {.type = "batch norm", .forward = norm_forward};
    weft_module *m = weft_module_new(&kind, NULL);
    weft_spec spec = {.dtype = dtype, .ndim = 1, .shape = {channels}};
    weft_scope *scope = weft_scope_open();

    weft_module_add_parameter(m, "weight", weft_make_ones(spec));
    weft_module_add_parameter(m, "bias", weft_make_zeros(spec));
    weft_module_add_buffer(m, "running_mean", weft_make_zeros(spec), (weft_buffer_options){0});
    weft_module_add_buffer(m, "running_var", weft_make_ones(spec), (weft_buffer_options){0});
    weft_scope_close(scope);
    return m;
}

/* ---- blocks ---- */

/* What children `conv` and `norm` make of x. */
static weft_tensor *through(weft_module *m, const char *conv, const char *norm, weft_tensor *x)
{
    return weft_call(weft_module_child(m, norm), weft_call(weft_module_child(m, conv), x));
}

/* The payload is there where the block has a shortcut of its own. */
static weft_tensor *block_forward(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *y = weft_relu(through(m, "conv1", "norm1", in[0])), *x = in[0];

    (void)n;
    y = through(m, "conv2", "norm2", y);
    if (weft_module_payload(m)) x = through(m, "short", "norm3", x);
    return weft_relu(weft_add(y, x));
}

static weft_module *conv_new(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                             weft_dtype dtype)
{
    int64_t padding = kernel / 2;

    return weft_conv2d_new(
        (weft_conv_config){.in = in,
                           .out = out,
                           .kernel = {kernel, kernel},
                           .options = {.stride = {stride, stride}, .padding = {padding, padding}},
                           .no_bias = true,
                           .dtype = dtype});
}

static weft_module *block_new(int64_t in, int64_t out, int64_t stride, weft_dtype dtype)
{
    static const weft_module_class kind = {.type = "basic block", .forward = block_forward};
    static char has_shortcut;
    bool changes = stride != 1 || in != out;
    weft_module *m = weft_module_new(&kind, changes ? &has_shortcut : NULL);

    weft_module_add_child(m, "conv1", conv_new(in, out, 3, stride, dtype));
    weft_module_add_child(m, "norm1", norm_new(out, dtype));
    weft_module_add_child(m, "conv2", conv_new(out, out, 3, 1, dtype));
    weft_module_add_child(m, "norm2", norm_new(out, dtype));
    if (!changes) return m;
    weft_module_add_child(m, "short", conv_new(in, out, 1, stride, dtype));
    weft_module_add_child(m, "norm3", norm_new(out, dtype));
    return m;
}

/* ---- the model ---- */

static weft_tensor *forward(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *x = weft_relu(through(m, "conv", "norm", in[0]));

    x = weft_call(weft_module_child(m, "blocks"), x);
    x = weft_flatten(weft_adaptive_avg_pool2d(x, (int64_t[]){1, 1}), 1, -1);
    x = weft_call(weft_module_child(m, "head"), x);
    if (n == 1) return x;
    return weft_call_n(weft_module_child(m, "loss"), (weft_tensor *[]){x, in[1]}, 2);
}

weft_module *resnet_new(struct resnet c)
{
    static const weft_module_class kind = {.type = "resnet", .forward = forward, .optional = 1};
    weft_module *m = weft_module_new(&kind, NULL), *blocks = weft_sequential_new();
    int64_t channels = c.stem;

    for (int i = 0; i < RESNET_BLOCKS; i++) {
        char name[16];

        snprintf(name, sizeof name, "%d", i);
        weft_module_add_child(blocks, name,
                              block_new(channels, c.blocks[i].out, c.blocks[i].stride, c.dtype));
        channels = c.blocks[i].out;
    }
    weft_module_add_child(m, "conv", conv_new(c.channels, c.stem, 3, 1, c.dtype));
    weft_module_add_child(m, "norm", norm_new(c.stem, c.dtype));
    weft_module_add_child(m, "blocks", blocks);
    weft_module_add_child(m, "head",
                          weft_linear_new((weft_linear_config){
                              .in = {channels}, .out = {c.classes}, .dtype = c.dtype}));
    weft_module_add_child(
        m, "loss", weft_cross_entropy_new((weft_cross_entropy_config){.classes = c.classes}));
    return m;
}

/* ---- over ranks ---- */

/* How a tensor of this module lies along "tp". */
static weft_placement along_tp(const weft_module *m)
{
    const char *name = weft_module_name(m);

    if (strcmp(name, "conv1") == 0 || strcmp(name, "norm1") == 0) return weft_shard(0);
    if (strcmp(name, "conv2") == 0) return weft_shard(1);
    return weft_replicate();
}

static weft_status spread_one(const weft_module_tensor *it, void *payload)
{
    weft_mesh *mesh = payload;
    weft_placement placements[WEFT_MAX_AXES];
    int tp = weft_mesh_axis(mesh, "tp");
    weft_tensor *spread;

    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        placements[a] = a == tp ? along_tp(it->module) : weft_replicate();
    spread = weft_distribute_tensor(it->tensor, mesh, placements, -1);
    return it->buffer ? weft_module_set_buffer(it->module, it->name, spread)
                      : weft_module_set_parameter(it->module, it->name, spread);
}

weft_status resnet_spread(weft_module *m, weft_mesh *mesh)
{
    return weft_module_each_tensor(m, spread_one, mesh);
}
