/* passes.c: running the passes, and checking the list after each. */
#include "compile/passes/passes.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"

enum level { MOVES = 1, CALLS = 2, BOTH = 3 };

static const struct row {
    const char *name;
    enum level level;
    wf_pass *run;
} rows[] = {
#define WF_PASS(name, level, what) {#name, level, wf_pass_##name},
#include "compile/passes/passes.def"
#undef WF_PASS
};

static bool is_named(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = names; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
    return false;
}

const char *wf_pass_name(int i)
{
    return i >= 0 && i < (int)(sizeof rows / sizeof rows[0]) ? rows[i].name : NULL;
}

void wf_passes_run(struct wf_op_list *list, const char *off)
{
    if (is_named(off, "all")) return;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *wrong;
        int changed;

        if (!(rows[i].level & (list->lowered ? CALLS : MOVES)) || is_named(off, rows[i].name))
            continue;
        changed = rows[i].run(list);
        WF_LOG(WF_LOG_DEBUG, "compile", "pass %s: %d changes", rows[i].name, changed);
        wrong = wf_op_list_check(list);
        if (wrong) WF_DIE("compile: after the pass %s: %s", rows[i].name, wrong);
    }
}
