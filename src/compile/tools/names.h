/* names.h: lists of names in texts, "graph,dot". */
#pragma once

#include <stdbool.h>
#include <string.h>

static inline bool wf_names_have(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = names; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
    return false;
}
