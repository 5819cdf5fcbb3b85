/* ledger_print.c: a ledger as a flat table, as a tree of modules at four noise levels, as JSON. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_writer.h"
#include "debug/ledger.h"

const char *wf_phase_name(enum wf_phase phase)
{
    static const char *const names[] = {"forward", "backward", "optim"};

    return names[phase];
}

void weft_ledger_print(const weft_ledger *ledger, FILE *out)
{
    WF_NEED_VOID(ledger && out, WEFT_ERR_ARG, "ledger print: no %s", ledger ? "file" : "ledger");
    fprintf(out, "%-16s %-6s %-9s %8s %14s %9s  %s\n", "collective", "axis", "direction", "calls",
            "bytes", "ms", "module");
    for (size_t i = 0; i < ledger->n_lines; i++) {
        const struct wf_ledger_line *line = &ledger->lines[i];

        if (line->kind == WF_EVENT_OP) continue;
        fprintf(out, "%-16s %-6s %-9s %8" PRId64 " %14" PRId64 " %9.2f  %s\n", line->name,
                line->kind == WF_EVENT_COLL ? line->axis : "(host)", wf_phase_name(line->phase),
                line->sum.count, line->sum.bytes, 1e3 * line->sum.seconds, line->path);
    }
}

/* ---- the tree ---- */

/* What belongs on one line of a module: the same kind, axis and direction, there or further in. */
static bool is_same_collective(const struct wf_ledger_line *a, const struct wf_ledger_line *b)
{
    return a->kind == WF_EVENT_COLL && b->kind == WF_EVENT_COLL && a->phase == b->phase &&
           strcmp(a->name, b->name) == 0 && strcmp(a->axis, b->axis) == 0;
}

/* The sum is printed where its first line stands. */
static void print_collective_total(const weft_ledger *ledger, int module, size_t first, FILE *out)
{
    const struct wf_ledger_line *line = &ledger->lines[first];
    weft_ledger_sum sum = {0};

    for (size_t i = 0; i < ledger->n_lines; i++) {
        if (!is_same_collective(&ledger->lines[i], line)) continue;
        if (!wf_ledger_line_is_within(ledger, &ledger->lines[i], module)) continue;
        if (i < first) return;
        wf_ledger_sum_add(&sum, &ledger->lines[i].sum);
    }
    fprintf(out, "%*s%s %s%s%s: %" PRId64, 2 * ledger->modules[module].depth + 2, "",
            wf_phase_name(line->phase), line->name, line->axis[0] ? " " : "", line->axis,
            sum.count);
    if (sum.coalesced) fprintf(out, " (%" PRId64 " coalesced)", sum.coalesced);
    fprintf(out, ", %" PRId64 " bytes, %" PRId64 " sent\n", sum.bytes, sum.sent);
}

static bool is_op_shown(const struct wf_ledger_line *line, weft_noise noise)
{
    if (line->trivial) return noise >= WEFT_NOISE_ALL;
    return noise >= (line->distributed ? WEFT_NOISE_DISTRIBUTED : WEFT_NOISE_OPS);
}

static void print_module_ops(const weft_ledger *ledger, int module, weft_noise noise, FILE *out)
{
    int indent = 2 * ledger->modules[module].depth + 2;

    for (size_t i = 0; i < ledger->n_lines; i++) {
        const struct wf_ledger_line *line = &ledger->lines[i];

        if (line->kind != WF_EVENT_OP || wf_ledger_module_of_line(ledger, line) != module) continue;
        if (!is_op_shown(line, noise)) continue;
        fprintf(out, "%*s%s op %s: %" PRId64 "%s\n", indent, "", wf_phase_name(line->phase),
                line->name, line->sum.count, line->distributed ? "" : " plain");
    }
}

static void print_module_tree(const weft_ledger *ledger, int module, weft_noise noise, FILE *out)
{
    const struct wf_ledger_module *m = &ledger->modules[module];

    fprintf(out, "%*s%s", 2 * m->depth, "", m->name);
    if (module)
        fprintf(out, " (%s), %" PRId64 " call%s", m->type, m->calls, m->calls == 1 ? "" : "s");
    fputc('\n', out);
    for (int i = 0; noise >= WEFT_NOISE_DISTRIBUTED && i < m->n_parameters; i++)
        fprintf(out, "%*sparameter %s: %s\n", 2 * m->depth + 2, "", m->parameters[i].name,
                m->parameters[i].layout);
    for (size_t i = 0; i < ledger->n_lines; i++)
        if (ledger->lines[i].kind == WF_EVENT_COLL &&
            wf_ledger_line_is_within(ledger, &ledger->lines[i], module))
            print_collective_total(ledger, module, i, out);
    print_module_ops(ledger, module, noise, out);
    for (int child = module + 1; child < ledger->n_modules; child++)
        if (ledger->modules[child].parent == module) print_module_tree(ledger, child, noise, out);
}

void weft_ledger_table_print(const weft_ledger *ledger, weft_noise noise, FILE *out)
{
    WF_NEED_VOID(ledger && out, WEFT_ERR_ARG, "ledger table: no %s", ledger ? "file" : "ledger");
    print_module_tree(ledger, 0, noise, out);
}

/* ---- JSON ---- */

static void write_parameters_json(struct wf_json_writer *json,
                                  const struct wf_ledger_module *module)
{
    wf_json_begin_container(json, "parameters", '[');
    for (int i = 0; i < module->n_parameters; i++) {
        wf_json_begin_container(json, NULL, '{');
        wf_json_write_string(json, "name", module->parameters[i].name);
        wf_json_write_string(json, "layout", module->parameters[i].layout);
        wf_json_write_bool(json, "distributed", module->parameters[i].distributed);
        wf_json_end_container(json, '}');
    }
    wf_json_end_container(json, ']');
}

static void write_line_json(struct wf_json_writer *json, const struct wf_ledger_line *line)
{
    wf_json_begin_container(json, NULL, '{');
    wf_json_write_string(json, "name", line->name);
    wf_json_write_string(json, "direction", wf_phase_name(line->phase));
    wf_json_write_int(json, "count", line->sum.count);
    if (line->kind == WF_EVENT_COLL) {
        wf_json_write_string(json, "axis", line->axis);
        wf_json_write_bool(json, "coalesced", line->coalesced);
        wf_json_write_int(json, "bytes", line->sum.bytes);
        wf_json_write_int(json, "sent", line->sum.sent);
    } else {
        wf_json_write_bool(json, "distributed", line->distributed);
        wf_json_write_bool(json, "trivial", line->trivial);
    }
    wf_json_write_real(json, "seconds", line->sum.seconds);
    wf_json_end_container(json, '}');
}

static void write_lines_json(struct wf_json_writer *json, const weft_ledger *ledger, int module,
                             enum wf_event_kind kind, const char *key)
{
    wf_json_begin_container(json, key, '[');
    for (size_t i = 0; i < ledger->n_lines; i++)
        if (ledger->lines[i].kind == kind &&
            wf_ledger_module_of_line(ledger, &ledger->lines[i]) == module)
            write_line_json(json, &ledger->lines[i]);
    wf_json_end_container(json, ']');
}

void weft_ledger_json_print(const weft_ledger *ledger, FILE *out)
{
    struct wf_json_writer json = {.out = out};

    WF_NEED_VOID(ledger && out, WEFT_ERR_ARG, "ledger json: no %s", ledger ? "file" : "ledger");
    wf_json_begin_container(&json, NULL, '{');
    wf_json_begin_container(&json, "modules", '[');
    for (int m = 0; m < ledger->n_modules; m++) {
        const struct wf_ledger_module *module = &ledger->modules[m];

        wf_json_begin_container(&json, NULL, '{');
        wf_json_write_string(&json, "name", module->name);
        wf_json_write_string(&json, "type", module->type);
        wf_json_write_int(&json, "depth", module->depth);
        wf_json_write_int(&json, "calls", module->calls);
        write_parameters_json(&json, module);
        write_lines_json(&json, ledger, m, WF_EVENT_COLL, "collectives");
        write_lines_json(&json, ledger, m, WF_EVENT_OP, "ops");
        wf_json_end_container(&json, '}');
    }
    wf_json_end_container(&json, ']');
    wf_json_end_container(&json, '}');
}
