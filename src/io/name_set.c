/* name_set.c: open addressing with a content hash, so that a file cannot make it slow easily. */
#include "io/name_set.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static char **find_name_slot(const struct wf_name_set *set, const char *name)
{
    size_t at = (size_t)wf_hash_bytes(name, strlen(name));

    for (;; at++) {
        char **slot = &set->slots[at & (set->size - 1)];

        if (!*slot || strcmp(*slot, name) == 0) return slot;
    }
}

static void grow_name_set(struct wf_name_set *set)
{
    struct wf_name_set larger = {.size = set->size ? 2 * set->size : 16, .count = set->count};

    larger.slots = wf_calloc(larger.size, sizeof *larger.slots);
    for (size_t i = 0; i < set->size; i++)
        if (set->slots[i]) *find_name_slot(&larger, set->slots[i]) = set->slots[i];
    wf_free(set->slots);
    *set = larger;
}

bool wf_name_set_add(struct wf_name_set *set, char *name)
{
    char **slot;

    if (2 * (set->count + 1) > set->size) grow_name_set(set);
    slot = find_name_slot(set, name);
    if (*slot) return false;
    *slot = name;
    set->count++;
    return true;
}

void wf_name_set_free(struct wf_name_set *set)
{
    for (size_t i = 0; i < set->size; i++) wf_free(set->slots[i]);
    wf_free(set->slots);
    *set = (struct wf_name_set){0};
}
