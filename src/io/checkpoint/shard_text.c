/* shard_text.c: runs as text. */
#include "io/checkpoint/shard_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/mem.h"

enum { RUN_TEXT = 44 };

char *wf_file_slice_text(const struct wf_local_runs *local, int ndim, uint64_t hash)
{
    size_t room = 32, at = 0;
    char *text;

    for (int d = 0; d < ndim; d++) room += (size_t)local->n_runs[d] * RUN_TEXT + 1;
    text = wf_malloc(room);
    for (int d = 0; d < ndim; d++) {
        if (d) text[at++] = ';';
        for (int64_t i = 0; i < local->n_runs[d]; i++)
            at += (size_t)snprintf(text + at, room - at, "%s%" PRId64 "+%" PRId64, i ? "," : "",
                                   local->runs[d][i].offset, local->runs[d][i].size);
    }
    snprintf(text + at, room - at, "|%016" PRIx64, hash);
    return text;
}

/* A number that is not negative; moves on. */
static bool parse_number(const char **at, int64_t *value)
{
    char *end;

    if (**at < '0' || **at > '9') return false;
    errno = 0;
    *value = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0;
}

/* The runs of one dim; `size` elements together, none beyond `global`. */
static bool parse_runs_of_dim(struct wf_local_runs *local, int d, const char **at, int64_t size,
                              int64_t global)
{
    int64_t end = 0, total = 0;

    while (**at != ';' && **at != '|') {
        struct wf_index_range run;
        int64_t n = local->n_runs[d];

        if (n && *(*at)++ != ',') return false;
        if (!parse_number(at, &run.offset) || *(*at)++ != '+' || !parse_number(at, &run.size))
            return false;
        if (run.size < 1 || run.offset < end || run.offset > global - run.size) return false;
        local->runs[d] = wf_array_grow(local->runs[d], n, sizeof run);
        local->runs[d][local->n_runs[d]++] = run;
        end = run.offset + run.size;
        total += run.size;
    }
    return total == size;
}

bool wf_file_slice_parse(struct wf_local_runs *local, uint64_t *hash, const char *text,
                         const int64_t *shape, const int64_t *global, int ndim)
{
    char *end;

    *local = (struct wf_local_runs){{0}, {0}};
    if (!strchr(text, '|')) return false;
    for (int d = 0; d < ndim; d++) {
        if (d && *text++ != ';') return false;
        if (!parse_runs_of_dim(local, d, &text, shape[d], global[d])) return false;
    }
    if (*text++ != '|' || strlen(text) != 16) return false;
    *hash = strtoull(text, &end, 16);
    return *end == '\0';
}

bool wf_file_slice_is_note(const char *text)
{
    const char *bar = strrchr(text, '|');

    return bar && strspn(bar + 1, "0123456789abcdef") == 16 && bar[17] == '\0' &&
           strspn(text, "0123456789+,;") == (size_t)(bar - text);
}
