/* passes.c: running the passes, and checking the list after each. */
#include "compile/passes/passes.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"

enum level { OF_PAIR = 0, MOVES = 1, CALLS = 2, BOTH = 3, BY_REQUEST = 4 };

_Thread_local bool wf_passes_forced;

static const struct row {
    const char *name;
    enum level level;
    wf_pass *run;
} rows[] = {
#define WF_PAIR_PASS(name, what) {#name, OF_PAIR, NULL},
#define WF_PASS(name, level, what) {#name, level, wf_pass_##name},
#include "compile/passes/passes.def"
#undef WF_PASS
};

/* What the list says of this pass: "name", "+name", "+name!"; 0: nothing. */
enum said { NOTHING, OFF, ON, FORCED };

static enum said said_of(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = names; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        bool on = *at == '+';
        const char *end = at + on + length;

        if (strncmp(at + on, name, length) != 0) continue;
        if (on && *end == '!' && (end[1] == ',' || end[1] == 0)) return FORCED;
        if (*end == ',' || *end == 0) return on ? ON : OFF;
    }
    return NOTHING;
}

/* A pass that is off by itself runs by request. */
static bool is_wanted(const struct row *row, const char *names)
{
    enum said said = said_of(names, row->name);

    wf_passes_forced = said == FORCED;
    return row->level & BY_REQUEST ? said >= ON : said != OFF;
}

const char *wf_pass_name(int i)
{
    return i >= 0 && i < (int)(sizeof rows / sizeof rows[0]) ? rows[i].name : NULL;
}

void wf_passes_run(struct wf_op_list *list, const char *off)
{
    if (said_of(off, "all") == OFF) return;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *wrong;
        int changed;

        if (!(rows[i].level & (list->lowered ? CALLS : MOVES)) || !is_wanted(&rows[i], off))
            continue;
        changed = rows[i].run(list);
        WF_LOG(WF_LOG_DEBUG, "compile", "pass %s: %d changes", rows[i].name, changed);
        wrong = wf_op_list_check(list);
        if (wrong) WF_DIE("compile: after the pass %s: %s", rows[i].name, wrong);
    }
}

struct wf_saved_bytes wf_passes_run_on_pair(const struct wf_op_list *forward,
                                            struct wf_op_list *backward, const char *off)
{
    bool on = said_of(off, "all") != OFF && said_of(off, "min_cut") != OFF;
    struct wf_saved_bytes saved = wf_min_cut(forward, backward, on);
    const char *wrong = wf_op_list_check(backward);

    if (wrong) WF_DIE("compile: after the pass min_cut: %s", wrong);
    return saved;
}
