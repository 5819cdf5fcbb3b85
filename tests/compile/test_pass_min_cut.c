/* test_pass_min_cut.c: the pass min_cut: what backward needs of forward is computed again where
 * that saves bytes, with the same bits; and is saved where a caller may write to what it is made
 * of. */
#include "passes.h"

#include "as_immediate.h"
#include "compile/passes/min_cut/max_flow.h"

enum { ROWS = 301, COLUMNS = 256 };

/* The product reads gelu(y), gelu's gradient reads y: one of them is enough. */
FUNCTION(gelu_between_products)
{
    weft_tensor *y = weft_matmul(in[0], in[1]);

    GIVE(weft_matmul(weft_gelu_tanh(y), in[1]));
}

static const struct pass_case between_products = {
    .function = gelu_between_products,
    .dtype = WEFT_F32,
    .n_in = 2,
    .n_out = 1,
    .rows = {ROWS, COLUMNS},
    .columns = {COLUMNS, COLUMNS},
    .placements = {"S(0)", "R"},
    .gradients = true,
};

WT_TEST_IN_WORLD(activation__is_computed_again, w)
{
    weft_compiled *compiled = given_compiled(w, &between_products, NULL);
    weft_compiled *plain = given_compiled(w, &between_products, "min_cut,fuse");
    weft_compiled_counts counts = weft_compiled_get_counts(compiled);

    WT_EQ(counts.saved_without, weft_compiled_get_counts(plain).saved_without);
    WT_EQ(weft_compiled_get_counts(plain).saved, counts.saved_without);
    WT_EQ(counts.saved, counts.saved_without / 2);
    WT_EQ(given_lines(plain, true, false, "gelu_tanh("), 0);
    WT_EQ(given_lines(given_compiled(w, &between_products, "fuse"), true, false, "gelu_tanh("), 1);
}

/* A chain of three, each of which backward reads. */
FUNCTION(chain_of_products)
{
    weft_tensor *y = weft_matmul(in[0], in[1]), *a = weft_tanh(y), *b = weft_mul(a, y);

    GIVE(weft_matmul(weft_mul(b, a), in[1]));
}

WT_TEST_IN_WORLD(chain__is_computed_again_from_its_start, w)
{
    struct pass_case c = between_products;
    weft_compiled_counts counts;

    c.function = chain_of_products;
    counts = weft_compiled_get_counts(given_compiled(w, &c, NULL));
    WT_EQ(counts.saved, counts.saved_without / 4);
}

/* Backward reads no input as it is, so the caller may write over it. */
FUNCTION(of_negative) { GIVE(weft_matmul(weft_neg(in[0]), in[1])); }

WT_TEST_IN_WORLD(input_that_backward_does_not_read__stays_the_callers, w)
{
    weft_compiled *compiled = wt_compile(of_negative, NULL, true);

    for (int call = 0; call < 4; call++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, call, ROWS, COLUMNS), "S(0)");
        weft_tensor *weight = wt_spread(w, wt_whole(WEFT_F32, 7, COLUMNS, COLUMNS), "R");
        weft_tensor *other = weft_set_requires_grad(weft_detach(weight), true), *out, *want;
        weft_tensor *in[] = {weft_mul_scalar(x, 1), weft_set_requires_grad(weight, true)};

        WT_ALL(weft_compiled_call(compiled, in, 2, &out, 1) == WEFT_OK);
        want = weft_matmul(weft_neg(x), other);
        WT_ALL(weft_zero_(in[0]) == WEFT_OK);
        WT_ALL(weft_backward(weft_sum_all(out)) == WEFT_OK);
        WT_ALL(weft_backward(weft_sum_all(want)) == WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(weight), weft_grad(other), WT_EXACT));
        weft_scope_close(scope);
    }
    WT_EQ(weft_compiled_get_counts(compiled).backward_replays, 3);
}

/* ---- the cut itself, against all cuts of small graphs ---- */

enum { VERTICES = 7, EDGES = 14, SOURCE = 0, SINK = 1 };

struct edge {
    int from, to;
    int64_t capacity;
};

static int64_t capacity_of_cut(const struct edge *edges, unsigned behind)
{
    int64_t sum = 0;

    for (int e = 0; e < EDGES; e++)
        if (!(behind >> edges[e].from & 1) && behind >> edges[e].to & 1) sum += edges[e].capacity;
    return sum;
}

static int64_t least_cut(const struct edge *edges)
{
    int64_t least = INT64_MAX;

    for (unsigned behind = 0; behind < 1u << VERTICES; behind++)
        if (!(behind >> SOURCE & 1) && behind >> SINK & 1 && capacity_of_cut(edges, behind) < least)
            least = capacity_of_cut(edges, behind);
    return least;
}

WT_TEST(cut__is_a_least_one_and_nearest_to_the_sink)
{
    uint32_t state = 12345;

    for (int trial = 0; trial < 400; trial++) {
        struct wf_flow_graph graph;
        struct edge edges[EDGES];
        bool marks[VERTICES];
        unsigned behind = 0;

        wf_flow_init(&graph, VERTICES);
        for (int e = 0; e < EDGES; e++) {
            uint32_t draw[3];

            for (int k = 0; k < 3; k++) draw[k] = (state = state * 1664525u + 1013904223u) >> 8;
            edges[e] =
                (struct edge){(int)(draw[0] % VERTICES), (int)(draw[1] % VERTICES), draw[2] % 10};
            wf_flow_add_edge(&graph, edges[e].from, edges[e].to, edges[e].capacity);
        }
        wf_flow_min_cut(&graph, SOURCE, SINK, marks);
        for (int v = 0; v < VERTICES; v++) behind |= (unsigned)marks[v] << v;
        WT_EQ(capacity_of_cut(edges, behind), least_cut(edges));
        for (unsigned other = 0; other < 1u << VERTICES; other++)
            if (!(other >> SOURCE & 1) && other >> SINK & 1 &&
                capacity_of_cut(edges, other) == capacity_of_cut(edges, behind))
                WT_EQ(other & behind, behind);
        wf_flow_free(&graph);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_min_cut"); }
