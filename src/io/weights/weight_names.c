/* weight_names.c: the small language of names in files (weft/weights.h). */
#include "io/weights/weight_names.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text/pattern.h"

/* One name, `length` characters of a rule, with its stars filled in; with or without what stands in
 * brackets. */
static char *expand_name_pattern(const char *from, int length, const struct wf_pattern_stars *stars,
                                 bool brackets)
{
    size_t room = (size_t)length + 1, at = 0;
    bool inside = false;
    int star = 0;
    char *name;

    for (int i = 0; i < stars->count; i++) room += (size_t)stars->length[i];
    name = wf_malloc(room);
    for (int i = 0; i < length; i++) {
        if (from[i] == '[' || from[i] == ']') {
            inside = from[i] == '[';
            continue;
        }
        if (from[i] == ' ' || (inside && !brackets)) continue;
        if (from[i] != '*') {
            name[at++] = from[i];
        } else if (star < stars->count) {
            memcpy(name + at, stars->at[star], (size_t)stars->length[star]);
            at += (size_t)stars->length[star++];
        }
    }
    name[at] = '\0';
    return name;
}

/* One alternative: names with '+' between them. */
static weft_status add_name_alternative(struct wf_name_candidates *c, const char *from, int length,
                                        const struct wf_pattern_stars *stars, bool brackets)
{
    int n = 0, mine = c->count;

    WF_NEED(mine < WF_ALTERNATIVES, WEFT_ERR_ARG, "weight names: '%s' has too many alternatives",
            c->rule->name);
    c->count++; /* what is made of it before a refusal is freed with the rest */
    for (int at = 0; at <= length;) {
        int part = 0;

        while (at + part < length && from[at + part] != '+') part++;
        WF_NEED(n < WF_JOINED, WEFT_ERR_ARG, "weight names: '%s' joins more than %d names",
                c->rule->name, WF_JOINED);
        c->names[mine][n++] = expand_name_pattern(from + at, part, stars, brackets);
        c->joined[mine] = n;
        at += part + 1;
    }
    return WEFT_OK;
}

static weft_status add_names_of_rule(struct wf_name_candidates *c,
                                     const struct wf_pattern_stars *stars)
{
    const char *at = c->rule->name;

    while (*at) {
        int length = (int)strcspn(at, "|");
        bool brackets = memchr(at, '[', (size_t)length) != NULL;

        WF_TRY(add_name_alternative(c, at, length, stars, true));
        if (brackets) WF_TRY(add_name_alternative(c, at, length, stars, false));
        at += length + (at[length] == '|');
    }
    return WEFT_OK;
}

weft_status wf_name_candidates_of(struct wf_name_candidates *c, const weft_weight_names *names,
                                  const char *path)
{
    struct wf_pattern_stars stars;
    weft_status status;

    memset(c, 0, sizeof *c);
    if (!names) {
        c->names[0][0] = wf_strdup(path);
        c->joined[0] = c->count = 1;
        return WEFT_OK;
    }
    for (int i = 0; i < names->n_rules && !c->rule; i++)
        if (wf_pattern_match(names->rules[i].parameter, path, &stars)) c->rule = &names->rules[i];
    if (!c->rule) return WEFT_OK;
    WF_NEED(c->rule->name && c->rule->rows >= 0 && c->rule->join >= 0 &&
                c->rule->join < WEFT_MAX_DIMS,
            WEFT_ERR_ARG, "weight names: the rule for '%s' has rows %d, join %d%s",
            c->rule->parameter, c->rule->rows, c->rule->join, c->rule->name ? "" : " and no name");
    status = add_names_of_rule(c, &stars);
    if (status != WEFT_OK) wf_name_candidates_free(c);
    return status;
}

void wf_name_candidates_free(struct wf_name_candidates *c)
{
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->joined[i]; k++) wf_free(c->names[i][k]);
    c->count = 0;
}

bool wf_is_name_ignored(const weft_weight_names *names, const char *name)
{
    if (!names || !names->ignored) return false;
    for (int i = 0; names->ignored[i]; i++)
        if (wf_pattern_match(names->ignored[i], name, NULL)) return true;
    return false;
}
