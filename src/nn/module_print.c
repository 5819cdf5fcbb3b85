/*
 * module_print.c: a tree as a table for people: a line per module, parameter and buffer, with
 * layouts and how many elements there are: in all, of those that are trained, and on this rank. A
 * tensor that several modules share is counted once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weft/autograd.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "nn/module.h"

struct counts {
    int64_t all, trained, buffers, here, bytes_here;
};

struct line {
    char *path, *what; /* wf_malloc'ed */
    struct counts counts;
    bool counted;              /* false: it is shared, and was counted above */
    const weft_tensor *tensor; /* of a parameter */
};

struct table {
    struct line *lines;
    int count;
};

static void count_tensor_elements(struct counts *c, const weft_tensor *t, bool buffer)
{
    int64_t here = weft_local_numel(t);

    *(buffer ? &c->buffers : &c->all) += weft_numel(t);
    c->trained += weft_requires_grad(t) ? weft_numel(t) : 0;
    c->here += here;
    c->bytes_here += here * (int64_t)weft_dtype_size(weft_tensor_dtype(t));
}

static weft_status count_visited_tensor(const weft_module_tensor *it, void *payload)
{
    count_tensor_elements(payload, it->tensor, it->buffer);
    return WEFT_OK;
}

static void add_table_line(struct table *table, struct line line)
{
    table->lines = wf_array_grow(table->lines, table->count, sizeof *table->lines);
    table->lines[table->count++] = line;
}

/* The line of a parameter or buffer that is this tensor; NULL. */
static const struct line *find_line_of_tensor(const struct table *table, const weft_tensor *t)
{
    for (int i = 0; i < table->count; i++)
        if (table->lines[i].tensor == t) return &table->lines[i];
    return NULL;
}

static void add_tensor_line(struct table *table, const weft_module *m, int index)
{
    const struct wf_parameter *p = &m->parameters[index];
    bool buffer = index >= m->n_parameters;
    const struct line *first = find_line_of_tensor(table, p->tensor);
    struct line line = {.counted = !first, .tensor = first ? NULL : p->tensor};
    char text[256];

    weft_tensor_format(p->tensor, text, sizeof text);
    line.path = wf_format("%s%s%s", m->path, m->path[0] ? "." : "", p->name);
    line.what =
        first ? wf_format("is %s", first->path) : wf_format("%s%s", buffer ? "buffer " : "", text);
    if (!first) count_tensor_elements(&line.counts, p->tensor, buffer);
    add_table_line(table, line);
}

static void add_module_lines(struct table *table, weft_module *m)
{
    struct line line = {.counted = true};

    weft_module_each_tensor(m, count_visited_tensor, &line.counts);
    line.path = wf_strdup(m->path[0] ? m->path : ".");
    line.what = wf_strdup(m->kind->type);
    add_table_line(table, line);
    for (int i = 0; i < m->n_tensors; i++) add_tensor_line(table, m, i);
    for (int i = 0; i < m->n_children; i++) add_module_lines(table, m->children[i]);
}

static int longer_width(int width, const char *text)
{
    int length = (int)strlen(text);

    return length > width ? length : width;
}

static void print_table_lines(const struct table *table, FILE *out)
{
    int path = 4, what = 4; /* their headings */

    for (int i = 0; i < table->count; i++) {
        path = longer_width(path, table->lines[i].path);
        what = longer_width(what, table->lines[i].what);
    }
    fprintf(out, "%-*s  %-*s  %12s  %12s  %12s\n", path, "path", what, "what", "parameters",
            "trained", "on this rank");
    for (int i = 0; i < table->count; i++) {
        const struct line *l = &table->lines[i];

        if (l->counted)
            fprintf(out, "%-*s  %-*s  %12" PRId64 "  %12" PRId64 "  %12" PRId64 "\n", path, l->path,
                    what, l->what, l->counts.all, l->counts.trained, l->counts.here);
        else
            fprintf(out, "%-*s  %s\n", path, l->path, l->what);
    }
}

void weft_module_print(weft_module *m, FILE *out)
{
    struct table table = {0};
    struct counts total;

    if (!m) return;
    WF_NEED_VOID(out, WEFT_ERR_ARG, "module print: no file");
    add_module_lines(&table, m);
    print_table_lines(&table, out);
    total = table.lines[0].counts;
    fprintf(out, "%" PRId64 " parameters, %" PRId64 " trained, ", total.all, total.trained);
    if (total.buffers) fprintf(out, "%" PRId64 " in buffers, ", total.buffers);
    fprintf(out, "%" PRId64 " bytes on this rank\n", total.bytes_here);
    for (int i = 0; i < table.count; i++) {
        wf_free(table.lines[i].path);
        wf_free(table.lines[i].what);
    }
    wf_free(table.lines);
}
