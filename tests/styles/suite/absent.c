/*
 * absent.c: which combinations of the rows do not exist. Every one that is left out has a reason,
 * which the matrix prints.
 */
#include <string.h>

#include "suite.h"

const char *const ws_reasons[WS_REASONS] = {
#define WS_ABSENT(test, reason) reason,
#include "rows.def"
#undef WS_ABSENT
};

/* What the reasons look at. */
struct facts {
    const struct ws_case *c;
    const struct ws_subject *subject;
    const struct ws_way *in, *out;
    struct ws_layouts l;
    int ways;
    bool even, prepare, index;
};

static struct facts facts_of(const struct ws_case *c, const struct ws_grid *grid)
{
    struct facts f = {.c = c,
                      .subject = ws_subject_of(c),
                      .in = ws_input_of(c),
                      .out = ws_output_of(c),
                      .ways = grid->ways[c->at[WS_MESH]],
                      .even = c->at[WS_SIZE_COLUMN] == WS_EVEN};

    f.prepare = f.subject->style == WS_PREPARE_INPUT || f.subject->style == WS_PREPARE_OUTPUT ||
                f.subject->style == WS_PREPARE_BOTH;
    f.index = f.subject->layer == WS_EMBEDDING;
    ws_layouts_of(&f.l, c);
    return f;
}

static bool is(const char *layout, const char *text) { return layout && strcmp(layout, text) == 0; }

static bool other_mesh(const struct facts *f) { return f->ways == 0; }

static bool one_rank(const struct facts *f) { return f->ways == 1 && !f->even; }

static bool has_no_bias(const struct facts *f)
{
    return ws_has_bias(f->c) && !strstr(f->subject->parameters, "bias");
}

static bool nothing_frozen(const struct facts *f)
{
    return ws_is_frozen(f->c) && !*f->subject->parameters;
}

static bool must_say(const struct facts *f)
{
    return !f->in->layout && (f->prepare || f->subject->style == WS_CUSTOM);
}

static bool says_nothing(const struct facts *f) { return f->prepare && !f->out->layout; }

static bool index_partial(const struct facts *f) { return f->index && is(f->in->layout, "P"); }

static bool input_twice(const struct facts *f) { return f->index && is(f->in->layout, "S(-1)"); }

static bool has_no_dims(const struct facts *f)
{
    return f->subject->style == WS_LOSS && weft_is_shard(f->l.out);
}

static bool has_own_layout(const struct facts *f)
{
    if (f->subject->style == WS_READY)
        return strcmp(f->in->name, "in=R") != 0 || strcmp(f->out->name, "out=R") != 0;
    return f->subject->style == WS_READY_SEQUENCE &&
           (strcmp(f->in->name, "fed=S(1)") != 0 || strcmp(f->out->name, "kept=S(1)") != 0);
}

static bool never_partial(const struct facts *f)
{
    return (weft_is_replicate(f->l.gives) && weft_is_partial(f->l.out)) ||
           (weft_is_replicate(f->l.given) && weft_is_partial(f->l.wants));
}

static bool must_be_even(const struct facts *f)
{
    const struct ws_layer *layer = ws_layer_of(f->c);
    int known = (int)strlen(layer->input) - layer->known;

    return !f->in->distributed && !f->even && weft_is_shard(f->l.given) && f->l.given.dim < known;
}

int ws_reason_of(const struct ws_case *c, const struct ws_grid *grid)
{
    static bool (*const tests[WS_REASONS])(const struct facts *) = {
#define WS_ABSENT(test, reason) test,
#include "rows.def"
#undef WS_ABSENT
    };
    const struct facts f = facts_of(c, grid);
    int reason = 0;

    while (reason < WS_REASONS && !tests[reason](&f)) reason++;
    return reason;
}
