/*
 * test_resnet.c: a residual network whose batch is spread over ranks equals PyTorch with the whole
 * batch on one (make_resnet.py): logits, every gradient, losses, weights and running statistics of
 * three steps of SGD, and logits in evaluation. Norms are over the whole batch. Six
 * images divide by few numbers of ranks: with 4 and 8 some ranks have none.
 */
/* mpi: 3 */
#include "models/resnet.h"
#include "support/given.h"
#include "support/golden.h"

enum { BATCH = 6, CHANNELS = 3, HEIGHT = 9, WIDTH = 7, CLASSES = 5, STEPS = 3, NORMS = 6 };

static const double bound = 1e-10;

/* ---- a model over a mesh, and its inputs ---- */

static weft_module *made(const struct wt_golden *golden, weft_mesh *mesh)
{
    weft_module *m = wt_own(resnet_new((struct resnet){.channels = CHANNELS,
                                                       .classes = CLASSES,
                                                       .stem = 4,
                                                       .blocks = {{4, 1}, {6, 2}},
                                                       .dtype = WEFT_F64}));

    WT_ALL(m != NULL && wt_golden_load(golden, m));
    WT_EQ(resnet_spread(m, mesh), WEFT_OK);
    return m;
}

/* Spread by images over "dp", where the mesh has it; whole along all other axes. */
static weft_tensor *by_images(weft_tensor *whole, weft_mesh *mesh)
{
    weft_placement placements[WEFT_MAX_AXES];

    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        placements[a] = a == weft_mesh_axis(mesh, "dp") ? weft_shard(0) : weft_replicate();
    return weft_distribute_tensor(whole, mesh, placements, -1);
}

static weft_tensor *images(weft_mesh *mesh)
{
    int64_t shape[] = {BATCH, CHANNELS, HEIGHT, WIDTH};
    double values[BATCH * CHANNELS * HEIGHT * WIDTH];

    for (int64_t i = 0; i < BATCH * CHANNELS * HEIGHT * WIDTH; i++)
        values[i] = wt_golden_formula(i, 20, 1, 0);
    return by_images(weft_from_data(WEFT_F64, shape, 4, values), mesh);
}

static weft_tensor *classes(weft_mesh *mesh)
{
    int64_t values[BATCH], count = BATCH;

    for (int64_t i = 0; i < BATCH; i++) values[i] = (3 * i + 1) % CLASSES;
    return by_images(weft_from_data(WEFT_I64, &count, 1, values), mesh);
}

/* ---- beside PyTorch ---- */

/* A training step's forward and backward, no more. */
static void backward(weft_module *m, weft_mesh *mesh)
{
    weft_scope *scope = weft_scope_open();

    WT_EQ(weft_backward(weft_call_n(m, (weft_tensor *[]){images(mesh), classes(mesh)}, 2)),
          WEFT_OK);
    weft_scope_close(scope);
}

static double step(weft_module *m, weft_mesh *mesh, weft_optim *optim)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[] = {images(mesh), classes(mesh)}, *loss = weft_call_n(m, in, 2);
    double value = weft_item(weft_full_tensor(weft_detach(loss)));

    wt_step_on_loss(scope, loss, optim);
    return value;
}

static weft_status compare_buffer(const weft_module_tensor *it, void *payload)
{
    const struct wt_golden *golden = payload;
    char key[96];

    if (!it->buffer) return WEFT_OK;
    snprintf(key, sizeof key, "buffer.%s", it->path);
    WT_ALL(wt_golden_matches(golden, key, it->tensor, WT_WITHIN(bound)));
    return WEFT_OK;
}

static void train(struct wt_golden *golden, weft_module *m, weft_mesh *mesh)
{
    weft_optim *sgd =
        wt_own(weft_sgd(m, (weft_sgd_config){.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3}));
    const int64_t steps = STEPS;
    double losses[STEPS];

    for (int i = 0; i < STEPS; i++) losses[i] = step(m, mesh, sgd);
    WT_ALL(wt_golden_matches(golden, "losses", weft_from_data(WEFT_F64, &steps, 1, losses),
                             WT_WITHIN(bound)));
    wt_golden_parameters(golden, m, "after", bound);
    WT_EQ(weft_module_each_tensor(m, compare_buffer, golden), WEFT_OK);
}

static void check(weft_mesh *mesh)
{
    struct wt_golden *golden = wt_golden_open("resnet");
    weft_module *m = made(golden, mesh);

    WT_ALL(wt_golden_matches(golden, "result", weft_call(m, images(mesh)), WT_WITHIN(bound)));
    step(m, mesh, NULL);
    wt_golden_parameters(golden, m, "grad", bound);
    m = made(golden, mesh);
    train(golden, m, mesh);
    weft_module_train(m, false);
    WT_ALL(wt_golden_matches(golden, "evaluated", weft_call(m, images(mesh)), WT_WITHIN(bound)));
}

static int64_t sent(const struct wt_world *w, weft_coll kind, weft_direction direction)
{
    return weft_ledger_count(w->ledger, kind, direction, NULL);
}

/* ---- layouts ---- */

WT_TEST_IN(resnet__by_images_equals_pytorch, w, wt_world_open_mesh("dp=%d", weft_world_size()))
{
    check(w->mesh);
}

/* The inner channels of each block are spread, 4 and 6 of them: with 8 ranks some have none. */
WT_TEST_IN_WORLD(resnet__by_channels_equals_pytorch, w) { check(w->mesh); }

WT_TEST_IN(resnet__by_images_and_channels_equals_pytorch, w, wt_world_open_two_axes())
{
    check(w->mesh);
}

/* Each norm sends its sums twice forward, a mean and a variance of each channel, and twice
 * backward, and the loss its own once. Convolutions, pooling and the head send nothing. */
WT_TEST_IN(resnet__by_images_only_norms_and_the_loss_send, w,
           wt_world_open_mesh("dp=%d", weft_world_size()))
{
    weft_module *m = made(wt_golden_open("resnet"), w->mesh);
    int64_t several = wt_ranks() > 1;

    backward(m, w->mesh);
    WT_EQ(sent(w, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_FORWARD), several * (2 * NORMS + 1));
    WT_EQ(sent(w, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_BACKWARD), several * 2 * NORMS);
    WT_EQ(sent(w, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY), several * (4 * NORMS + 1));
    (void)wt_moved(w, WEFT_COLL_COUNT);
}

/* One sum a block, of what its second convolution makes of each rank's channels. */
WT_TEST_IN_WORLD(resnet__by_channels_each_block_sends_a_sum, w)
{
    weft_module *m = made(wt_golden_open("resnet"), w->mesh);

    WT_ALL(wt_is_placed(weft_module_parameter(m, "blocks.1.conv1.weight"), "S(0)"));
    WT_ALL(wt_is_placed(weft_module_buffer(m, "blocks.1.norm1.running_var"), "S(0)"));
    WT_ALL(wt_is_placed(weft_module_parameter(m, "blocks.1.conv2.weight"), "S(1)"));
    backward(m, w->mesh);
    WT_EQ(sent(w, WEFT_COLL_COUNT, WEFT_DIRECTION_FORWARD), wt_ranks() > 1 ? RESNET_BLOCKS : 0);
    (void)wt_moved(w, WEFT_COLL_COUNT);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "resnet"); }
