/*
 * sample.c: one byte after the other, drawn from the model's distribution.
 *
 * The window is padded to a few fixed lengths: causal attention ignores what follows the last
 * byte, and few lengths mean few plans.
 */
#include "sample.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 256, LENGTH_STEP = 32 };
static const double temperature = 0.8;

/* Scores of the byte that follows the window's first `used` bytes; every rank gets all of them. */
static weft_status next_scores(double *scores, weft_module *gpt, const int32_t *window, int used,
                               int context)
{
    int padded = (used + LENGTH_STEP - 1) / LENGTH_STEP * LENGTH_STEP;
    int64_t shape[] = {1, padded < context ? padded : context};
    weft_scope *scope = weft_scope_open();
    weft_tensor *logits_btv = weft_call(gpt, weft_from_data(WEFT_I32, 2, shape, window));
    weft_tensor *last = logits_btv ? weft_slice(logits_btv, 1, used - 1, used) : NULL;
    weft_status status;

    if (last && weft_tensor_mesh(last)) last = weft_full_tensor(last);
    status = last ? weft_read_f64(last, scores, VOCAB) : weft_error_status();
    weft_scope_close(scope);
    return status;
}

static int draw(const double *scores, uint64_t seed, int index)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)index, 0, 0, UINT32_MAX}, word[4];
    double weight[VOCAB], total = 0, top = scores[0], left;

    for (int i = 1; i < VOCAB; i++) top = fmax(top, scores[i]);
    for (int i = 0; i < VOCAB; i++) total += weight[i] = exp((scores[i] - top) / temperature);
    weft_philox(word, counter, key);
    left = total * word[0] * 0x1p-32;
    for (int i = 0; i < VOCAB; i++)
        if ((left -= weight[i]) < 0) return i;
    return VOCAB - 1;
}

static void print_byte(int byte)
{
    bool shown = byte >= 0x80 || isprint(byte) || byte == '\n' || byte == '\t';

    if (weft_world_rank() == 0) putchar(shown ? byte : '?');
}

static weft_status generate(weft_module *gpt, int32_t *window, int used, int count, int context,
                            uint64_t seed)
{
    double scores[VOCAB];

    for (int i = 0; i < count; i++) {
        weft_status status = next_scores(scores, gpt, window, used, context);
        int byte;

        if (status != WEFT_OK) return status;
        byte = draw(scores, seed, i);
        print_byte(byte);
        if (used == context) memmove(window, window + 1, (size_t)--used * sizeof *window);
        window[used++] = byte;
    }
    return WEFT_OK;
}

weft_status sample_text(weft_module *gpt, const unsigned char *prompt, int prompt_bytes, int count,
                        int context, uint64_t seed)
{
    int32_t *window = calloc((size_t)context + LENGTH_STEP, sizeof *window);
    weft_status status;

    if (!window) return WEFT_ERR_MEMORY;
    if (weft_world_rank() == 0) printf("\nsample\n");
    for (int i = 0; i < prompt_bytes; i++) print_byte(window[i] = prompt[i]);
    weft_module_train(gpt, false);
    weft_no_grad_begin();
    status = generate(gpt, window, prompt_bytes, count, context, seed);
    weft_no_grad_end();
    weft_module_train(gpt, true);
    if (weft_world_rank() == 0) putchar('\n');
    free(window);
    return status;
}
