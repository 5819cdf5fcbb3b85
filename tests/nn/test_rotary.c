/*
 * test_rotary.c: rotary positions against their formula: pairs that lie apart or side by side, a
 * part of a head, stretched positions; of parts of a tensor, by index, and their gradients.
 */
/* ranks: 1 2 3 4 8 */
/* mpi: 3 */
#include <math.h>

#include "support/worlds.h"

enum { B = 2, T = 7, H = 3, D = 8, COUNT = B * T * H * D };

static const weft_rotary_options forms[] = {
    {0},
    {.interleaved = true},
    {.dims = 4},
    {.dims = 6, .interleaved = true},
    {.dims = 2, .base = 100, .offset = 3},
    {.heads = 2},
    {.factor = 4, .offset = 1000},
    {.base = 500000, .factor = 8, .low = 1, .high = 4, .length = 8192, .offset = 5000},
    {.base = 500000,
     .factor = 8,
     .low = 1,
     .high = 4,
     .length = 8192,
     .dims = 6,
     .interleaved = true},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Llama 3.1 says its rule by wave lengths. */
static double frequency(const weft_rotary_options *o, int dims, int pair)
{
    double f = pow(o->base > 0 ? o->base : 10000, -2.0 * pair / dims), wave = 2 * acos(-1) / f,
           smooth;

    if (o->factor == 0) return f;
    if (o->length == 0) return f / o->factor;
    if (wave < o->length / o->high) return f;
    if (wave > o->length / o->low) return f / o->factor;
    smooth = (o->length / wave - o->low) / (o->high - o->low);
    return (1 - smooth) * f / o->factor + smooth * f;
}

/* Element j of a head, turned. */
static double turned(const double *x, const weft_rotary_options *o, double position, int j)
{
    int dims = o->dims ? (int)o->dims : D, half = dims / 2;
    int pair = o->interleaved ? j / 2 : j % half, second = o->interleaved ? j % 2 : j / half;
    int a = o->interleaved ? 2 * pair : pair, b = o->interleaved ? a + 1 : a + half;
    double angle = position * frequency(o, dims, pair);

    if (j >= dims) return x[j];
    return second ? x[b] * cos(angle) + x[a] * sin(angle) : x[a] * cos(angle) - x[b] * sin(angle);
}

/* All of [B,T,H,D]; `sense` -1 turns back. */
static void expect(double *want, const double *x, const weft_rotary_options *o,
                   const int64_t *index, int sense)
{
    for (int i = 0; i < COUNT; i++) {
        int64_t token = i / (H * D), position = index ? index[token] : token % T;
        bool turns = o->heads == 0 || i / D % H < o->heads;

        want[i] =
            turns ? turned(x + i / D * D, o, sense * (double)(position + o->offset), i % D) : x[i];
    }
}

static weft_tensor *heads(int which)
{
    static const int64_t shape[] = {B, T, H, D};

    return weft_reshape(wt_whole(WEFT_F64, which, 1, COUNT), shape, 4);
}

/* Forward and backward, of a tensor that lies like this. */
static void check(struct wt_world *w, const weft_rotary_options *o, const char *layout,
                  const int64_t *index, const char *index_layout)
{
    weft_tensor *x = heads(0), *g = heads(1), *at = NULL, *y;
    double want[COUNT];

    x = weft_set_requires_grad(weft_detach(layout ? wt_spread(w, x, layout) : x), true);
    if (index) at = weft_from_data(WEFT_I64, (int64_t[]){B, T}, 2, index);
    if (index && layout) at = wt_spread(w, at, index_layout);
    wt_moved(w, WEFT_COLL_COUNT);
    y = weft_rotary(x, at, *o);
    WT_STILL(w);
    expect(want, weft_data(heads(0)), o, index, 1);
    WT_ALL(wt_near_full(y, want, WT_WITHIN(1e-12)));
    WT_EQ(weft_backward_from(y, layout ? wt_spread(w, g, layout) : g), WEFT_OK);
    expect(want, weft_data(heads(1)), o, index, -1);
    WT_ALL(wt_near_full(weft_grad(x), want, WT_WITHIN(1e-12)));
}

WT_TEST(rotary__follows_its_formula)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < FORMS; i++) check(&w, &forms[i], NULL, NULL, NULL);
}

/* A part of the tokens knows where it begins, a part of the heads which they are. */
WT_TEST(rotary__of_parts_moves_nothing)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < FORMS; i++) {
        check(&w, &forms[i], "S(1)", NULL, NULL);
        check(&w, &forms[i], "S(0)", NULL, NULL);
        if (forms[i].heads == 0) check(&w, &forms[i], "S(2)", NULL, NULL);
    }
}

/* Positions by index, as of sequences packed one behind another. */
WT_TEST(rotary__takes_positions)
{
    static const int64_t index[B * T] = {0, 1, 2, 0, 1, 2, 3, 9, 8, 7, 0, 0, 1, 500};
    struct wt_world w = wt_world_open();

    for (int i = 0; i < FORMS; i++) {
        check(&w, &forms[i], NULL, index, NULL);
        check(&w, &forms[i], "S(1)", index, "S(1)");
        if (forms[i].heads == 0) check(&w, &forms[i], "S(2)", index, "R");
    }
}

/* What attention sees is how far tokens are apart. */
WT_TEST(rotary__leaves_distances_to_attention)
{
    for (int i = 0; i < FORMS; i++) {
        weft_rotary_options o = forms[i];
        weft_tensor *near, *far;

        near = weft_attention(weft_rotary(heads(0), NULL, o), weft_rotary(heads(1), NULL, o),
                              heads(2), true, 0);
        o.offset += 77;
        far = weft_attention(weft_rotary(heads(0), NULL, o), weft_rotary(heads(1), NULL, o),
                             heads(2), true, 0);
        WT_ALL(wt_near_tensors(far, near, WT_WITHIN(1e-10)));
    }
}

/* ---- in an attention layer ---- */

enum { G = 3, R = 2, WIDTH = 5 };

/* Queries and keys taken out of the product, and turned one by one. */
static weft_tensor *by_hand(weft_module *m, weft_tensor *x, weft_rotary_options o)
{
    weft_tensor *qkv = weft_linear(x, weft_module_parameter(m, "qkv.weight"),
                                   weft_module_parameter(m, "qkv.bias"), 1);
    weft_tensor *q = weft_rotary(weft_slice(qkv, 3, 0, R), NULL, o);
    weft_tensor *k = weft_rotary(weft_select(qkv, 3, R), NULL, o);

    q = weft_attention_with(q, k, weft_select(qkv, 3, R + 1),
                            (weft_attention_options){.causal = true});
    return weft_linear(q, weft_module_parameter(m, "proj.weight"),
                       weft_module_parameter(m, "proj.bias"), 3);
}

static void check_layer(struct wt_world *w, weft_rotary_options o)
{
    const weft_plan plan[] = {
        {"qkv", weft_colwise_parallel()}, {"proj", weft_rowwise_parallel()}, {0}};
    weft_tensor *x = weft_set_requires_grad(wt_whole3(WEFT_F64, 0, B, T, WIDTH), true);
    weft_tensor *again = weft_set_requires_grad(weft_detach(x), true), *want, *got;
    weft_module *m;

    if (o.base == 0) o.base = 10000;
    m = wt_own(weft_attention_new((weft_attention_config){.width = WIDTH,
                                                          .heads = G * R,
                                                          .kv_heads = G,
                                                          .head_dim = D,
                                                          .rotary = o,
                                                          .dtype = WEFT_F64}));
    want = by_hand(m, x, o);
    WT_EQ(weft_parallelize_module(m, w->mesh, plan), WEFT_OK);
    got = weft_call(m, again);
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-11)));
    WT_EQ(weft_backward(weft_sum_all(weft_square(want))), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_square(got))), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(again), weft_grad(x), WT_WITHIN(1e-10)));
}

WT_TEST(rotary__of_an_attention_layer)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < FORMS; i++)
        if (forms[i].heads == 0) check_layer(&w, forms[i]);
}

/* What would be overlooked is refused. */
WT_TEST(rotary__of_an_attention_layer_needs_a_base)
{
    weft_attention_config c = {.width = 8, .heads = 2, .rotary = {.dims = 2}};

    WT_FAILS(weft_attention_new(c), WEFT_ERR_ARG, "without rotary.base");
    c.rotary = (weft_rotary_options){.base = 100, .heads = 1};
    WT_FAILS(weft_attention_new(c), WEFT_ERR_ARG, "rotary.heads is 1");
    c.rotary = (weft_rotary_options){.base = -1};
    WT_FAILS(weft_attention_new(c), WEFT_ERR_ARG, "rotary.base is -1");
}

WT_TEST(rotary__refuses)
{
    weft_tensor *x = heads(0);

    WT_FAILS(weft_rotary(x, NULL, (weft_rotary_options){.dims = 3}), WEFT_ERR_SHAPE,
             "even number of dims");
    WT_FAILS(weft_rotary(x, NULL, (weft_rotary_options){.dims = D + 2}), WEFT_ERR_SHAPE,
             "even number of dims");
    WT_FAILS(weft_rotary(x, NULL, (weft_rotary_options){.low = 1}), WEFT_ERR_ARG, "low < high");
}

/* Tokens far apart, given alone with their positions, or among others that a mask hides. */
/* trial 4.4 */
WT_TEST(rotary__of_an_attention_layer_turns_by_the_positions_it_is_given)
{
    enum { ALL = 9, FEW = 3, IN = 6 };
    static const int64_t places[FEW] = {0, 3, 8};
    weft_module *m = wt_own(weft_attention_new((weft_attention_config){
        .width = IN, .heads = 3, .rotary = {.base = 50}, .dtype = WEFT_F64}));
    weft_tensor *x = wt_whole3(WEFT_F64, 1, 2, ALL, IN), *few, *y, *want;
    weft_tensor *where = weft_from_data(WEFT_I64, (int64_t[]){FEW}, 1, places);
    weft_tensor *seen = weft_empty(WEFT_BOOL, (int64_t[]){2, ALL}, 2);

    for (int64_t i = 0; i < 2 * ALL; i++)
        ((bool *)weft_data(seen))[i] = i % ALL == 0 || i % ALL == 3 || i % ALL == 8;
    want = weft_call_n(m, (weft_tensor *[]){x, seen}, 2);
    few = weft_expand(where, (int64_t[]){2, FEW}, 2);
    y = weft_call_n(
        m,
        (weft_tensor *[]){weft_cat((weft_tensor *[]){weft_slice(x, 1, 0, 1), weft_slice(x, 1, 3, 4),
                                                     weft_slice(x, 1, 8, 9)},
                                   3, 1),
                          few},
        2);
    for (int64_t i = 0; i < FEW; i++)
        WT_ALL(wt_near_tensors(weft_select(y, 1, i), weft_select(want, 1, places[i]),
                               WT_WITHIN(1e-12)));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "rotary"); }
