/*
 * trial.c: one case: the parallel module beside the one on one device, in stages. After each the
 * ranks exchange whether anyone has to complain, and go on or stop together: what one rank alone
 * finds never leaves the others waiting.
 */
#include <stdio.h>
#include <string.h>

#include "suite.h"

struct trial {
    struct ws_run *run;
    const struct ws_case *c;
    struct ws_layouts l;
    struct ws_source source;
    weft_mesh *mesh;
    int ways, index;
    weft_module *module;
    struct ws_parameters parameters;
    weft_tensor *x, *y;
    weft_ledger *ledger;
    struct ws_watch watch;
    struct ws_compiled compiled;
    int64_t live; /* bytes, before */
};

/* ---- verdicts ---- */

/* Does any rank complain? Gives the first that does, or the number of ranks. */
static int first_to_complain(struct ws_run *run)
{
    int32_t first = weft_world_rank();
    weft_tensor *t;

    if (!run->failure[0] && weft_error_status() != WEFT_OK)
        ws_fail(run, "%s: %s", weft_status_name(weft_error_status()), weft_error_message());
    weft_error_clear();
    if (!run->failure[0]) first = run->grid.ranks;
    t = weft_from_data(WEFT_I32, NULL, 0, &first);
    t = weft_mesh_all_reduce(t, WEFT_MIN, run->world, 0);
    return t ? (int)weft_item(t) : 0;
}

/* ---- what goes in ---- */

/* A distributed tensor of which every rank has the whole. */
static weft_tensor *spread(struct trial *t, weft_tensor *whole, weft_placement layout)
{
    return weft_distribute_tensor(weft_detach(whole), t->mesh, &layout, -1);
}

static weft_tensor *shard_of(weft_tensor *distributed)
{
    return weft_detach(weft_to_local(distributed, NULL));
}

static weft_tensor *partial_input(struct trial *t)
{
    weft_tensor *term = ws_input_term(t->c, t->index, t->ways, t->source);

    return ws_input_of(t->c)->distributed ? weft_from_local(term, t->mesh, &t->l.given, NULL)
                                          : term;
}

static weft_tensor *given_input(struct trial *t)
{
    weft_tensor *x;

    if (weft_is_partial(t->l.given)) return partial_input(t);
    x = spread(t, t->run->reference.x, t->l.given);
    return ws_input_of(t->c)->distributed ? x : shard_of(x);
}

static void freeze(struct ws_parameters *p)
{
    for (int i = 0; i < p->n; i++) weft_set_requires_grad(p->at[i].tensor, false);
}

/* What backward begins with, as the output is. */
static weft_tensor *output_gradient(struct trial *t)
{
    weft_tensor *g = spread(t, t->run->reference.g, ws_gradient_of(t->l.out));

    return ws_output_of(t->c)->distributed ? g : shard_of(g);
}

static void set_up(struct trial *t)
{
    t->module = ws_module(t->c, t->ways, t->source.seed);
    ws_parameters_of(&t->parameters, t->module);
    if (ws_is_frozen(t->c)) freeze(&t->parameters);
    if (!t->module || ws_apply(t->module, t->mesh, t->c) != WEFT_OK) return;
    ws_parameters_of(&t->parameters, t->module);
    t->x = given_input(t);
    if (t->l.has_back) weft_set_requires_grad(t->x, true);
    if (t->run->compile)
        ws_compiled_begin(&t->compiled, t->run, t->module, t->x, t->run->reference.target,
                          output_gradient(t), &t->parameters);
    ws_watch_begin(&t->watch, t->run, &t->parameters);
}

/* ---- collectives ---- */

/* What the closed forms say, unless the self-test wants them wrong. */
static struct ws_tally expected(struct trial *t, enum ws_phase phase)
{
    struct ws_tally want = ws_expected(t->c, phase, &t->run->reference.parameters, t->mesh);
    bool last = weft_world_rank() == t->run->grid.ranks - 1;

    if (phase == WS_FORWARD) {
        want.count[0] += ws_spoils(t->run, WS_SPOIL_FORWARD_COUNT);
    } else if (phase == WS_BACKWARD) {
        want.bytes[1] += ws_spoils(t->run, WS_SPOIL_BACKWARD_BYTES);
        want.count[0] += last && ws_spoils(t->run, WS_SPOIL_ONE_RANK);
    } else {
        want.sent[0] += ws_spoils(t->run, WS_SPOIL_LATER_SENT);
    }
    return want;
}

static void check_tally(struct trial *t, enum ws_phase phase, weft_direction direction)
{
    static const char *const names[] = {"forward", "backward", "reducing gradients"};
    struct ws_tally want = expected(t, phase), got = ws_heard(t->ledger, direction);

    for (int k = 0; k < WS_KINDS; k++) {
        if (got.count[k] != want.count[k])
            ws_fail(t->run, "%s: %lld %s, expected %lld", names[phase], (long long)got.count[k],
                    ws_kind_names[k], (long long)want.count[k]);
        if (got.bytes[k] != want.bytes[k] || got.sent[k] != want.sent[k])
            ws_fail(t->run, "%s: %s of %lld bytes, %lld sent; expected %lld and %lld", names[phase],
                    ws_kind_names[k], (long long)got.bytes[k], (long long)got.sent[k],
                    (long long)want.bytes[k], (long long)want.sent[k]);
    }
    if (got.others)
        ws_fail(t->run, "%s: %lld other collectives", names[phase], (long long)got.others);
}

/* ---- forward ---- */

/* A plain shard that was handed on, as the distributed tensor that it is a part of. */
static weft_tensor *whole_of(struct trial *t, weft_tensor *part, weft_placement layout,
                             const struct ws_numbers *like)
{
    return part ? weft_from_local(weft_detach(part), t->mesh, &layout, like->shape) : NULL;
}

static void run_forward(struct trial *t)
{
    weft_tensor *inputs[] = {t->x, t->run->reference.target};
    bool distributed = ws_output_of(t->c)->distributed;

    weft_ledger_start(t->ledger);
    t->y = t->compiled.compiled ? ws_compiled_call(&t->compiled, t->x, inputs[1])
                                : weft_call_n(t->module, inputs, inputs[1] ? 2 : 1);
    weft_ledger_stop(t->ledger);
    if (!t->y) return;
    check_tally(t, WS_FORWARD, WEFT_DIRECTION_FORWARD);
    if ((weft_tensor_mesh(t->y) != NULL) != distributed)
        ws_fail(t->run, "the output is %s", distributed ? "plain" : "distributed");
    else if (distributed)
        ws_check_layout(t->run, "output", t->y, t->l.out);
}

static void check_output(struct trial *t)
{
    const struct ws_numbers *want = &t->run->reference.y_numbers;
    weft_tensor *y = ws_output_of(t->c)->distributed ? t->y : whole_of(t, t->y, t->l.out, want);

    ws_compare(t->run, "output", y, t->l.out, want, ws_layer_of(t->c)->depth, WS_SPOIL_OUTPUT);
}

/* ---- backward ---- */

static void run_backward(struct trial *t)
{
    weft_tensor *g = output_gradient(t);
    weft_tensor *leaves[WS_PARAMETERS + 1];
    int n = 0;

    if (!weft_requires_grad(t->y)) {
        if (t->l.has_back || !ws_is_frozen(t->c)) ws_fail(t->run, "the output wants no gradient");
        return;
    }
    weft_ledger_start(t->ledger);
    if (weft_backward_from(t->y, g) != WEFT_OK) return;
    weft_ledger_stop(t->ledger);
    check_tally(t, WS_BACKWARD, WEFT_DIRECTION_BACKWARD);
    for (int i = 0; i < t->parameters.n; i++) leaves[n++] = t->parameters.at[i].tensor;
    leaves[n++] = t->x;
    weft_ledger_start(t->ledger);
    weft_reduce_gradients(leaves, n);
    weft_ledger_stop(t->ledger);
    check_tally(t, WS_LATER, WEFT_DIRECTION_ANY);
}

/* ---- gradients ---- */

static void check_input_gradient(struct trial *t)
{
    const struct ws_numbers *want = &t->run->reference.x_gradient;
    weft_placement layout = ws_gradient_of(t->l.given);
    weft_tensor *g;

    if (!t->l.has_back) return;
    g = weft_grad(t->x);
    if (!ws_input_of(t->c)->distributed) g = whole_of(t, g, layout, want);
    ws_compare(t->run, "gradient of the input", g, layout, want, ws_layer_of(t->c)->depth,
               WS_SPOIL_INPUT_GRADIENT);
}

static void check_parameter(struct trial *t, int i)
{
    const struct ws_reference *r = &t->run->reference;
    const char *name = t->parameters.at[i].name;
    weft_tensor *p = t->parameters.at[i].tensor;
    weft_placement layout;
    bool later, frozen = ws_is_frozen(t->c);
    bool distributed = ws_parameter_layout(&layout, &later, t->c, name, p, t->ways);
    char what[96];

    snprintf(what, sizeof what, "gradient of %s", name);
    if (weft_requires_grad(p) == frozen)
        ws_fail(t->run, "%s is %s", name, frozen ? "trained" : "frozen");
    else if (frozen && weft_grad(p))
        ws_fail(t->run, "%s is frozen and has a gradient", name);
    else if (distributed != (weft_tensor_mesh(p) != NULL))
        ws_fail(t->run, "%s is %s", name, distributed ? "plain" : "distributed");
    else if (distributed && !weft_placement_equal(weft_tensor_placement(p, 0), layout))
        ws_fail(t->run, "%s is placed in another way", name);
    if (frozen || t->run->failure[0]) return;
    if (!distributed) layout = weft_replicate();
    weft_ledger_start(t->ledger);
    p = distributed ? weft_grad(p) : whole_of(t, weft_grad(p), layout, &r->gradient[i]);
    weft_ledger_stop(t->ledger);
    if (weft_ledger_count(t->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL))
        ws_fail(t->run, "reading the %s communicates", what);
    ws_compare(t->run, what, p, layout, &r->gradient[i], 2 * ws_layer_of(t->c)->depth,
               WS_SPOIL_PARAMETER_GRADIENT);
}

static void check_gradients(struct trial *t)
{
    int n = t->run->reference.parameters.n;

    if (t->parameters.n != n)
        ws_fail(t->run, "%d parameters, on one device %d", t->parameters.n, n);
    if (weft_requires_grad(t->y)) check_input_gradient(t);
    for (int i = 0; i < t->parameters.n && !t->run->failure[0]; i++) check_parameter(t, i);
}

/* ---- the whole ---- */

static int64_t live_bytes(void)
{
    return weft_memory_of(WEFT_MEMORY_WEIGHTS).live + weft_memory_of(WEFT_MEMORY_GRADIENTS).live +
           weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live;
}

/* Local: nothing is sent. */
static void begin(struct trial *t)
{
    struct ws_run *run = t->run;
    int mesh = t->c->at[WS_MESH];

    t->mesh = run->tp[mesh];
    t->ways = weft_mesh_size(t->mesh);
    t->index = weft_mesh_coordinate(t->mesh, 0);
    t->source = run->source[mesh];
    ws_layouts_of(&t->l, t->c);
    if (ws_reference_for(&run->reference, t->c, t->ways, t->source) != WEFT_OK) return;
    t->live = live_bytes();
    set_up(t);
}

static void finish(struct trial *t)
{
    check_output(t);
    run_backward(t);
    check_gradients(t);
    if (t->compiled.compiled) ws_compiled_check(&t->compiled, t->run, t->x, t->y, &t->parameters);
    ws_watch_end(&t->watch, t->run, &t->parameters);
}

bool ws_try(struct ws_run *run, const struct ws_case *c, int *rank)
{
    struct trial t = {.run = run, .c = c};
    weft_scope *scope = weft_scope_open();

    run->failure[0] = '\0';
    run->spoiled = false;
    t.ledger = weft_ledger_open();
    weft_ledger_stop(t.ledger);
    begin(&t);
    *rank = first_to_complain(run);
    if (*rank == run->grid.ranks) {
        run_forward(&t);
        *rank = first_to_complain(run);
    }
    if (*rank == run->grid.ranks) finish(&t);
    weft_ledger_close(t.ledger);
    weft_compiled_release(t.compiled.compiled);
    weft_module_release(t.module);
    weft_scope_close(scope);
    if (*rank < run->grid.ranks) return false;
    if (live_bytes() != t.live)
        ws_fail(run, "%lld bytes of tensors are left", (long long)(live_bytes() - t.live));
    *rank = first_to_complain(run);
    return *rank == run->grid.ranks;
}
