/*
 * embed.c: sentence embeddings by a BERT with the weights of a Hugging Face folder.
 *
 *     embed --model DIR < lines                     one process: a line of numbers per line
 *     mpiexec -n 3 embed --model DIR --similarity < lines
 *     embed --model DIR --ranks 5 FILE...           five threads of one process
 *
 * scripts/embed fetches a model. Here are the model and what is done with its result: the mean over
 * a line's tokens, at length 1. Rank 0 reads the text; options, input and the tokenizer are in
 * embed/.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "common/say.h"
#include "embed/input.h"
#include "embed/options.h"

struct embedder {
    const struct options *o;
    weft_mesh *mesh;
    weft_module *bert;
    int64_t vocab, width; /* of the model */
    struct input input;   /* rank 0 */
    struct batch batch;
    weft_tensor *kept; /* for --similarity: [lines, width] */
};

static bool speaks(void) { return weft_world_rank() == 0; }

/* ---- the model ---- */

/* Spread while it is without elements: each rank makes room for its shard only, and reads that. */
static weft_status build(struct embedder *e)
{
    const weft_plan *plan = e->o->sequence ? weft_bert_plan_sequence() : weft_bert_plan();
    weft_bert_config config;
    weft_weights *weights;
    weft_device before;
    weft_status status;
    char path[4096];

    snprintf(path, sizeof path, "%s/config.json", e->o->model);
    status = weft_bert_config_read(&config, path);
    if (status != WEFT_OK) return status;
    if (e->o->length > config.context) {
        complain("--length %d: the model takes %lld tokens", e->o->length,
                 (long long)config.context);
        return WEFT_ERR_ARG;
    }
    e->vocab = config.vocab;
    e->width = config.width;
    before = weft_set_default_device(WEFT_META);
    e->bert = weft_bert(config);
    weft_set_default_device(before);
    status = weft_parallelize_module(e->bert, e->mesh, plan);
    if (status == WEFT_OK) status = weft_module_materialize(e->bert, WEFT_CPU);
    if (status != WEFT_OK) return status;
    weights = weft_weights_open(e->o->model);
    status = weft_weights_load(e->bert, weights, weft_weight_names_of_family("bert"));
    weft_weights_close(weights);
    weft_module_train(e->bert, false);
    return status;
}

/* Mean of the hidden states [B, T, W] over each line's own tokens, at length 1: [B, W]. */
static weft_tensor *pool(const struct batch *b, weft_tensor *hidden)
{
    const int tokens[] = {1}, features[] = {1};
    int64_t shape[] = {b->rows, b->width, 1};
    weft_tensor *share = weft_full(WEFT_F32, shape, 3, 0), *mean;
    float *each = share ? weft_data(share) : NULL;

    for (int i = 0; each && i < b->rows; i++)
        for (int k = 0; k < b->lengths[i]; k++)
            each[(ptrdiff_t)i * b->width + k] = 1.0f / (float)b->lengths[i];
    mean = weft_sum(weft_mul(hidden, share), tokens, 1, false);
    return weft_mul(mean, weft_rsqrt(weft_sum(weft_square(mean), features, 1, true)));
}

static weft_tensor *embed(struct embedder *e)
{
    const struct batch *b = &e->batch;
    int64_t shape[] = {b->rows, b->width};
    weft_tensor *mask = weft_empty(WEFT_BOOL, shape, 2), *in[2];
    unsigned char *seen = mask ? weft_data(mask) : NULL;

    for (int i = 0; seen && i < b->rows; i++)
        for (int k = 0; k < b->width; k++) seen[(ptrdiff_t)i * b->width + k] = k < b->lengths[i];
    in[0] = weft_from_data(WEFT_I32, shape, 2, b->ids);
    in[1] = mask;
    return pool(b, weft_call_n(e->bert, in, 2));
}

/* ---- batches ---- */

/* Numbers of rank 0 on every rank. */
static weft_status share(struct embedder *e, int32_t *numbers, int64_t count)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = weft_from_data(WEFT_I32, &count, 1, numbers);
    weft_status status = t ? weft_mesh_broadcast(t, e->mesh, 0, 0) : weft_error_status();
    const int32_t *got = t ? weft_data(t) : NULL;

    for (int64_t i = 0; status == WEFT_OK && i < count; i++) numbers[i] = got[i];
    weft_scope_close(scope);
    return status;
}

/* The next batch, read by rank 0, on every rank. */
static weft_status next_batch(struct embedder *e)
{
    struct batch *b = &e->batch;
    int32_t rows = speaks() ? input_next(&e->input, b) : 0;
    int32_t sizes[] = {rows, b->width};
    weft_status status = share(e, sizes, 2);

    if (status != WEFT_OK) return status;
    b->rows = sizes[0];
    b->width = sizes[1];
    if (b->rows < 0) {
        complain("%s", e->input.problem);
        return WEFT_ERR_IO;
    }
    status = share(e, b->lengths, b->rows);
    return status == WEFT_OK ? share(e, b->ids, (int64_t)b->rows * b->width) : status;
}

static weft_status check_known(const struct embedder *e)
{
    const struct batch *b = &e->batch;

    for (int64_t i = 0; i < (int64_t)b->rows * b->width; i++) {
        if (b->ids[i] < e->vocab) continue;
        complain("token %d: the model knows those below %lld", b->ids[i], (long long)e->vocab);
        return WEFT_ERR_ARG;
    }
    return WEFT_OK;
}

static void print_tokens(const struct batch *b)
{
    for (int i = 0; i < b->rows; i++)
        for (int k = 0; k < b->lengths[i]; k++)
            printf("%d%c", b->ids[(ptrdiff_t)i * b->width + k], k + 1 < b->lengths[i] ? ' ' : '\n');
}

static void print_rows(const float *rows, int64_t count, int64_t width)
{
    for (int64_t i = 0; i < count * width; i++)
        printf("%.7f%c", (double)rows[i], (i + 1) % width ? ' ' : '\n');
}

/* For --similarity: below what there is. */
static weft_status keep(struct embedder *e, weft_tensor *rows)
{
    weft_tensor *all = e->kept ? weft_cat((weft_tensor *[]){e->kept, rows}, 2, 0) : rows;

    if (!all) return weft_error_status();
    weft_retain(all);
    weft_release(e->kept);
    e->kept = all;
    return WEFT_OK;
}

static weft_status print_similarity(struct embedder *e)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *cosines = e->kept ? weft_matmul_t(e->kept, e->kept, false, true) : NULL;

    if (cosines && speaks())
        print_rows(weft_data(cosines), weft_size(cosines, 0), weft_size(cosines, 1));
    weft_scope_close(scope);
    return weft_error_status();
}

static weft_status do_batch(struct embedder *e)
{
    weft_scope *scope;
    weft_tensor *rows;
    weft_status status;

    if (e->o->tokens) {
        if (speaks()) print_tokens(&e->batch);
        return WEFT_OK;
    }
    status = check_known(e);
    if (status != WEFT_OK) return status;
    scope = weft_scope_open();
    rows = embed(e);
    status = rows ? WEFT_OK : weft_error_status();
    if (rows && e->o->similarity)
        status = keep(e, rows);
    else if (rows && speaks())
        print_rows(weft_data(rows), e->batch.rows, e->width);
    weft_scope_close(scope);
    return status;
}

/* ---- the run ---- */

static weft_status run(struct embedder *e)
{
    weft_status status = next_batch(e);

    while (status == WEFT_OK && e->batch.rows > 0) {
        status = do_batch(e);
        if (status == WEFT_OK) status = next_batch(e);
    }
    return status == WEFT_OK && e->o->similarity ? print_similarity(e) : status;
}

/* Rank 0 opens the input; whether that went well is for all to know. */
static weft_status open_input(struct embedder *e)
{
    const struct options *o = e->o;
    int32_t opened = !speaks() || input_open(&e->input, o);
    weft_status status = share(e, &opened, 1);

    if (status == WEFT_OK && !opened) {
        complain("%s", e->input.problem);
        return WEFT_ERR_IO;
    }
    e->batch.ids = room_for((size_t)o->batch * (size_t)o->length, sizeof *e->batch.ids);
    e->batch.lengths = room_for((size_t)o->batch, sizeof *e->batch.lengths);
    return status;
}

static void take_down(struct embedder *e)
{
    weft_release(e->kept);
    weft_module_release(e->bert);
    weft_mesh_release(e->mesh);
    if (speaks()) input_close(&e->input);
    free(e->batch.ids);
    free(e->batch.lengths);
}

/* What every rank does. */
static int embed_lines(void *payload)
{
    struct embedder e = {.o = payload};
    weft_status status;

    weft_no_grad_open();
    e.mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    status = e.mesh ? open_input(&e) : weft_error_status();
    if (status == WEFT_OK && !e.o->tokens) status = build(&e);
    if (status == WEFT_OK) status = run(&e);
    if (weft_error_status() != WEFT_OK) complain("%s", weft_error_message());
    take_down(&e);
    weft_no_grad_close();
    return status == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) { return options_run(argc, argv, embed_lines); }
