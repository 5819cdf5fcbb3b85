/*
 * test_stages.c: stages of a pipeline, each on ranks of its own along the axis "pp" of the mesh.
 * What a stage gives is sent to the ranks of the next one (weft_redistribute_to_mesh), its gradient
 * back; compiled, both are nodes of the lists. Each stage draws by a seed of its own.
 */
/* ranks: 1 2 3 4 */
/* mpi: 2 4 */
#include <stdlib.h>
#include <string.h>

#include "as_immediate.h"

enum { MOST = 4, ROWS = 6, WIDTH = 8, CALLS = 4, SEED = 123 };

struct stages {
    struct wt_world *w;
    weft_mesh *mesh[MOST];
    int n;
    double dropout;
    int micro; /* batches one after another */
};

/* "pp=2,tp=2" of four ranks, else a stage for each rank. */
static struct stages new_stages(struct wt_world *w, double dropout, int micro)
{
    int ranks = wt_ranks(), tp = ranks == 4 ? 2 : 1;
    struct stages s = {w, {NULL}, ranks / tp, dropout, micro};
    weft_mesh *grid = wt_own(weft_mesh_new(wt_device(), "pp=%d,tp=%d", s.n, tp));

    for (int stage = 0; stage < s.n; stage++) {
        int line[MOST];

        weft_mesh_line_ranks(grid, 1, stage, line, MOST);
        s.mesh[stage] = wt_own(weft_mesh_from_ranks(wt_device(), &tp, 1, "tp", line));
    }
    return s;
}

static int stage_of_rank(const struct stages *s) { return wt_rank() / (wt_ranks() / s->n); }

static void seed_stage(const struct stages *s, int call)
{
    int stage = stage_of_rank(s);

    WT_ALL(weft_manual_seed_on(s->mesh[stage], (uint64_t)(SEED + stage + 100 * call)) == WEFT_OK);
}

static weft_tensor *run_stages(const struct stages *s, weft_tensor *x, weft_tensor *const *weights)
{
    for (int stage = 0; stage < s->n; stage++) {
        if (stage > 0) x = weft_redistribute_to_mesh(x, s->mesh[stage], NULL);
        x = weft_relu(weft_matmul(x, weights[stage]));
        if (s->dropout > 0) x = weft_dropout(x, s->dropout, NULL);
    }
    return weft_redistribute_to_mesh(x, s->w->mesh, NULL);
}

/* in: x on the first stage, then the weights of each; the mean square of what comes out. */
static weft_status mean_square(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,
                               weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED, void *state)
{
    const struct stages *s = state;
    weft_tensor *total = NULL;

    for (int m = 0; m < s->micro; m++) {
        weft_tensor *x = weft_slice(in[0], 0, m * ROWS / s->micro, (m + 1) * ROWS / s->micro);
        weft_tensor *y = run_stages(s, x, in + 1), *sum = weft_mean(weft_mul(y, y), NULL, 0, false);

        total = total ? weft_add(total, sum) : sum;
    }
    out[0] = total;
    return total ? WEFT_OK : weft_error_status();
}

/* Weights by columns. The same elements on every rank, whoever has them. */
static void make_inputs(const struct stages *s, int call, weft_tensor **in)
{
    weft_placement columns = weft_shard(1), whole = weft_replicate();

    for (int i = 0; i <= s->n; i++) {
        weft_tensor *t = wt_whole(WEFT_F32, 3 * call + i, i ? WIDTH : ROWS, WIDTH);

        in[i] = weft_distribute_tensor(t, s->mesh[i ? i - 1 : 0], i ? &columns : &whole, -1);
        weft_set_requires_grad(in[i], true);
    }
}

static weft_tensor *gradient(const struct stages *s, weft_tensor *t)
{
    return weft_full_tensor(weft_redistribute_to_mesh(weft_grad(t), s->w->mesh, NULL));
}

/* Whole plain tensors through all of it, without dropout. */
static void check_against_one_process(const struct stages *s, int call, weft_tensor *const *in,
                                      weft_tensor *got)
{
    weft_tensor *leaf[MOST + 1], *x, *total = NULL;

    for (int i = 0; i <= s->n; i++)
        leaf[i] =
            weft_set_requires_grad(wt_whole(WEFT_F32, 3 * call + i, i ? WIDTH : ROWS, WIDTH), true);
    for (int m = 0; m < s->micro; m++) {
        x = weft_slice(leaf[0], 0, m * ROWS / s->micro, (m + 1) * ROWS / s->micro);
        for (int stage = 0; stage < s->n; stage++) x = weft_relu(weft_matmul(x, leaf[stage + 1]));
        x = weft_mean(weft_mul(x, x), NULL, 0, false);
        total = total ? weft_add(total, x) : x;
    }
    WT_ALL(wt_near_tensors(got, total, WT_WITHIN(1e-5)));
    WT_ALL(weft_backward(total) == WEFT_OK);
    for (int i = 0; i <= s->n; i++)
        WT_ALL(wt_near_tensors(gradient(s, in[i]), weft_grad(leaf[i]), WT_WITHIN(1e-5)));
}

/* B16: with one batch and with three, with and without dropout, whole and in segments. */
WT_TEST_TIMES_IN_WORLD(stages__compiled_are_as_immediate, w, i, 8)
{
    struct stages s = new_stages(w, i / 2 % 2 ? 0.3 : 0, i / 4 ? 3 : 1);
    weft_compiled *compiled = wt_compile(mean_square, &s, i % 2);

    for (int call = 0; call < CALLS; call++) {
        weft_tensor *in[MOST + 1], *plain[MOST + 1], *got = NULL, *want = NULL;
        int64_t replayed;

        make_inputs(&s, call, in);
        make_inputs(&s, call, plain);
        seed_stage(&s, call);
        weft_ledger_reset(w->ledger);
        WT_ALL(weft_compiled_call(compiled, in, s.n + 1, &got, 1) == WEFT_OK);
        WT_ALL(weft_backward(weft_full_tensor(got)) == WEFT_OK);
        replayed = weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);
        seed_stage(&s, call);
        weft_ledger_reset(w->ledger);
        WT_ALL(mean_square(plain, s.n + 1, &want, 1, &s) == WEFT_OK);
        WT_ALL(weft_backward(weft_full_tensor(want)) == WEFT_OK);
        WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), replayed);
        WT_ALL(wt_near_tensors(got, want, WT_EXACT));
        for (int k = 0; k <= s.n; k++)
            WT_ALL(wt_near_tensors(gradient(&s, in[k]), gradient(&s, plain[k]), WT_EXACT));
        if (s.dropout == 0) check_against_one_process(&s, call, in, got);
    }
    wt_note("%s", weft_compiled_reason(compiled));
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_EQ(weft_compiled_get_counts(compiled).replays, CALLS - 1);
    WT_EQ(weft_compiled_get_counts(compiled).plain, 0);
}

/* B16: a node for what is sent to the next stage, in forward and in backward. */
WT_TEST_IN_WORLD(stages__send_by_nodes_of_both_lists, w)
{
    struct stages s = new_stages(w, 0, 1);
    weft_compiled *compiled = wt_compile(mean_square, &s, true);
    char text[16000] = {0};
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    const char *backward, *at;
    int sent[2] = {0, 0};

    for (int call = 0; call < 2; call++) {
        weft_tensor *in[MOST + 1], *loss = NULL;

        make_inputs(&s, call, in);
        WT_ALL(weft_compiled_call(compiled, in, s.n + 1, &loss, 1) == WEFT_OK);
        WT_ALL(weft_backward(weft_full_tensor(loss)) == WEFT_OK);
    }
    weft_compiled_print(compiled, true, out);
    fclose(out);
    wt_note("%s", text);
    backward = strstr(text, "tested, backward");
    WT_ALL(backward != NULL);
    for (at = text; (at = strstr(at, "= to_mesh(")); at++) sent[at > backward]++;
    if (s.n == 1) return; /* a mesh of the same rank: nothing is sent */
    WT_EQ(sent[0], s.n);  /* the last one to all ranks, which have its gradient already */
    WT_ALL(sent[1] == s.n - 1 || sent[1] == s.n);
}

/* in: of each stage a tensor of ones. */
FUNCTION(drop_in_each_stage)
{
    const struct stages *s = state;

    for (int stage = 0; stage < s->n; stage++) {
        out[stage] = weft_dropout(in[stage], 0.5, NULL);
        if (!out[stage]) return weft_error_status();
    }
    return WEFT_OK;
}

static weft_tensor *new_ones(void) { return weft_full(WEFT_F32, (int64_t[]){40, 10}, 2, 1); }

/* B16: what a stage draws first is what one process draws first by the stage's seed, so stages
 * differ. */
WT_TEST_TIMES_IN_WORLD(stages__draw_by_their_own_seeds, w, i, 2)
{
    struct stages s = new_stages(w, 0, 1);
    weft_compiled *compiled = wt_compile(drop_in_each_stage, &s, i);

    for (int call = 0; call < 3; call++) {
        weft_tensor *ones[MOST], *got[MOST], *want[MOST];

        for (int stage = 0; stage < s.n; stage++)
            ones[stage] = weft_distribute_tensor(new_ones(), s.mesh[stage],
                                                 (weft_placement[]){weft_shard(0)}, -1);
        seed_stage(&s, call);
        WT_ALL(weft_compiled_call(compiled, ones, s.n, got, s.n) == WEFT_OK);
        for (int stage = 0; stage < s.n; stage++) {
            weft_manual_seed((uint64_t)(SEED + stage + 100 * call));
            want[stage] = weft_dropout(new_ones(), 0.5, NULL);
            WT_ALL(wt_near_tensors(weft_redistribute_to_mesh(got[stage], w->mesh, NULL),
                                   want[stage], WT_EXACT));
            if (stage > 0)
                WT_ALL(weft_item(
                           weft_sum(weft_abs(weft_sub(want[stage], want[0])), NULL, 0, false)) > 0);
        }
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "stages"); }
