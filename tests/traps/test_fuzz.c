/*
 * test_fuzz.c: random chains of ops over random layouts equal the same chains on plain tensors, in
 * value and in every gradient. Fixed seeds; a report holds seed, number and text of the chain.
 *
 *     WT_FUZZ=seed:first:chains build/tests/traps.fuzz --ranks 4 other
 *
 * runs other chains, or one again.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ranks/worlds.h"
#include "tensor/tensor.h"
#include "traps/chain.h"

enum { CHAINS = 60, STEPS = 6 };

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

    if (!t[0] && !t[1]) return true;
    if (!t[0] || !t[1] || !same_shape(t[0], t[1])) {
        wt_note("%s: %s %d: %s: %s", c->text, what, number,
                t[0] && t[1] ? "other shape"
                             : (t[0] ? "distributed is refused" : "plain is refused"),
                weft_error_message());
        return false;
    }
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

    for (int a = 0; g && a < weft_mesh_ndim(c->mesh); a++)
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

static void random_order(struct chain *c, int *ranks)
{
    for (int r = 0; r < wt_ranks(); r++) ranks[r] = r;
    for (int r = wt_ranks() - 1; r > 0 && chain_once_in(c, 2); r--) {
        int other = chain_pick(c, r + 1), kept = ranks[r];

        ranks[r] = ranks[other];
        ranks[other] = kept;
    }
}

/* All ranks of the world on one to three axes, some in an order of their own; a mesh of merged axes
 * lets redistribution merge collectives. */
static void random_mesh(struct chain *c)
{
    static const char *const names[] = {"a", "a,b", "a,b,c"}, *const merge[] = {"a,b", "b,c",
                                                                                "a,b,c"};
    int left = wt_ranks(), n_axes = 1 + chain_pick(c, 3), sizes[3], ranks[64];
    char text[64];

    for (int a = 0; a < n_axes; a++) {
        sizes[a] = a == n_axes - 1 ? left : 1 + chain_pick(c, left);
        while (left % sizes[a]) sizes[a]--;
        left /= sizes[a];
    }
    random_order(c, ranks);
    c->mesh = weft_mesh_from_ranks(WEFT_CPU, n_axes, sizes, names[n_axes - 1], ranks);
    weft_mesh_print(c->mesh, text, sizeof text);
    chain_say(c, "%s on %d ranks: ", text, wt_ranks());
    if (n_axes > 1 && chain_once_in(c, 2)) {
        const char *which = merge[n_axes == 2 ? 0 : chain_pick(c, 3)];
        weft_mesh *part = weft_mesh_sub(c->mesh, which);

        chain_say(c, "merged %s: ", which);
        c->merged = weft_mesh_flatten(part, "merged");
        weft_mesh_release(part);
    }
}

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

static void run_chains(uint64_t seed, int first, int chains)
{
    int64_t tensors = wf_tensor_count();
    int finished = 0;

    for (int i = first; i < first + chains; i++) {
        struct chain c = {.state = seed << 32 | (uint64_t)i};
        weft_scope *scope = weft_scope_open();

        chain_say(&c, "%llu:%d:1: ", (unsigned long long)seed, i);
        random_mesh(&c);
        WT_ALL(run(&c, &finished));
        for (int l = 0; l < c.leaves; l++)
            for (int s = 0; s < 2; s++) weft_zero_grad(c.leaf[l][s]);
        weft_scope_close(scope);
        weft_mesh_release(c.merged);
        weft_mesh_release(c.mesh);
        WT_EQ(wf_tensor_count(), tensors);
    }
    WT_ALL(finished * 4 >= chains * 3);
}

WT_TEST(chains__equal_one_device_1) { run_chains(1, 0, CHAINS); }

WT_TEST(chains__equal_one_device_2) { run_chains(20, 0, CHAINS); }

WT_TEST(chains__equal_one_device_3) { run_chains(300, 0, CHAINS); }

WT_TEST(other__chains_from_outside)
{
    const char *text = getenv("WT_FUZZ");
    unsigned long long seed = 4;
    int first = 0, chains = 1;

    if (text) sscanf(text, "%llu:%d:%d", &seed, &first, &chains);
    run_chains(seed, first, chains);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(chains__equal_one_device_1),
        WT_CASE(chains__equal_one_device_2),
        WT_CASE(chains__equal_one_device_3),
        WT_CASE(other__chains_from_outside),
        WT_END,
    };

    return wt_main(argc, argv, "fuzz", cases);
}
