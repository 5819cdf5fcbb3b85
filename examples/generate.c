/*
 * generate.c: write on from a prompt, tensor-parallel over all ranks, remembering keys and values.
 *
 *     generate --model gpt2 --prompt "It was"                  one process
 *     mpiexec -n 2 generate --model gpt2 --prompt "It was"     two: the same text
 *     generate --model gpt2 --prompt "It was" --ranks 4        four threads of one process
 *
 * Here is the loop; models, tokens, choices and options are in generate/.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/weft.h>

#include "common/say.h"
#include "generate/choose.h"
#include "generate/model.h"
#include "generate/options.h"
#include "generate/text.h"

struct writer {
    const struct options *o;
    struct model model;
    struct choice choice;
    struct text *text; /* on rank 0 only, as all that reads and prints text */
    int32_t *prompt;
    int64_t prompt_tokens;
    int32_t *written; /* [count][batch] */
    int64_t steps;    /* of which so many are there */
    double prompt_seconds, seconds;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the prompt: rank 0 reads it, everybody gets it ---- */

static int64_t read_prompt(struct writer *w)
{
    const struct options *o = w->o;
    const char *folder = o->tokenizer ? o->tokenizer : o->model;
    char problem[512] = "";
    int64_t n = -1;

    w->text = text_open(o->tokens && o->ids ? NULL : folder, problem, sizeof problem);
    if (w->text && o->tokens)
        n = text_numbers(o->tokens, w->model.vocab, &w->prompt, problem, sizeof problem);
    if (w->text && o->prompt)
        n = text_tokens(w->text, o->prompt, w->model.vocab, &w->prompt, problem, sizeof problem);
    if (n < 0) complain("%s", problem);
    return n;
}

static weft_status share_count(struct writer *w)
{
    int64_t one[] = {1}, n = weft_world_rank() == 0 ? read_prompt(w) : 0;
    weft_tensor *count = weft_from_data(WEFT_I64, 1, one, &n);
    weft_status status = weft_mesh_broadcast(count, w->model.mesh, 0, 0);

    if (status != WEFT_OK) return status;
    w->prompt_tokens = *(int64_t *)weft_data(count);
    return w->prompt_tokens > 0 ? WEFT_OK : WEFT_ERR_ARG;
}

static weft_status share_prompt(struct writer *w)
{
    weft_scope *scope = weft_scope_open();
    weft_status status = share_count(w);
    int64_t n = w->prompt_tokens;

    if (status == WEFT_OK && weft_world_rank() != 0)
        w->prompt = room_for((size_t)n, sizeof *w->prompt);
    if (status == WEFT_OK) {
        weft_tensor *ids = weft_from_data(WEFT_I32, 1, &n, w->prompt);

        status = weft_mesh_broadcast(ids, w->model.mesh, 0, 0);
        for (int64_t i = 0; i < n; i++) w->prompt[i] = ((int32_t *)weft_data(ids))[i];
    }
    weft_scope_close(scope);
    return status;
}

/* ---- writing ---- */

/* The tokens that follow n more of each sequence: `ids` [batch, n]. */
static weft_status go_on(struct writer *w, const int32_t *ids, int64_t n, int32_t *next)
{
    weft_scope *scope = weft_scope_open();
    int64_t shape[] = {w->o->batch, n};
    weft_tensor *tokens = weft_from_data(WEFT_I32, 2, shape, ids);
    weft_tensor *logits = weft_gpt_next(w->model.module, tokens);
    weft_status status = logits ? WEFT_OK : weft_error_status();

    if (status == WEFT_OK && next) status = choose(logits, &w->choice, next);
    weft_scope_close(scope);
    return status;
}

/* Tokens [first, first + n) of the prompt, for every sequence. */
static weft_status read_chunk(struct writer *w, int64_t first, int64_t n)
{
    int32_t *ids = room_for((size_t)(n * w->o->batch), sizeof *ids);
    bool last = first + n == w->prompt_tokens;
    weft_status status;

    for (int64_t i = 0; i < n * w->o->batch; i++) ids[i] = w->prompt[first + i % n];
    status = go_on(w, ids, n, last ? w->written : NULL);
    free(ids);
    return status;
}

static weft_status take_prompt(struct writer *w)
{
    int64_t chunk = w->o->chunk ? w->o->chunk : w->prompt_tokens;
    weft_status status = WEFT_OK;
    double start = now();

    for (int64_t i = 0; i < w->prompt_tokens && status == WEFT_OK; i += chunk) {
        int64_t left = w->prompt_tokens - i;

        status = read_chunk(w, i, left < chunk ? left : chunk);
    }
    w->prompt_seconds = now() - start;
    w->steps = 1;
    return status;
}

/* Has the sequence met the stop token? */
static bool has_stopped(const struct writer *w, int64_t row, int64_t steps)
{
    for (int64_t i = 0; i < steps && w->o->stop >= 0; i++)
        if (w->written[i * w->o->batch + row] == w->o->stop) return true;
    return false;
}

static bool all_stopped(const struct writer *w)
{
    for (int64_t row = 0; row < w->o->batch; row++)
        if (!has_stopped(w, row, w->steps)) return false;
    return true;
}

static weft_status write_on(struct writer *w)
{
    weft_status status = WEFT_OK;
    double start = now();

    while (w->steps < w->o->count && !all_stopped(w) && status == WEFT_OK) {
        int32_t *newest = w->written + (w->steps - 1) * w->o->batch;

        status = go_on(w, newest, 1, newest + w->o->batch);
        w->steps++;
    }
    w->seconds = now() - start;
    return status;
}

static weft_status check_room(const struct writer *w)
{
    int64_t needed = w->prompt_tokens + w->o->count - 1; /* the last one is not read again */

    if (!w->model.context || needed <= w->model.context) return WEFT_OK;
    complain("a prompt of %" PRId64 " tokens and %d more: the model sees %" PRId64,
             w->prompt_tokens, w->o->count, w->model.context);
    return WEFT_ERR_ARG;
}

static weft_status generate(struct writer *w)
{
    size_t tokens = (size_t)w->o->count * (size_t)w->o->batch;
    weft_status status = check_room(w);

    w->written = room_for(tokens, sizeof *w->written);
    if (status == WEFT_OK)
        status = weft_module_cache(w->model.module, w->prompt_tokens + w->o->count);
    if (status != WEFT_OK || w->o->count == 0) return status;
    weft_no_grad_begin();
    status = take_prompt(w);
    if (status == WEFT_OK) status = write_on(w);
    weft_no_grad_end();
    return status;
}

/* ---- what is printed ---- */

static void print_sequence(const struct writer *w, int64_t row)
{
    struct printable text = {.out = stdout};

    for (int64_t i = -w->prompt_tokens; i < w->steps; i++) {
        int32_t id = i < 0 ? w->prompt[w->prompt_tokens + i] : w->written[i * w->o->batch + row];

        if (i > 0 && has_stopped(w, row, i)) break;
        if (w->o->ids)
            printf(i > -w->prompt_tokens ? " %d" : "%d", id);
        else
            text_print(w->text, id, &text);
    }
    printable_end(&text);
    putchar('\n');
}

static void report(const struct writer *w)
{
    int64_t more = (w->steps - 1) * w->o->batch;

    if (weft_world_rank() != 0) return;
    for (int64_t row = 0; row < w->o->batch; row++) print_sequence(w, row);
    fflush(stdout);
    fprintf(stderr, "prompt: %" PRId64 " tokens in %.1f ms\n", w->prompt_tokens * w->o->batch,
            1e3 * w->prompt_seconds);
    if (more > 0 && w->seconds > 0)
        fprintf(stderr, "then: %.1f tokens/s on %d ranks\n", (double)more / w->seconds,
                weft_world_size());
}

/* ---- the run ---- */

static void take_down(struct writer *w)
{
    weft_generator_release(w->choice.g);
    model_free(&w->model);
    text_close(w->text);
    free(w->prompt);
    free(w->written);
}

/* What every rank does. */
static int run(void *payload)
{
    const struct options *o = payload;
    struct writer w = {.o = o,
                       .choice = {.temperature = o->temperature,
                                  .top_k = o->top_k,
                                  .top_p = o->top_p,
                                  .g = weft_generator_new(o->seed)}};
    weft_status status = model_make(&w.model, o);

    if (status == WEFT_OK) status = share_prompt(&w);
    if (status == WEFT_OK) status = generate(&w);
    if (status == WEFT_OK) report(&w);
    if (weft_error_status() != WEFT_OK) complain("%s", weft_error_message());
    take_down(&w);
    return status == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) { return options_run(argc, argv, run); }
