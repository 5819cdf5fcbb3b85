/*
 * pattern.h: patterns over dotted paths, the one dialect of plans, groups of parameters and names
 * of weights (docs/concepts/conventions.md).
 *
 *     *      any characters of one name, none too     ?    one character
 *     [a-z]  one of these; [!a-z] one of the others   **   as a whole name: any number of names
 *
 * Nothing but ** crosses a dot, and there is no character that escapes another.
 */
#pragma once

#include <stdbool.h>

enum { WF_PATTERN_STARS = 8 };

/** What each * and ** of a pattern stands for in the path, in their order. */
struct wf_pattern_stars {
    const char *at[WF_PATTERN_STARS];
    int length[WF_PATTERN_STARS];
    int count;
};

/** Whether a pattern matches all of a path. `stars` (NULL: not wanted) is set when it does; of more
 * than WF_PATTERN_STARS the first are there. */
bool wf_pattern_match(const char *pattern, const char *path, struct wf_pattern_stars *stars);
