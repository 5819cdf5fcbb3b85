/*
 * generate.c: write on from a prompt, tensor-parallel over all ranks, remembering keys and values.
 *
 *     generate --model gpt2 --prompt "It was"                  one process
 *     mpiexec -n 2 generate --model gpt2 --prompt "It was"     two: the same text
 *     generate --model gpt2 --prompt "It was" --ranks 4        four threads of one process
 *
 * Prompts of several lengths are one batch, padded on the left; each is written on as if it were
 * alone.
 *
 * Here is the loop; models, tokens, choices, prompts and options are in generate/.
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
#include "generate/prompts.h"
#include "generate/text.h"

struct writer {
    const struct options *o;
    struct model model;
    struct choice choice;
    struct text *text; /* on rank 0 only, as all that reads and prints text */
    struct prompts prompts;
    int64_t rows;     /* sequences: each prompt `batch` times */
    int64_t room;     /* tokens that each may have in the end */
    bool *shown;      /* [rows][room], false where a prompt is padded; NULL: nowhere */
    int32_t *written; /* [count][rows] */
    int64_t steps;    /* of which so many are there */
    double prompt_seconds, seconds;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Which prompt a sequence goes on from. */
static int64_t prompt_of(const struct writer *w, int64_t row) { return row / w->o->batch; }

/* ---- the prompts: rank 0 reads them, everybody gets them ---- */

static bool read_prompts(struct writer *w)
{
    const struct options *o = w->o;
    const char *folder = o->tokenizer ? o->tokenizer : o->model;
    char problem[512] = "";
    bool good;

    w->text = text_open(o->tokens.count && o->ids ? NULL : folder, problem, sizeof problem);
    good = w->text && prompts_read(&w->prompts, w->text, &o->prompts, &o->tokens, w->model.vocab,
                                   problem, sizeof problem);
    if (!good) complain("%s", problem);
    return good;
}

static weft_status take_prompts(struct writer *w)
{
    bool good = weft_world_rank() != 0 || read_prompts(w);
    weft_status status = prompts_share(&w->prompts, good, w->model.mesh);

    w->rows = (int64_t)w->prompts.count * w->o->batch;
    w->room = w->prompts.longest + w->o->count;
    if (status != WEFT_OK || !prompts_differ(&w->prompts)) return status;
    w->shown = room_for((size_t)(w->rows * w->room), sizeof *w->shown);
    for (int64_t i = 0; i < w->rows * w->room; i++)
        w->shown[i] = i % w->room >= prompts_padding(&w->prompts, prompt_of(w, i / w->room));
    return WEFT_OK;
}

/* ---- writing ---- */

static weft_tensor *logits_of(struct writer *w, const int32_t *ids, int64_t n)
{
    int64_t shape[] = {w->rows, n}, all[] = {w->rows, w->room};
    weft_tensor *tokens = weft_from_data(WEFT_I32, shape, 2, ids);

    if (!w->shown) return weft_gpt_next(w->model.module, tokens);
    return weft_gpt_next_masked(w->model.module, tokens,
                                weft_from_data(WEFT_BOOL, all, 2, w->shown));
}

/* The tokens that follow n more of each sequence: `ids` [rows, n]. */
static weft_status go_on(struct writer *w, const int32_t *ids, int64_t n, int32_t *next)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *logits = logits_of(w, ids, n);
    weft_status status = logits ? WEFT_OK : weft_error_status();

    if (status == WEFT_OK && next) status = choose(logits, &w->choice, next);
    weft_scope_close(scope);
    return status;
}

/* Columns [first, first + n) of the prompts, for every sequence. */
static weft_status read_chunk(struct writer *w, int64_t first, int64_t n)
{
    int32_t *ids = room_for((size_t)(n * w->rows), sizeof *ids);
    bool last = first + n == w->prompts.longest;
    weft_status status;

    for (int64_t i = 0; i < n * w->rows; i++)
        ids[i] = prompts_row(&w->prompts, prompt_of(w, i / n))[first + i % n];
    status = go_on(w, ids, n, last ? w->written : NULL);
    free(ids);
    return status;
}

static weft_status read_on(struct writer *w)
{
    int64_t chunk = w->o->chunk ? w->o->chunk : w->prompts.longest;
    weft_status status = WEFT_OK;
    double start = now();

    for (int64_t i = 0; i < w->prompts.longest && status == WEFT_OK; i += chunk) {
        int64_t left = w->prompts.longest - i;

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
        if (w->written[i * w->rows + row] == w->o->stop) return true;
    return false;
}

static bool all_stopped(const struct writer *w)
{
    for (int64_t row = 0; row < w->rows; row++)
        if (!has_stopped(w, row, w->steps)) return false;
    return true;
}

static weft_status write_on(struct writer *w)
{
    weft_status status = WEFT_OK;
    double start = now();

    while (w->steps < w->o->count && !all_stopped(w) && status == WEFT_OK) {
        int32_t *newest = w->written + (w->steps - 1) * w->rows;

        status = go_on(w, newest, 1, newest + w->rows);
        w->steps++;
    }
    w->seconds = now() - start;
    return status;
}

static weft_status check_room(const struct writer *w)
{
    int64_t needed = w->room - 1; /* the last one is not read again */

    if (!w->model.context || needed <= w->model.context) return WEFT_OK;
    complain("a prompt of %" PRId64 " tokens and %d more: the model sees %" PRId64,
             w->prompts.longest, w->o->count, w->model.context);
    return WEFT_ERR_ARG;
}

static weft_status generate(struct writer *w)
{
    size_t tokens = (size_t)w->o->count * (size_t)w->rows;
    weft_status status = check_room(w);

    w->written = room_for(tokens, sizeof *w->written);
    if (status == WEFT_OK) status = weft_module_cache(w->model.module, w->room);
    if (status != WEFT_OK || w->o->count == 0) return status;
    weft_no_grad_open();
    status = read_on(w);
    if (status == WEFT_OK) status = write_on(w);
    weft_no_grad_close();
    return status;
}

/* ---- what is printed ---- */

static void print_sequence(const struct writer *w, int64_t row)
{
    const int32_t *prompt = prompts_row(&w->prompts, prompt_of(w, row)) + w->prompts.longest;
    int64_t length = w->prompts.longest - prompts_padding(&w->prompts, prompt_of(w, row));
    struct printable text = {.out = stdout};

    for (int64_t i = -length; i < w->steps; i++) {
        int32_t id = i < 0 ? prompt[i] : w->written[i * w->rows + row];

        if (i > 0 && has_stopped(w, row, i)) break;
        if (w->o->ids)
            printf(i > -length ? " %d" : "%d", id);
        else
            text_print(w->text, id, &text);
    }
    printable_end(&text);
    putchar('\n');
}

static void report(const struct writer *w)
{
    int64_t more = (w->steps - 1) * w->rows, read = 0;

    if (weft_world_rank() != 0) return;
    for (int64_t row = 0; row < w->rows; row++) {
        print_sequence(w, row);
        read += w->prompts.longest - prompts_padding(&w->prompts, prompt_of(w, row));
    }
    fflush(stdout);
    fprintf(stderr, "prompt: %" PRId64 " tokens in %.1f ms\n", read, 1e3 * w->prompt_seconds);
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
    prompts_free(&w->prompts);
    free(w->shown);
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

    if (status == WEFT_OK) status = take_prompts(&w);
    if (status == WEFT_OK) status = generate(&w);
    if (status == WEFT_OK) report(&w);
    if (weft_error_status() != WEFT_OK) complain("%s", weft_error_message());
    take_down(&w);
    return status == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) { return options_run(argc, argv, run); }
