/*
 * test_fuzz.c: random chains of ops over random layouts equal the same chains on plain tensors, in
 * value and in every gradient. Fixed seeds; a report holds seed, number and text of the chain.
 *
 *     WT_FUZZ=seed:first:chains build/tests/traps.fuzz --ranks 4 other
 *
 * runs other chains, or one again.
 */
/* mpi: 4 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"
#include "tensor/tensor.h"
#include "traps/chain.h"

enum { CHAINS = 40, STEPS = 6 };

/* Sums are taken in another order on more ranks; that is all that may differ. */
static const double tolerance = 1e-9;

/* ---- comparing ---- */

static bool agree(double got, double want)
{
    return got == want || (isnan(got) && isnan(want)) ||
           fabs(got - want) <= tolerance * (1 + fabs(want));
}

static bool same_shape(const weft_tensor *a, const weft_tensor *b)
{
    bool same = weft_ndim(a) == weft_ndim(b);

    for (int d = 0; same && d < weft_ndim(a); d++) same = weft_size(a, d) == weft_size(b, d);
    return same;
}

/* Side 1, brought together, is side 0; `what` names them in the report. */
static bool equal_sides(const struct chain *c, weft_tensor *const *t, const char *what, int number)
{
    double *got, *want;
    int64_t at = 0, n;

    if (!t[0] && !t[1]) return true; /* refused alike, or no gradient */
    if (!t[0] || !t[1] || !same_shape(t[0], t[1])) {
        wt_note("%s: %s %d: %s: %s", c->text, what, number,
                t[0] && t[1] ? "other shape"
                             : (t[0] ? "distributed is refused" : "plain is refused"),
                weft_error_message());
        return false;
    }
    if (weft_tensor_mesh(t[1]) && !weft_mesh_is_member(weft_tensor_mesh(t[1]))) return true;
    n = weft_numel(t[0]);
    got = wt_values(t[1]);
    want = wt_values(t[0]);
    while (got && want && at < n && agree(got[at], want[at])) at++;
    if (at < n)
        wt_note("%s: %s %d: element %lld is %.12g, not %.12g", c->text, what, number, (long long)at,
                got ? got[at] : NAN, want ? want[at] : NAN);
    free(got);
    free(want);
    return at == n;
}

static bool same_placements(const struct chain *c, int leaf)
{
    const weft_tensor *t = c->leaf[leaf][1], *g = weft_grad(c->leaf[leaf][1]);

    for (int a = 0; g && weft_tensor_mesh(t) && a < weft_mesh_ndim(weft_tensor_mesh(t)); a++)
        if (!weft_placement_equal(weft_tensor_placement(t, a), weft_tensor_placement(g, a))) {
            wt_note("%s: gradient %d has another layout than its leaf", c->text, leaf);
            return false;
        }
    return true;
}

static bool equal_gradients(struct chain *c)
{
    for (int i = 0; i < c->leaves; i++) {
        weft_tensor *g[2] = {weft_grad(c->leaf[i][0]), weft_grad(c->leaf[i][1])};

        if (!equal_sides(c, g, "gradient", i) || !same_placements(c, i)) return false;
    }
    return true;
}

/* ---- one chain ---- */

static void first_operand(struct chain *c)
{
    int64_t shape[4];
    int ndim = chain_pick(c, 5);

    for (int d = 0; d < ndim; d++) shape[d] = chain_size(c);
    chain_leaf(c, c->x, ndim, shape);
}

static bool backward_agrees(struct chain *c, weft_tensor *const *loss)
{
    weft_status status[2];

    for (int s = 0; s < 2; s++) status[s] = weft_backward(loss[s]);
    if (status[0] != status[1]) wt_note("%s: backward: %s", c->text, weft_error_message());
    return status[0] == status[1] && equal_gradients(c);
}

/* gives: false, with a note, when the sides differ */
static bool run(struct chain *c, int *finished)
{
    int steps = 1 + chain_pick(c, STEPS);
    weft_tensor *loss[2];

    first_operand(c);
    for (int i = 0; i < steps && c->x[0] && c->x[1]; i++) chain_step(c);
    if (!equal_sides(c, c->x, "result", 0)) return false;
    if (c->x[0]) {
        chain_loss(c, loss);
        if (!equal_sides(c, loss, "loss", 0)) return false;
        if (loss[0] && !backward_agrees(c, loss)) return false;
        *finished += loss[0] != NULL;
    }
    weft_error_clear(); /* both sides may refuse */
    return true;
}

static void drop(struct chain *c, weft_scope *scope)
{
    for (int l = 0; l < c->leaves; l++)
        for (int s = 0; s < 2; s++) weft_zero_grad(c->leaf[l][s]);
    weft_scope_close(scope);
    while (c->meshes > 0) weft_mesh_release(c->made[--c->meshes]);
}

static void run_chains(uint64_t seed, int first, int chains)
{
    int64_t tensors = wf_tensor_live_count();
    int finished = 0;

    for (int i = first; i < first + chains; i++) {
        struct chain c = {.state = seed << 32 | (uint64_t)i};
        weft_scope *scope = weft_scope_open();

        chain_say(&c, "%llu:%d:1: ", (unsigned long long)seed, i);
        chain_mesh(&c);
        WT_ALL(run(&c, &finished));
        drop(&c, scope);
        WT_EQ(wf_tensor_live_count(), tensors);
    }
    WT_ALL(finished * 4 >= chains * 3);
}

WT_TEST(chains__equal_one_device_1) { run_chains(1, 0, CHAINS); }

WT_TEST(chains__equal_one_device_2) { run_chains(20, 0, CHAINS); }

WT_TEST(chains__equal_one_device_3) { run_chains(300, 0, CHAINS); }

/* ---- the same without elements ---- */

struct books {
    char result[256]; /* what the chain gives */
    weft_ledger_sum sums[WEFT_COLL_COUNT];
};

/* The chain on side 1, forward and backward, and what it sends or would send. */
static void keep_books(struct chain *c, struct books *books)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss[2] = {NULL};
    weft_ledger *ledger;
    int steps;

    chain_mesh(c);
    steps = 1 + chain_pick(c, STEPS);
    ledger = weft_ledger_open();
    first_operand(c);
    for (int i = 0; i < steps && c->x[0] && c->x[1]; i++) chain_step(c);
    if (c->x[0] && c->x[1]) {
        weft_tensor_format(c->x[1], books->result, sizeof books->result);
        chain_loss(c, loss);
        if (loss[1]) weft_backward(loss[1]);
    }
    for (int k = 0; k < WEFT_COLL_COUNT; k++)
        books->sums[k] = weft_ledger_total(ledger, (weft_coll)k, WEFT_DIRECTION_ANY, NULL);
    weft_ledger_close(ledger);
    weft_error_clear();
    drop(c, scope);
}

static bool same_books(const struct chain *c, const struct books *real, const struct books *meta)
{
    if (strncmp(real->result, meta->result, strlen(real->result)) != 0) {
        wt_note("%s: %s, without elements %s", c->text, real->result, meta->result);
        return false;
    }
    for (int k = 0; k < WEFT_COLL_COUNT; k++) {
        weft_ledger_sum a = real->sums[k], b = meta->sums[k];

        if (a.count == b.count && a.bytes == b.bytes && a.sent == b.sent) continue;
        wt_note("%s: collective %d: %lld of %lld bytes, without elements %lld of %lld", c->text, k,
                (long long)a.count, (long long)a.sent, (long long)b.count, (long long)b.sent);
        return false;
    }
    return true;
}

/* Layouts, and what is booked as sent, are those of the real chain. */
WT_TEST(chains__without_elements_send_what_real_ones_send)
{
    for (uint64_t i = 0; i < CHAINS; i++) {
        struct chain real = {.state = (uint64_t)5 << 32 | i},
                     meta = {.state = real.state, .meta = true};
        struct books books[2] = {{.result = ""}};

        chain_say(&real, "5:%d: ", (int)i);
        keep_books(&real, &books[0]);
        keep_books(&meta, &books[1]);
        WT_ALL(same_books(&real, &books[0], &books[1]));
    }
}

WT_TEST(other__chains_from_outside)
{
    const char *text = getenv("WT_FUZZ");
    unsigned long long seed = 4;
    int first = 0, chains = 1;

    if (text) sscanf(text, "%llu:%d:%d", &seed, &first, &chains);
    run_chains(seed, first, chains);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "fuzz"); }
