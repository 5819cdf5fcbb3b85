/*
 * sample.c: one token after the other, drawn from the model's distribution.
 *
 * The window is padded to a few fixed lengths: causal attention ignores what follows the last
 * token, and few lengths mean few plans. examples/generate remembers keys and values instead.
 */
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/printable.h"
#include "common/say.h"

enum { LENGTH_STEP = 32 };
static const double temperature = 0.8;

/* Scores of the token that follows the window's first `used`; every rank gets all of them. */
static weft_status next_scores(double *scores, weft_module *model, const struct sampling *s,
                               const int32_t *window, int used)
{
    int padded = (used + LENGTH_STEP - 1) / LENGTH_STEP * LENGTH_STEP;
    int64_t shape[] = {1, padded < s->context ? padded : s->context};
    weft_scope *scope = weft_scope_open();
    weft_tensor *logits_btv = weft_call(model, weft_from_data(WEFT_I32, shape, 2, window));
    weft_tensor *last = logits_btv ? weft_slice(logits_btv, 1, used - 1, used) : NULL;
    weft_status status;

    if (last && weft_tensor_mesh(last)) last = weft_full_tensor(last);
    status = last ? weft_read_f64(last, scores, s->vocab) : weft_error_status();
    weft_scope_close(scope);
    return status;
}

/* Scores become weights on the way. */
static int draw(double *scores, const struct sampling *s, int index)
{
    uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    uint32_t counter[4] = {(uint32_t)index, 0, 0, UINT32_MAX}, word[4];
    double total = 0, top = scores[0], left;

    for (int64_t i = 1; i < s->vocab; i++) top = fmax(top, scores[i]);
    for (int64_t i = 0; i < s->vocab; i++)
        total += scores[i] = exp((scores[i] - top) / temperature);
    weft_philox(word, counter, key);
    left = total * word[0] * 0x1p-32;
    for (int64_t i = 0; i < s->vocab; i++)
        if ((left -= scores[i]) < 0) return (int)i;
    return (int)s->vocab - 1;
}

static void print_token(const struct sampling *s, struct printable *text, int token)
{
    if (weft_world_rank() != 0) return;
    if (s->bytes)
        printable_write(text, &(unsigned char){(unsigned char)token}, 1);
    else
        printf("%d ", token);
}

static weft_status generate(weft_module *model, const struct sampling *s, int32_t *window,
                            double *scores)
{
    struct printable text = {.out = stdout};
    int used = 1;

    print_token(s, &text, window[0] = s->first);
    for (int i = 0; i < s->count; i++) {
        weft_status status = next_scores(scores, model, s, window, used);

        if (status != WEFT_OK) return status;
        if (used == s->context) memmove(window, window + 1, (size_t)--used * sizeof *window);
        print_token(s, &text, window[used++] = draw(scores, s, i));
    }
    printable_end(&text);
    return WEFT_OK;
}

weft_status sample_text(weft_module *model, const struct sampling *s)
{
    int32_t *window = room_for((size_t)s->context + LENGTH_STEP, sizeof *window);
    double *scores = room_for((size_t)s->vocab, sizeof *scores);
    weft_status status;

    if (weft_world_rank() == 0) printf("\nsample\n");
    weft_module_train(model, false);
    weft_no_grad_open();
    status = generate(model, s, window, scores);
    weft_no_grad_close();
    weft_module_train(model, true);
    if (weft_world_rank() == 0) putchar('\n');
    free(window);
    free(scores);
    return status;
}
