/* name_index.c: a sorted array. */
#include "io/name_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void wf_name_index_add(struct wf_name_index *index, const char *name, int64_t at)
{
    int64_t n = index->count;

    if ((n & (n - 1)) == 0)
        index->items = wf_realloc(index->items, (size_t)(n ? 2 * n : 1) * sizeof *index->items);
    index->items[index->count++] = (struct wf_name_at){name, at};
}

static int by_name(const void *a, const void *b)
{
    const struct wf_name_at *x = a, *y = b;

    return strcmp(x->name, y->name);
}

void wf_name_index_sort(struct wf_name_index *index)
{
    if (index->count) qsort(index->items, (size_t)index->count, sizeof *index->items, by_name);
}

int64_t wf_name_index_find(const struct wf_name_index *index, const char *name)
{
    const struct wf_name_at key = {.name = name}, *found = NULL;

    if (index->count)
        found = bsearch(&key, index->items, (size_t)index->count, sizeof key, by_name);
    return found ? found->at : -1;
}

void wf_name_index_free(struct wf_name_index *index)
{
    wf_free(index->items);
    *index = (struct wf_name_index){0};
}
