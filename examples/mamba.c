/*
 * mamba.c: a small Mamba that learns text byte by byte: no attention, but a state for each channel
 * that a scan carries along the text.
 *
 *     mamba                                        one process, on sentences that it makes
 *     mpiexec -n 3 mamba --data FILE               three, on a text of yours
 *     mamba --mesh dp=2,tp=2 --ranks 4             two replicas, each over two threads
 *
 * The model is written for one device (mamba/mixer.c and model.c). Along tp its plan gives each
 * rank some of the channels, with all of their convolution and their scan; along dp are replicas,
 * of which each reads its own pieces of text. Losses are the same on any mesh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "common/command_line.h"
#include "common/say.h"
#include "common/text.h"
#include "mamba/model.h"

enum { BYTES = 256, SENTENCES = 400, SENTENCE_ROOM = 64 };

struct options {
    const char *data, *mesh;
    int context, batch, steps;
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
};

struct trainer {
    const struct options *o;
    struct text text;
    weft_mesh *mesh, *dp, *tp;
    weft_module *mamba;
    weft_optim *adam;
};

/* ---- text ---- */

/* One of `count` words for a place of a sentence, alike on every rank. */
static const char *word(const char *const *words, int count, int sentence, int place)
{
    uint32_t key[2] = {7, 0}, counter[4] = {(uint32_t)sentence, (uint32_t)place, 0, 0}, drawn[4];

    weft_philox(drawn, counter, key);
    return words[drawn[0] % (uint32_t)count];
}

/* Who does it comes back at the end of a sentence, so that there is something to remember. */
static void make_text(struct text *text)
{
    static const char *const who[] = {"anna", "ben", "the cat", "my uncle", "nobody"};
    static const char *const does[] = {"sees", "paints", "buys", "forgets"};
    static const char *const what[] = {"a boat", "two apples", "the moon", "some bread"};

    *text = (struct text){.bytes = room_for(SENTENCES, SENTENCE_ROOM), .token_bytes = 1};
    for (int i = 0; i < SENTENCES; i++) {
        const char *name = word(who, 5, i, 0);

        text->train +=
            snprintf((char *)text->bytes + text->train, SENTENCE_ROOM, "%s %s %s, says %s.\n", name,
                     word(does, 4, i, 1), word(what, 4, i, 2), name);
    }
}

/* Every rank reads the file for itself; a problem is told by the first. */
static bool find_text(struct trainer *t)
{
    char problem[256];

    if (!t->o->data) make_text(&t->text);
    if (!t->o->data && t->text.train > t->o->context) return true;
    if (!t->o->data)
        snprintf(problem, sizeof problem, "the sentences have %lld bytes; --context %d is too long",
                 (long long)t->text.train, t->o->context);
    else if (text_load(&t->text, t->o->data, 1, BYTES, t->o->context, problem, sizeof problem))
        return true;
    complain("%s", problem);
    return false;
}

/* ---- training ---- */

static weft_status step(struct trainer *t, int number)
{
    const struct options *o = t->o;
    int replicas = weft_mesh_size(t->dp), replica = weft_mesh_coordinate(t->dp, 0);
    struct piece piece = {.seed = 1, .step = number, .context = o->context};
    int64_t shape[] = {weft_chunk_size(o->batch, replicas, replica), o->context};
    int32_t *tokens = room_for((size_t)o->batch * (size_t)o->context, sizeof *tokens);
    int32_t *targets = room_for((size_t)o->batch * (size_t)o->context, sizeof *targets);
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[2];
    weft_status status;
    double loss;

    piece.first_row = (int)weft_chunk_offset(o->batch, replicas, replica);
    piece.rows = (int)shape[0];
    text_batch(&t->text, piece, tokens, targets);
    in[0] = weft_from_data(WEFT_I32, shape, 2, tokens);
    in[1] = weft_from_data(WEFT_I32, shape, 2, targets);
    status =
        weft_data_parallel_backward(t->mamba, weft_call_n(t->mamba, in, 2), shape[0] * shape[1]);
    weft_scope_close(scope);
    free(tokens);
    free(targets);
    if (!status) status = weft_clip_grad_norm(t->mamba, 1, NULL);
    if (!status) status = weft_step(t->adam);
    if (!status) status = weft_data_parallel_loss(t->mamba, &loss, NULL);
    if (!status && weft_world_rank() == 0) printf("step %2d  loss %.6f\n", number, loss);
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
    t->mamba = mamba_new(
        (struct mamba){.vocab = BYTES,
                       .layers = 2,
                       .mixer = {.width = 32, .inner = 64, .state = 8, .rank = 4, .taps = 4}});
    status = weft_parallelize_module_strict(t->mamba, t->tp, mamba_plan);
    if (!status) status = weft_data_parallel(t->mamba, t->dp, (weft_data_parallel_config){0});
    if (status) return status;
    t->adam = weft_adamw(t->mamba, (weft_adamw_config){.lr = 1e-2});
    return t->adam ? WEFT_OK : weft_error_status();
}

/* What every rank does. */
static int run(void *payload)
{
    struct trainer t = {.o = payload};
    weft_status status;

    weft_manual_seed(1);
    if (!find_text(&t)) {
        text_free(&t.text);
        return EXIT_FAILURE;
    }
    status = build(&t);
    if (!status && weft_mesh_is_member(t.mesh))
        for (int i = 0; i < t.o->steps && !status; i++) status = step(&t, i);
    if (status) complain("%s", weft_error_message());
    weft_optim_release(t.adam);
    weft_module_release(t.mamba);
    weft_mesh_release(t.dp);
    weft_mesh_release(t.tp);
    weft_mesh_release(t.mesh);
    text_free(&t.text);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static const struct option_row rows[] = {
#include "mamba/options.def"
    };
    static const struct command_line line = {
        .doc = "Train a small Mamba on bytes, by replicas along dp, each over tp by channels.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks)};
    struct options o = {.context = 48, .batch = 8, .steps = 60};

    return command_line_run(&line, &o, argc, argv, run);
}
