/*
 * vit.c: a Vision Transformer that learns to tell patterns apart, on images that the program draws.
 *
 *     vit                                      one process
 *     mpiexec -n 3 vit                         the same losses on three
 *     vit --mesh dp=2,tp=2 --ranks 4           two replicas, each over two threads
 *
 * The model is written for one device (vit/model.c). Along tp its plan spreads what makes a patch a
 * word, the heads, the hidden features and the classes; along dp are replicas, of which each has
 * its own images of a batch. At the end the model says what images are that it has not seen.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "common/command_line.h"
#include "common/say.h"
#include "vit/images.h"
#include "vit/model.h"

enum { BATCH = 20, UNSEEN = 100 };

struct options {
    const char *mesh;
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
    int steps;
};

struct trainer {
    const struct options *o;
    weft_mesh *mesh, *dp, *tp;
    weft_module *vit;
    weft_optim *adam;
};

/* ---- data ---- */

struct batch {
    int64_t rows; /* there may be none */
    int32_t classes[UNSEEN];
    float pixels[UNSEEN * IMAGE_ELEMENTS];
};

/* This replica's of `count` images: every replicas-th. */
static struct batch *read_batch(const struct trainer *t, int first, int count)
{
    struct batch *b = room_for(1, sizeof *b);

    for (int i = weft_mesh_coordinate(t->dp, 0); i < count; i += weft_mesh_size(t->dp)) {
        b->classes[b->rows] = image_draw(first + i, b->pixels + b->rows * IMAGE_ELEMENTS);
        b->rows++;
    }
    return b;
}

static weft_tensor *images_of(const struct batch *b)
{
    int64_t shape[] = {b->rows, IMAGE_CHANNELS, IMAGE_EDGE, IMAGE_EDGE};

    return weft_from_data(WEFT_F32, shape, 4, b->pixels);
}

/* ---- training ---- */

static weft_status step(struct trainer *t, int number)
{
    weft_scope *scope = weft_scope_open();
    struct batch *b = read_batch(t, number * BATCH, BATCH);
    weft_tensor *in[] = {images_of(b), weft_from_data(WEFT_I32, &b->rows, 1, b->classes)};
    weft_tensor *loss = weft_call_n(t->vit, in, 2);
    weft_status status = weft_data_parallel_backward(t->vit, loss, b->rows);
    double mean;

    weft_scope_close(scope);
    free(b);
    if (!status) status = weft_step(t->adam);
    if (!status) status = weft_data_parallel_loss(t->vit, &mean, NULL);
    if (!status && weft_world_rank() == 0) printf("step %2d  loss %.6f\n", number, mean);
    return status;
}

/* ---- what it has learned ---- */

/* How many of the images are of the class whose logit is largest. */
static weft_status count_right(struct trainer *t, const struct batch *b, int *right)
{
    weft_tensor *guesses = weft_argmax(weft_call(t->vit, images_of(b)), 1);
    double classes[UNSEEN];
    weft_status status = weft_read_f64(weft_full_tensor(guesses), classes, UNSEEN);

    *right = 0;
    for (int64_t i = 0; i < b->rows && !status; i++) *right += (int)classes[i] == b->classes[i];
    return status;
}

/* Images that come after those of the last step, over all replicas. */
static weft_status examine(struct trainer *t)
{
    struct batch *b = read_batch(t, t->o->steps * BATCH, UNSEEN);
    weft_scope *scope = weft_scope_open();
    int right = 0;
    double part = 0;
    weft_status status;

    weft_no_grad_open();
    weft_module_train(t->vit, false);
    status = count_right(t, b, &right);
    weft_no_grad_close();
    if (!status)
        status =
            weft_data_parallel_mean(t->vit, b->rows ? right / (double)b->rows : 0, b->rows, &part);
    if (!status && weft_world_rank() == 0)
        printf("%.0f of %d images that it had not seen are told right\n", part * (double)UNSEEN,
               UNSEEN);
    weft_scope_close(scope);
    free(b);
    return status;
}

/* ---- the program ---- */

static weft_status build(struct trainer *t)
{
    const struct options *o = t->o;
    weft_status status;

    t->mesh = o->mesh ? weft_mesh_new(WEFT_CPU, "%s", o->mesh)
                      : weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", weft_world_size());
    t->dp = t->mesh ? weft_mesh_sub(t->mesh, "dp") : NULL;
    t->tp = t->mesh ? weft_mesh_sub(t->mesh, "tp") : NULL;
    if (!t->dp || !t->tp) return weft_error_status();
    t->vit = vit_model_new((struct vit_model){.channels = IMAGE_CHANNELS,
                                              .height = IMAGE_EDGE,
                                              .width = IMAGE_EDGE,
                                              .patch = 4,
                                              .features = 48,
                                              .heads = 6,
                                              .hidden = 96,
                                              .layers = 2,
                                              .classes = IMAGE_CLASSES});
    status = weft_parallelize_module_strict(t->vit, t->tp, vit_model_plan);
    if (!status) status = weft_data_parallel(t->vit, t->dp, (weft_data_parallel_config){0});
    if (status) return status;
    t->adam = weft_adamw(t->vit, (weft_adamw_config){.lr = 2e-3});
    return t->adam ? WEFT_OK : weft_error_status();
}

/* What every rank does. */
static int run(void *payload)
{
    struct trainer t = {.o = payload};
    weft_status status;

    weft_manual_seed(1);
    status = build(&t);
    if (!status && weft_mesh_is_member(t.mesh)) {
        for (int i = 0; i < t.o->steps && !status; i++) status = step(&t, i);
        if (!status) status = examine(&t);
    }
    if (status) complain("%s", weft_error_message());
    weft_optim_release(t.adam);
    weft_module_release(t.vit);
    weft_mesh_release(t.dp);
    weft_mesh_release(t.tp);
    weft_mesh_release(t.mesh);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static const struct option_row rows[] = {
#include "vit/options.def"
    };
    static const struct command_line line = {
        .doc = "Train a small Vision Transformer on patterns, by replicas along dp, each over tp.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks)};
    struct options o = {.steps = 40};

    return command_line_run(&line, &o, argc, argv, run);
}
