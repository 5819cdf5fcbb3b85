/* pattern.c: matching of dotted paths, by trying the shortest piece for each star first. */
#include "base/text/pattern.h"

#include <stddef.h>
#include <string.h>

static bool match_from_here(const char *pattern, const char *path, struct wf_pattern_stars *stars);

/* The rest of the pattern, when its star `s` stands for `length` characters. */
static bool match_behind_star(const char *rest, const char *path, int length,
                              struct wf_pattern_stars *stars)
{
    int s = stars->count++;

    if (s < WF_PATTERN_STARS) {
        stars->at[s] = path;
        stars->length[s] = length;
    }
    if (match_from_here(rest, path + length, stars)) return true;
    stars->count = s;
    return false;
}

static bool match_star(const char *rest, const char *path, struct wf_pattern_stars *stars)
{
    int most = (int)strcspn(path, ".");

    for (int length = 0; length <= most; length++)
        if (match_behind_star(rest, path, length, stars)) return true;
    return false;
}

/* `rest` is what follows "**": nothing, or a dot and more names. `path` begins at a name. */
static bool match_double_star(const char *rest, const char *path, struct wf_pattern_stars *stars)
{
    int all = (int)strlen(path);

    if (!*rest) return match_behind_star(rest, path, all, stars);
    if (match_behind_star(rest + 1, path, 0, stars)) return true;
    for (int length = 1; length <= all; length++)
        if (path[length] == '.' && match_behind_star(rest, path, length, stars)) return true;
    return false;
}

/* Behind "[" of a class: whether it holds c, and where it ends; NULL when it does not. */
static const char *match_character_class(const char *at, char c, bool *holds)
{
    bool other = *at == '!' || *at == '^', in = false;

    at += other;
    do {
        char first = *at, last = first;

        if (!first) return NULL;
        if (at[1] == '-' && at[2] && at[2] != ']') {
            last = at[2];
            at += 2;
        }
        in |= c >= first && c <= last;
        at++;
    } while (*at != ']');
    *holds = in != other;
    return at + 1;
}

static bool begins_names(const char *pattern)
{
    return pattern[0] == '*' && pattern[1] == '*' && (!pattern[2] || pattern[2] == '.');
}

static bool match_from_here(const char *pattern, const char *path, struct wf_pattern_stars *stars)
{
    for (bool at_name = stars->count == 0 || pattern[-1] == '.';; at_name = pattern[-1] == '.') {
        const char *end;
        bool holds;

        if (at_name && begins_names(pattern)) return match_double_star(pattern + 2, path, stars);
        if (*pattern == '*') return match_star(pattern + 1, path, stars);
        if (!*pattern) return !*path;
        if (strcmp(pattern, ".**") == 0 && !*path)
            return match_behind_star(pattern + 3, path, 0, stars);
        if (*pattern == '[' && (end = match_character_class(pattern + 1, *path, &holds)) != NULL) {
            if (!*path || *path == '.' || !holds) return false;
            pattern = end;
        } else {
            if (*pattern == '?' ? !*path || *path == '.' : *pattern != *path) return false;
            pattern++;
        }
        path++;
    }
}

bool wf_pattern_match(const char *pattern, const char *path, struct wf_pattern_stars *stars)
{
    struct wf_pattern_stars own;

    if (!stars) stars = &own;
    stars->count = 0;
    if (!match_from_here(pattern, path, stars)) return false;
    if (stars->count > WF_PATTERN_STARS) stars->count = WF_PATTERN_STARS;
    return true;
}
