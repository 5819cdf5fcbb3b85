/*
 * cases.c: the product of the rows of rows.def. A case is a subject with one value of each column;
 * the product is walked in the order of the rows, the columns that need another reference first.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* ---- rows ---- */

static const char IN[] = "IN", OUT[] = "OUT";

const struct ws_subject ws_subjects[] = {
#define WS_SUBJECT(name, style, layer, wants, gives, back, own, times, parameters)                 \
    {name, WS_##style, WS_##layer, wants, gives, back, WS_##own, times, parameters},
#include "rows.def"
#undef WS_SUBJECT
};
const int ws_n_subjects = sizeof ws_subjects / sizeof *ws_subjects;
_Static_assert(sizeof ws_subjects / sizeof *ws_subjects <= WS_SUBJECTS, "WS_SUBJECTS is too small");

const struct ws_layer ws_layers[WS_LAYERS] = {
#define WS_LAYER(id, make, input, output, known, depth) [WS_##id] = {input, output, known, depth},
#include "rows.def"
#undef WS_LAYER
};

static const struct ws_way inputs[] = {
#define WS_INPUT(name, layout, distributed) {name, layout, distributed},
#include "rows.def"
#undef WS_INPUT
};

static const struct ws_way outputs[] = {
#define WS_OUTPUT(name, layout, distributed) {name, layout, distributed},
#include "rows.def"
#undef WS_OUTPUT
};

static const char *const sizes[] = {
#define WS_SIZE(id, name) name,
#include "rows.def"
#undef WS_SIZE
};

static const char *const meshes[] = {
#define WS_MESH(name) name,
#include "rows.def"
#undef WS_MESH
};

static const struct {
    const char *name;
    weft_dtype dtype;
} dtypes[] = {
#define WS_DTYPE(name, dtype) {name, dtype},
#include "rows.def"
#undef WS_DTYPE
};

struct choice {
    const char *name;
    bool yes;
};

static const struct choice biases[] = {
#define WS_BIAS(name, yes) {name, yes},
#include "rows.def"
#undef WS_BIAS
};

static const struct choice frozen[] = {
#define WS_FROZEN(name, yes) {name, yes},
#include "rows.def"
#undef WS_FROZEN
};

/* The names of a column stand `step` bytes apart. */
static const struct column {
    const void *names;
    size_t step;
    int count;
} columns[WS_COLUMNS] = {
#define COLUMN(rows)                                                                               \
    {                                                                                              \
        (rows), sizeof *(rows), sizeof(rows) / sizeof *(rows)                                      \
    }
    [WS_INPUT] = COLUMN(inputs), [WS_OUTPUT] = COLUMN(outputs), [WS_SIZE_COLUMN] = COLUMN(sizes),
    [WS_MESH] = COLUMN(meshes),  [WS_DTYPE] = COLUMN(dtypes),   [WS_BIAS] = COLUMN(biases),
    [WS_FROZEN] = COLUMN(frozen)
#undef COLUMN
};

int ws_column_values(enum ws_column column) { return columns[column].count; }

const char *ws_value_name(enum ws_column column, int value)
{
    const struct column *c = &columns[column];

    return *(const char *const *)((const char *)c->names + (size_t)value * c->step);
}

const struct ws_subject *ws_subject_of(const struct ws_case *c) { return &ws_subjects[c->subject]; }

const struct ws_layer *ws_layer_of(const struct ws_case *c)
{
    return &ws_layers[ws_subject_of(c)->layer];
}

const struct ws_way *ws_input_of(const struct ws_case *c) { return &inputs[c->at[WS_INPUT]]; }
const struct ws_way *ws_output_of(const struct ws_case *c) { return &outputs[c->at[WS_OUTPUT]]; }
weft_dtype ws_dtype_of(const struct ws_case *c) { return dtypes[c->at[WS_DTYPE]].dtype; }
bool ws_has_bias(const struct ws_case *c) { return biases[c->at[WS_BIAS]].yes; }
bool ws_is_frozen(const struct ws_case *c) { return frozen[c->at[WS_FROZEN]].yes; }

void ws_case_name(char text[WS_NAME], const struct ws_case *c, const struct ws_grid *grid)
{
    const char *of[WS_COLUMNS];

    for (int i = 0; i < WS_COLUMNS; i++) of[i] = ws_value_name((enum ws_column)i, c->at[i]);
    snprintf(text, WS_NAME, "%s/%s/%s/%s/n%d/%s/%s/%s/%s", ws_subject_of(c)->name, of[WS_INPUT],
             of[WS_OUTPUT], of[WS_SIZE_COLUMN], grid->ranks, of[WS_MESH], of[WS_DTYPE], of[WS_BIAS],
             of[WS_FROZEN]);
}

/* ---- layouts ---- */

weft_placement ws_placement(const char *text, int ndim)
{
    weft_placement p = weft_replicate();

    if (text) weft_placements_parse(&p, 1, text);
    if (p.dim < 0) p.dim = (int8_t)(p.dim + ndim);
    return p;
}

weft_placement ws_gradient_of(weft_placement p)
{
    return weft_is_partial(p) ? weft_replicate() : p;
}

void ws_layouts_of(struct ws_layouts *l, const struct ws_case *c)
{
    const struct ws_subject *s = ws_subject_of(c);
    int n_in = (int)strlen(ws_layer_of(c)->input), n_out = (int)strlen(ws_layer_of(c)->output);
    const char *in = ws_input_of(c)->layout, *out = ws_output_of(c)->layout;

#define RESOLVED(text, ndim) ws_placement((text) == IN ? in : (text) == OUT ? out : (text), ndim)
    l->wants = RESOLVED(s->wants, n_in);
    l->given = in ? ws_placement(in, n_in) : l->wants;
    l->gives = RESOLVED(s->gives, n_out);
    l->out = out ? ws_placement(out, n_out) : ws_gradient_of(l->gives);
    if (weft_is_partial(l->gives) && weft_is_partial(l->out)) l->out = l->gives;
    l->has_back = s->back;
    l->back = l->has_back ? RESOLVED(s->back, n_in) : weft_replicate();
#undef RESOLVED
    if (s->back == IN || s->back == OUT) l->back = ws_gradient_of(l->back);
}

/* ---- the product ---- */

struct list {
    struct ws_case *of;
    int count, room;
};

/* From the outermost loop to the innermost: what needs another reference changes last. */
static const enum ws_column order[WS_COLUMNS] = {WS_MESH,   WS_SIZE_COLUMN, WS_DTYPE, WS_BIAS,
                                                 WS_FROZEN, WS_INPUT,       WS_OUTPUT};

static bool next(struct ws_case *c)
{
    for (int i = WS_COLUMNS; i-- > 0;) {
        if (++c->at[order[i]] < columns[order[i]].count) return true;
        c->at[order[i]] = 0;
    }
    return ++c->subject < ws_n_subjects;
}

static bool matches(const char *filter, const struct ws_case *c, const struct ws_grid *grid)
{
    char name[WS_NAME];

    if (!filter) return true;
    ws_case_name(name, c, grid);
    return strpbrk(filter, "*?[") ? fnmatch(filter, name, 0) == 0 : strstr(name, filter) != NULL;
}

static void add(struct list *list, const struct ws_case *c)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 1024;
        list->of = realloc(list->of, (size_t)list->room * sizeof *list->of);
        if (!list->of) abort();
    }
    list->of[list->count++] = *c;
}

/* ---- pairs ---- */

typedef bool met[WS_COLUMNS][WS_VALUES][WS_COLUMNS][WS_VALUES];

/* Note the pairs of a case; true when one of them is new. */
static bool meets(met seen, const struct ws_case *c)
{
    bool new = false;

    for (int a = 0; a < WS_COLUMNS; a++)
        for (int b = 0; b < a; b++) {
            bool *pair = &seen[a][c->at[a]][b][c->at[b]];

            new |= !*pair;
            *pair = true;
        }
    return new;
}

/*
 * Keep those of one subject that bring a new pair. They are visited in a scattered order, in which
 * neighbours differ in all columns: that takes far fewer cases than their own order.
 */
static int keep_pairs(struct ws_case *cases, int count)
{
    static const unsigned prime = 1000003; /* more than any count, so it visits all */
    bool *kept = calloc((size_t)count, sizeof *kept);
    met *seen = calloc(1, sizeof *seen);
    unsigned at = 0;
    int n = 0;

    if (!kept || !seen) abort();
    for (int i = 0; i < count; i++) {
        kept[at] = meets(*seen, &cases[at]);
        at = (at + prime) % (unsigned)count;
    }
    for (int i = 0; i < count; i++)
        if (kept[i]) cases[n++] = cases[i];
    free(kept);
    free(seen);
    return n;
}

struct ws_case *ws_cases(int *count, ws_absences absent, const struct ws_grid *grid,
                         const char *filter, bool pairs)
{
    struct list list = {NULL, 0, 0};
    struct ws_case c = {0};
    int first = 0;

    do {
        int reason, subject = c.subject;
        bool more, chosen = matches(filter, &c, grid);

        reason = chosen ? ws_reason_of(&c, grid) : WS_REASONS;
        if (reason < WS_REASONS)
            absent[reason][subject]++;
        else if (chosen)
            add(&list, &c);
        more = next(&c);
        if (more && c.subject == subject) continue;
        if (pairs && list.count > first)
            list.count = first + keep_pairs(list.of + first, list.count - first);
        first = list.count;
        if (!more) break;
    } while (true);
    *count = list.count;
    return list.of;
}
