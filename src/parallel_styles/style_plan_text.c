/*
 * style_plan_text.c: plans as text, a line per pattern:
 *
 *     # what is split how
 *     blocks.*.norm?     sequence
 *     blocks.*.mlp.down  rowwise  output=S(1) keep
 *
 * A plan that was read is one block of memory: the lines, then a copy of the text that their
 * patterns and layouts point into.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/call_context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"
#include "parallel_styles/style.h"

/* The line being read. */
struct reader {
    const char *name; /* of the file, "plan" for text */
    int line;
};

enum { PLAN_BYTES = 1 << 26 }; /* what is larger is another file */

static const char spaces[] = " \t\r";

weft_status wf_error_add_prefix(const char *whose)
{
    weft_status status = weft_error_status();
    char *cause, *from, *text;
    const char *module = wf_current_module_path();

    if (status == WEFT_OK) return status;
    text = cause = wf_strdup(weft_error_message());
    from = strrchr(cause, '('); /* where in the source: the new failure has its own, */
    if (from && from > cause) from[-1] = '\0';
    if (module[0] && strncmp(text, "in module ", 10) == 0) /* and its module */
        text = strstr(text, ": ") + 2;
    weft_error_clear();
    WF_FAIL(status, "%s: %s", whose, text);
    wf_free(cause);
    return status;
}

weft_status wf_error_add_plan_line(const char *name, int line)
{
    char *whose;
    weft_status status;

    if (!line) return weft_error_status();
    whose = wf_format("%s line %d", name, line);
    status = wf_error_add_prefix(whose);
    wf_free(whose);
    return status;
}

/* The next word of a line, ended by a NUL; NULL at the end. */
static char *next_word_of_line(char **at)
{
    char *word = *at + strspn(*at, spaces);

    if (!*word) return NULL;
    *at = word + strcspn(word, spaces);
    if (**at) *(*at)++ = '\0';
    return word;
}

/* ---- words ---- */

static weft_status check_layouts_text(const struct reader *r, const char *text, const char *field)
{
    struct wf_layout_list layouts;

    if (wf_layout_list_parse(&layouts, text, field) == WEFT_OK) return WEFT_OK;
    return wf_error_add_plan_line(r->name, r->line);
}

/* "input=S(0)": true when the word is one of those. `before`: what an earlier one has said. */
static bool parse_layout_setting(weft_style_options *o, const char *word, const char **value,
                                 const char **before)
{
    const struct {
        const char *name, **field;
    } settings[] = {{"input=", &o->input_layouts},
                    {"output=", &o->output_layouts},
                    {"desired_input=", &o->desired_input_layouts},
                    {"desired_output=", &o->desired_output_layouts},
                    {"segments=", &o->segments}};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        size_t length = strlen(settings[i].name);

        if (strncmp(word, settings[i].name, length) != 0) continue;
        *before = *settings[i].field;
        *value = *settings[i].field = word + length;
        return true;
    }
    return false;
}

static weft_status parse_style_option(const struct reader *r, weft_style *style, const char *word)
{
    const char *layouts = NULL, *before = NULL;

    if (parse_layout_setting(&style->options, word, &layouts, &before)) {
        WF_NEED(!before, WEFT_ERR_ARG, "%s line %d: '%s', but '%s' was said before", r->name,
                r->line, word, before);
        return layouts == style->options.segments ? WEFT_OK : check_layouts_text(r, layouts, word);
    }
    if (strcmp(word, "keep") == 0 || strcmp(word, "local") == 0)
        style->options.keep_distributed = *word == 'k';
    else if (strcmp(word, "local_inputs") == 0)
        style->options.local_inputs = true;
    else if (strcmp(word, "f32_sums") == 0)
        style->options.f32_sums = true;
    else if (strcmp(word, "optional") == 0)
        style->optional = true;
    else
        return WF_FAIL(
            WEFT_ERR_ARG,
            "%s line %d: '%s' is none of input=, output=, desired_input=, "
            "desired_output=, segments=, keep, local, local_inputs, f32_sums and optional",
            r->name, r->line, word);
    return WEFT_OK;
}

static weft_status parse_style_name(const struct reader *r, weft_style *style, const char *name)
{
    weft_style_kind kind = wf_style_kind_by_name(name, strlen(name));

    WF_NEED(kind < WEFT_STYLE_CUSTOM, WEFT_ERR_ARG,
            "%s line %d: '%s' is none of colwise, rowwise, loss, sequence and prepare", r->name,
            r->line, name);
    *style = kind == WEFT_STYLE_SEQUENCE ? weft_sequence_parallel()
                                         : weft_style_make(kind, weft_style_defaults());
    style->line = r->line;
    return WEFT_OK;
}

/* One line; `plan->pattern` stays NULL when there is nothing on it. */
static weft_status parse_plan_line(const struct reader *r, weft_plan *plan, char *text)
{
    char *pattern, *word;

    text[strcspn(text, "#")] = '\0';
    pattern = next_word_of_line(&text);
    if (!pattern) return WEFT_OK;
    word = next_word_of_line(&text);
    WF_NEED(word, WEFT_ERR_ARG, "%s line %d: pattern '%s' has no style", r->name, r->line, pattern);
    WF_TRY(parse_style_name(r, &plan->style, word));
    while ((word = next_word_of_line(&text))) WF_TRY(parse_style_option(r, &plan->style, word));
    plan->pattern = strcmp(pattern, ".") == 0 ? "" : pattern;
    return WEFT_OK;
}

/* ---- texts and files ---- */

static weft_plan *parse_style_plan(const char *text, const char *name)
{
    struct reader reader = {.name = name};
    size_t length = strlen(text), lines = 2;
    weft_status status = WEFT_OK;
    weft_plan *plan, *next;
    char *at;

    for (const char *c = text; *c; c++) lines += *c == '\n';
    next = plan = wf_calloc(1, lines * sizeof *plan + length + 1);
    at = memcpy(plan + lines, text, length + 1);
    while (at && status == WEFT_OK) {
        char *end = strchr(at, '\n');

        if (end) *end = '\0';
        reader.line++;
        status = parse_plan_line(&reader, next, at);
        if (next->pattern) next++;
        at = end ? end + 1 : NULL;
    }
    if (status == WEFT_OK) return plan;
    wf_free(plan);
    return NULL;
}

weft_plan *weft_plan_parse(const char *text)
{
    if (weft_error_status() != WEFT_OK) return NULL;
    WF_NEED_PTR(text, WEFT_ERR_ARG, "plan parse: text is NULL");
    return parse_style_plan(text, "plan");
}

/* What a file has behind a NUL would be left out in silence. */
static weft_status check_plan_file_text(const char *path, const char *text, size_t length,
                                        bool whole)
{
    WF_NEED(length < PLAN_BYTES, WEFT_ERR_IO, "plan read: %s has more than %d bytes", path,
            PLAN_BYTES);
    if (!whole) return WF_FAIL_LOCAL(WEFT_ERR_IO, "plan read: %s cannot be read", path);
    WF_NEED(strlen(text) == length, WEFT_ERR_ARG, "plan read: %s has a NUL at byte %zu", path,
            strlen(text));
    return WEFT_OK;
}

weft_plan *weft_plan_read(const char *path)
{
    size_t length = 0;
    char *text = NULL;
    weft_status status;
    weft_plan *plan;
    ssize_t got;
    int fd;

    if (weft_error_status() != WEFT_OK) return NULL;
    WF_NEED_PTR(path, WEFT_ERR_ARG, "plan read: path is NULL");
    fd = wf_open_regular_file(path);
    if (fd < 0) {
        WF_FAIL_LOCAL(WEFT_ERR_IO, "plan read: %s cannot be opened: %s", path,
                      errno ? strerror(errno) : "not a file");
        return NULL;
    }
    do {
        text = wf_realloc(text, length + 4096 + 1);
        got = read(fd, text + length, 4096);
        length += got > 0 ? (size_t)got : 0;
    } while (got > 0 && length < PLAN_BYTES);
    text[length] = '\0';
    status = check_plan_file_text(path, text, length, got == 0);
    close(fd);
    plan = status == WEFT_OK ? parse_style_plan(text, path) : NULL;
    wf_free(text);
    return plan;
}

/* ---- under a prefix ---- */

/* "" is the module itself: with a prefix, the module there. */
static char *write_prefixed_pattern(char *to, const char *prefix, const char *pattern)
{
    bool both = prefix[0] && pattern[0];

    return to + sprintf(to, "%s%s%s", prefix, both ? "." : "", pattern) + 1;
}

weft_plan *weft_plan_under(const weft_plan *plan, const char *prefix)
{
    size_t lines = 1, bytes = 0;
    weft_plan *under;
    char *text;

    if (!plan || weft_error_status() != WEFT_OK) return NULL;
    WF_NEED_PTR(prefix, WEFT_ERR_ARG, "plan under: the prefix is NULL");
    for (const weft_plan *line = plan; line->pattern; line++, lines++)
        bytes += strlen(prefix) + strlen(line->pattern) + 2;
    under = wf_calloc(1, lines * sizeof *under + bytes);
    text = (char *)(under + lines);
    for (size_t i = 0; i + 1 < lines; i++) {
        under[i] = plan[i];
        under[i].pattern = text;
        text = write_prefixed_pattern(text, prefix, plan[i].pattern);
    }
    return under;
}

void weft_plan_release(weft_plan *plan) { wf_free(plan); }
