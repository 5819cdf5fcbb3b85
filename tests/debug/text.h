/* text.h: what printing functions print, and whether it is JSON. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/** A stream into memory: write to `out`, then wt_text_end gives the text (free it). */
struct wt_text {
    FILE *out;
    char *text;
    size_t bytes;
};
void wt_text_begin(struct wt_text *t);
const char *wt_text_end(struct wt_text *t);

/** How often `part` stands in the text. */
int wt_occurrences(const char *text, const char *part);

/** The text is one JSON value, and nothing else. */
bool wt_is_json(const char *text);
