/* name_index.c: a sorted array. */
#include "io/name_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/mem.h"

void wf_name_index_add(struct wf_name_index *index, const char *name, int64_t at)
{
    index->items = wf_array_grow(index->items, index->count, sizeof *index->items);
    index->items[index->count++] = (struct wf_name_at){name, at};
}

static int compare_by_name(const void *a, const void *b)
{
    const struct wf_name_at *x = a, *y = b;

    return strcmp(x->name, y->name);
}

void wf_name_index_sort(struct wf_name_index *index)
{
    if (index->count)
        qsort(index->items, (size_t)index->count, sizeof *index->items, compare_by_name);
}

int64_t wf_name_index_find(const struct wf_name_index *index, const char *name)
{
    const struct wf_name_at key = {.name = name}, *found = NULL;

    if (index->count)
        found = bsearch(&key, index->items, (size_t)index->count, sizeof key, compare_by_name);
    return found ? found->at : -1;
}

void wf_name_index_free(struct wf_name_index *index)
{
    wf_free(index->items);
    *index = (struct wf_name_index){0};
}
