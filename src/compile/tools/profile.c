/* profile.c: reasons of misses, each counted once it has been seen. */
#include "compile/tools/profile.h"

#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"

enum { MOST_REASONS = 64 };

void wf_misses_add(struct wf_misses *misses, const char *reason)
{
    for (int i = 0; i < misses->n; i++) {
        if (strcmp(misses->of[i].reason, reason) != 0) continue;
        misses->of[i].count++;
        return;
    }
    if (misses->n == MOST_REASONS) {
        misses->others++;
        return;
    }
    misses->of = wf_array_grow(misses->of, misses->n, sizeof *misses->of);
    misses->of[misses->n].count = 1;
    snprintf(misses->of[misses->n++].reason, WF_REASON_BYTES, "%s", reason);
}
