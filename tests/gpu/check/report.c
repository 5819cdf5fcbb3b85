/* report.c: the lines of weft-gpu-check. */
#include "gpu/check/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_writer.h"

enum { NAME = 96, REASON = 320, FACTS = 8 };

struct entry {
    struct report_line line;
    char name[NAME], reason[REASON]; /* why it fails or is untested */
    bool holds, untested;
};

struct fact {
    const char *key;
    char text[REASON];
};

static struct {
    weft_mesh *hosts;
    struct entry *entries;
    int count, room, n_facts;
    struct fact facts[FACTS];
    const char *group; /* of the line before */
} report;

void report_begin(weft_mesh *hosts) { report.hosts = hosts; }

double report_worst(double mine, enum report_bound bound)
{
    weft_scope *scope = weft_scope_open();
    int64_t one[] = {1};
    weft_tensor *t = weft_to_device(weft_from_data(WEFT_F64, one, 1, &mine), WEFT_CPU);
    double worst;

    t = weft_mesh_all_reduce(t, bound == REPORT_AT_LEAST ? WEFT_MIN : WEFT_MAX, report.hosts, 0);
    worst = weft_item(t);
    weft_scope_close(scope);
    return worst;
}

static bool holds(const struct report_line *line)
{
    if (line->bound == REPORT_AT_MOST) return line->value <= line->limit; /* not for a NaN */
    if (line->bound == REPORT_AT_LEAST) return line->value >= line->limit;
    return true;
}

static struct entry *new_entry(struct report_line line, const char *name, va_list args)
{
    struct entry *e;

    if (report.count == report.room) {
        report.room = report.room ? 2 * report.room : 64;
        report.entries = realloc(report.entries, (size_t)report.room * sizeof *report.entries);
        if (!report.entries) abort();
    }
    e = &report.entries[report.count++];
    *e = (struct entry){.line = line};
    vsnprintf(e->name, sizeof e->name, name, args);
    return e;
}

static void print_entry(const struct entry *e)
{
    static const char *const relations[] = {"", "at most", "at least"};

    if (weft_world_rank() != 0) return;
    if (!report.group || strcmp(report.group, e->line.group) != 0)
        printf("\n%s\n", report.group = e->line.group);
    printf("  %-6s %-52s ", e->untested ? "--" : e->holds ? "ok" : "FAILS", e->name);
    if (e->reason[0])
        printf("%s\n", e->reason);
    else if (e->line.bound == REPORT_MEASURED)
        printf("%.4g %s\n", e->line.value, e->line.figure);
    else
        printf("%.4g %s, %s %.4g\n", e->line.value, e->line.figure, relations[e->line.bound],
               e->line.limit);
    fflush(stdout);
}

void report_add(struct report_line line, const char *name, ...)
{
    struct entry *e;
    va_list args;

    va_start(args, name);
    e = new_entry(line, name, args);
    va_end(args);
    e->line.value = report_worst(line.value, line.bound);
    e->holds = holds(&e->line);
    print_entry(e);
}

/* It was not measured. */
static struct report_line line_without_figure(const char *group, const char *claim)
{
    return (struct report_line){.group = group, .figure = "", .claim = claim};
}

void report_failure(const char *group, const char *claim, const char *name, ...)
{
    struct entry *e;
    va_list args;

    va_start(args, name);
    e = new_entry(line_without_figure(group, claim), name, args);
    va_end(args);
    snprintf(e->reason, sizeof e->reason, "%s", weft_error_message());
    print_entry(e);
}

void report_untested(const char *group, const char *claim, const char *reason, const char *name,
                     ...)
{
    struct entry *e;
    va_list args;

    va_start(args, name);
    e = new_entry(line_without_figure(group, claim), name, args);
    va_end(args);
    e->holds = e->untested = true;
    snprintf(e->reason, sizeof e->reason, "not tested: %s", reason);
    print_entry(e);
}

void report_fact(const char *key, const char *text, ...)
{
    struct fact *fact = &report.facts[report.n_facts];
    va_list args;

    if (report.n_facts == FACTS) abort();
    report.n_facts++;
    fact->key = key;
    va_start(args, text);
    vsnprintf(fact->text, sizeof fact->text, text, args);
    va_end(args);
    if (weft_world_rank() == 0) printf("%-14s %s\n", key, fact->text);
}

/* ---- the end ---- */

static void write_json(FILE *out)
{
    struct wf_json_writer json = {.out = out};

    wf_json_begin_container(&json, NULL, '{');
    wf_json_write_string(&json, "version", WEFT_VERSION);
    wf_json_write_int(&json, "ranks", weft_world_size());
    for (int i = 0; i < report.n_facts; i++)
        wf_json_write_string(&json, report.facts[i].key, report.facts[i].text);
    wf_json_begin_container(&json, "lines", '[');
    for (int i = 0; i < report.count; i++) {
        const struct entry *e = &report.entries[i];

        wf_json_begin_container(&json, NULL, '{');
        wf_json_write_string(&json, "group", e->line.group);
        wf_json_write_string(&json, "name", e->name);
        wf_json_write_string(&json, "figure", e->line.figure);
        wf_json_write_real(&json, "value", e->line.value);
        if (e->line.bound != REPORT_MEASURED)
            wf_json_write_real(&json, e->line.bound == REPORT_AT_MOST ? "at_most" : "at_least",
                               e->line.limit);
        if (e->reason[0])
            wf_json_write_string(&json, e->untested ? "untested" : "error", e->reason);
        if (e->line.claim) wf_json_write_string(&json, "claim", e->line.claim);
        wf_json_write_bool(&json, "holds", e->holds);
        wf_json_end_container(&json, '}');
    }
    wf_json_end_container(&json, ']');
    wf_json_end_container(&json, '}');
    fputc('\n', out);
}

/* A claim may rest on many lines: one that fails is enough, one that was tested too. */
static const char *state_of_claim(const char *claim)
{
    bool tested = false;

    for (int i = 0; i < report.count; i++) {
        const struct entry *e = &report.entries[i];

        if (!e->line.claim || strcmp(e->line.claim, claim) != 0) continue;
        if (!e->holds) return "DOES NOT HOLD";
        tested |= !e->untested;
    }
    return tested ? "holds" : "not tested";
}

static bool is_first_with_claim(int index)
{
    for (int i = 0; i < index; i++)
        if (report.entries[i].line.claim &&
            strcmp(report.entries[i].line.claim, report.entries[index].line.claim) == 0)
            return false;
    return true;
}

static void print_claims(void)
{
    printf("\nClaims of the documents\n");
    for (int i = 0; i < report.count; i++) {
        const char *claim = report.entries[i].line.claim;

        if (claim && is_first_with_claim(i)) printf("  %-14s %s\n", state_of_claim(claim), claim);
    }
}

int report_end(const char *json)
{
    int failures = 0;

    for (int i = 0; i < report.count; i++) failures += !report.entries[i].holds;
    if (weft_world_rank() == 0) {
        FILE *out = json ? fopen(json, "w") : NULL;

        print_claims();
        printf("\n%d lines, %d fail\n", report.count, failures);
        if (json && !out) {
            fprintf(stderr, "cannot write %s\n", json);
            failures++;
        }
        if (out) {
            write_json(out);
            failures += fclose(out) != 0;
        }
    }
    free(report.entries);
    return failures;
}
