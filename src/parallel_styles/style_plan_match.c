/* style_plan_match.c: which modules the patterns of a plan match. */
#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/pattern.h"
#include "parallel_styles/style.h"

struct found {
    struct wf_style_match *items;
    int count;
};

static void add_style_match(struct found *found, weft_module *m, const weft_plan *line)
{
    found->items = wf_array_grow(found->items, found->count, sizeof *found->items);
    found->items[found->count++] = (struct wf_style_match){.module = m, .line = line};
}

/* Match the pattern against the paths of everything below m, counted from the root of the plan. */
static void match_modules_below(struct found *found, weft_module *m, const weft_plan *line,
                                const char *above)
{
    for (int i = 0; i < m->n_children; i++) {
        weft_module *child = m->children[i];
        char *path = wf_format("%s%s%s", above, above[0] ? "." : "", child->name);

        if (wf_pattern_match(line->pattern, path, NULL)) add_style_match(found, child, line);
        match_modules_below(found, child, line, path);
        wf_free(path);
    }
}

/* "plan line 3", "plan". */
static const char *plan_line_text(char *text, size_t bytes, const weft_plan *line)
{
    if (line->style.line)
        snprintf(text, bytes, "plan line %d", line->style.line);
    else
        snprintf(text, bytes, "plan");
    return text;
}

static weft_status report_unmatched_pattern(const weft_plan *line, bool strict)
{
    char place[32];

    if (line->style.optional) return WEFT_OK;
    plan_line_text(place, sizeof place, line);
    WF_NEED(!strict, WEFT_ERR_NOT_FOUND, "%s: pattern '%s' matches no module", place,
            line->pattern);
    if (wf_log_rank() <= 0)
        WF_LOG(WF_LOG_WARN, "plan", "%s: pattern '%s' could not be resolved: it matches no module",
               place, line->pattern);
    return WEFT_OK;
}

static weft_status match_plan_line(struct found *found, weft_module *root, const weft_plan *line,
                                   bool strict)
{
    int before = found->count;
    char place[32];

    if (line->pattern[0])
        match_modules_below(found, root, line, "");
    else
        add_style_match(found, root, line);
    if (found->count == before) return report_unmatched_pattern(line, strict);
    for (int i = before; i < found->count; i++)
        for (int j = 0; j < before; j++)
            WF_NEED(found->items[i].module != found->items[j].module, WEFT_ERR_STATE,
                    "%s: module '%s' is matched by '%s' and by '%s'",
                    plan_line_text(place, sizeof place, line), found->items[i].module->path,
                    found->items[j].line->pattern, line->pattern);
    return WEFT_OK;
}

weft_status wf_style_plan_match(struct wf_style_match **matches, int *count, weft_module *root,
                                const weft_plan *plan, bool strict)
{
    struct found found = {0};
    weft_status status = WEFT_OK;

    for (const weft_plan *line = plan; line->pattern && status == WEFT_OK; line++)
        status = match_plan_line(&found, root, line, strict);
    if (status != WEFT_OK) {
        wf_free(found.items);
        found = (struct found){0};
    }
    *matches = found.items;
    *count = found.count;
    return status;
}
