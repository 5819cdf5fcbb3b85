/*
 * fuzz_texts.c: what programs and users write. The first character of an input says what it is:
 *
 *     g... l... b...  config.json of GPT-2, Llama, BERT       j...    JSON
 *     p...            a plan                                  P...    placements
 *     n...            a rule for names: the pattern of a path, the names, the path, a line each
 */
/* trial 3 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "fuzz/support.h"
#include "io/json/json_reader.h"
#include "io/weights/weight_names.h"

enum { TEXT = 4096, LAYERS = 8 };

/* ---- config.json: what is accepted is a model, or refused once more with a sentence ---- */

static void try_module(weft_module *module)
{
    fuzz_made(module);
    weft_module_release(module);
}

static void try_gpt(const char *path)
{
    weft_gpt_config c;

    if (!fuzz_status(weft_gpt_config_read(&c, path))) return;
    FUZZ_NEED(isfinite(c.eps) && c.eps > 0 && c.layers > 0);
    if (c.layers <= LAYERS) try_module(weft_gpt(c));
}

static void try_llama(const char *path)
{
    weft_llama_config c;

    if (!fuzz_status(weft_llama_config_read(&c, path))) return;
    FUZZ_NEED(isfinite(c.eps) && c.eps > 0 && c.layers > 0);
    FUZZ_NEED(isfinite(c.rotary.base) && c.rotary.base > 0);
    if (c.layers <= LAYERS) try_module(weft_llama(c));
}

static void try_bert(const char *path)
{
    weft_bert_config c;

    if (!fuzz_status(weft_bert_config_read(&c, path))) return;
    FUZZ_NEED(isfinite(c.eps) && c.eps > 0 && c.layers > 0);
    if (c.layers <= LAYERS) try_module(weft_bert(c));
}

/* ---- plans and placements ---- */

static void try_plan(const char *text)
{
    weft_plan *plan = weft_plan_parse(text);

    fuzz_made(plan);
    weft_plan_release(plan);
}

/* What is read is printed, and what is printed is read as the same. */
static void try_placements(const char *text)
{
    weft_placement read[WEFT_MAX_AXES], again[WEFT_MAX_AXES];
    int count = weft_placements_parse(read, WEFT_MAX_AXES, text), length;
    char printed[TEXT], twice[TEXT];

    FUZZ_NEED((count < 0) == (weft_error_status() != WEFT_OK));
    if (!fuzz_status(weft_error_status())) return;
    length = weft_placements_format(read, count, printed, sizeof printed);
    FUZZ_NEED(length > 0 && length < TEXT);
    FUZZ_NEED(weft_placements_parse(again, WEFT_MAX_AXES, printed) == count);
    weft_placements_format(again, count, twice, sizeof twice);
    FUZZ_NEED(strcmp(printed, twice) == 0);
}

/* ---- names ---- */

static void try_names(char *text)
{
    weft_weight_rule rule = {.parameter = text};
    const char *const ignored[] = {text, NULL};
    const weft_weight_names names = {"fuzz", 1, &rule, ignored};
    struct wf_name_candidates c;
    char *line = strchr(text, '\n'), *path;

    if (!line) return;
    *line++ = '\0';
    path = strchr(line, '\n');
    if (!path) return;
    *path++ = '\0';
    rule.name = line;
    if (strlen(text) > 200) return; /* fnmatch of a pattern of many stars takes its time */
    if (fuzz_status(wf_name_candidates_of(&c, &names, path))) {
        for (int i = 0; i < c.count; i++)
            for (int k = 0; k < c.joined[i]; k++) FUZZ_NEED(strlen(c.names[i][k]) < SIZE_MAX);
        wf_name_candidates_free(&c);
    }
}

/* ---- JSON ---- */

static void try_json(const uint8_t *bytes, size_t size)
{
    struct wf_json_reader r;
    int64_t whole;
    double real;

    wf_json_reader_init(&r, (const char *)bytes, size);
    FUZZ_NEED(!wf_json_skip_value(&r) || wf_json_reader_expect_end(&r) || r.failed);
    FUZZ_NEED(!r.failed || r.problem[0]);
    wf_json_reader_init(&r, (const char *)bytes, size);
    if (wf_json_read_integer(&r, &whole)) {
        wf_json_reader_init(&r, (const char *)bytes, size);
        FUZZ_NEED(wf_json_read_number(&r, &real) &&
                  fabs(real - (double)whole) <= fabs(real) * 1e-9);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text;

    fuzz_begin();
    weft_set_default_device(WEFT_META);
    if (size == 0) return 0;
    text = fuzz_text(bytes + 1, size - 1);
    if (bytes[0] == 'g') try_gpt(fuzz_file("config.json", bytes + 1, size - 1));
    if (bytes[0] == 'l') try_llama(fuzz_file("config.json", bytes + 1, size - 1));
    if (bytes[0] == 'b') try_bert(fuzz_file("config.json", bytes + 1, size - 1));
    if (bytes[0] == 'p') try_plan(text);
    if (bytes[0] == 'P') try_placements(text);
    if (bytes[0] == 'n') try_names(text);
    if (bytes[0] == 'j') try_json(bytes + 1, size - 1);
    free(text);
    return 0;
}
