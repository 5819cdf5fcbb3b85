/*
 * test_beside_the_list.c: what reaches a compiled function by another way than its inputs, and what
 * it leaves elsewhere than in its results: seen, or refused.
 */
/* ranks: 1 2 3 */
#include "as_immediate.h"
#include "small_gpt.h"
#include "support/near_modules.h"

static weft_tensor *rows(struct wt_world *w, int which)
{
    return wt_spread(w, wt_whole(WEFT_F32, which, 5, 4), "S(0)");
}

/* ---- inputs ---- */

FUNCTION(add_state) { GIVE(weft_add(in[0], state)); }

/* By the same handle, and by another one: a replay would look for the state's elements in the
 * input. */
WT_TEST_TIMES_IN_WORLD(input_met_from_outside_too__is_refused_in_one_list, w, by_another_handle, 2)
{
    weft_tensor *kept = rows(w, 3), *other = rows(w, 4), *y;
    weft_tensor *given = by_another_handle ? weft_detach(kept) : kept;
    weft_compiled *whole = wt_compile(add_state, kept, true);
    weft_compiled *segments = wt_compile(add_state, kept, false);

    WT_FAILS(weft_compiled_call(whole, &given, 1, &y, 1), WEFT_ERR_STATE, "from outside");
    for (int k = 0; k < 4; k++) {
        weft_tensor *x = k % 2 ? other : given;

        WT_ALL(weft_compiled_call(segments, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, weft_add(x, kept), WT_EXACT));
    }
}

/* What the program keeps is written, and given back, by its own handle: a replay would write, or
 * give, the input of that call. */
FUNCTION(write_kept)
{
    out[0] = weft_tanh(in[0]);
    return out[0] && weft_copy_(state, out[0]) ? WEFT_OK : weft_error_status();
}

FUNCTION(give_kept)
{
    out[0] = weft_tanh(in[0]);
    if (n_out > 1) out[1] = state;
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_TIMES_IN_WORLD(input_kept_by_the_program__is_refused_in_one_list, w, gives, 2)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_tensor *kept = weft_clone(rows(w, 3)), *y[2];
        weft_compiled *compiled = wt_compile(gives ? give_kept : write_kept, kept, fullgraph);

        for (int k = 0; k < 4; k++) {
            weft_tensor *x = k ? rows(w, 4 + k) : kept, *want = weft_tanh(weft_clone(x));

            if (fullgraph) {
                WT_FAILS(weft_compiled_call(compiled, &x, 1, y, 1 + gives), WEFT_ERR_STATE,
                         "from outside");
                break;
            }
            WT_ALL(weft_compiled_call(compiled, &x, 1, y, 1 + gives) == WEFT_OK);
            WT_ALL(wt_near_tensors(y[0], want, WT_EXACT));
            WT_ALL(gives ? y[1] == kept : wt_near_tensors(kept, want, WT_EXACT));
        }
    }
}

/* Its own views of an input are that input. */
FUNCTION(add_view) { GIVE(weft_add(in[0], weft_detach(in[0]))); }

WT_TEST_IN_WORLD(views_that_the_function_makes__are_in_the_list, w)
{
    static const struct wt_compiled_input in[] = {{.layout = "S(0)", .size = {5, 4}}};

    wt_is_as_immediate(w, add_view, NULL, true, in, 1, 1);
}

FUNCTION(backward_within)
{
    out[0] = weft_full_tensor(weft_sum(weft_mul(in[0], in[0]), NULL, 0, false));
    return out[0] && weft_backward(out[0]) == WEFT_OK ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(backward_within__reaches_inputs_in_segments_alone, w)
{
    weft_compiled *whole = wt_compile(backward_within, NULL, true);
    weft_compiled *segments = wt_compile(backward_within, NULL, false);

    for (int k = 0; k < 4; k++) {
        weft_tensor *x = weft_set_requires_grad(rows(w, k), true), *y;

        WT_ALL(weft_compiled_call(segments, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(x), weft_mul_scalar(rows(w, k), 2), WT_EXACT));
        if (k) continue;
        weft_zero_grad(x);
        WT_FAILS(weft_compiled_call(whole, &x, 1, &y, 1), WEFT_ERR_STATE, "reaches an input");
    }
    WT_EQ(weft_compiled_get_counts(segments).replays, 3);
}

/* ---- results ---- */

struct given_weight {
    weft_tensor *w;
};

static weft_status give_weight(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,
                               weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED, void *state)
{
    const struct given_weight *g = state;

    out[0] = weft_linear(in[0], g->w, NULL, 1);
    out[1] = g->w;
    return out[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *sum_of_squares(weft_tensor *x)
{
    return weft_full_tensor(weft_sum(weft_mul(x, x), NULL, 0, false));
}

WT_TEST_IN_WORLD(weight_given_back__is_the_weight, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        struct given_weight g[2];
        weft_compiled *compiled = wt_compile(give_weight, &g[0], fullgraph);

        for (int i = 0; i < 2; i++)
            g[i].w = weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, 7, 3, 4), "R"), true);
        for (int k = 0; k < 4; k++) {
            weft_tensor *x = rows(w, k), *out[2];

            for (int i = 0; i < 2; i++) {
                WT_ALL((i ? give_weight(&x, 1, out, 2, &g[1])
                          : weft_compiled_call(compiled, &x, 1, out, 2)) == WEFT_OK);
                WT_ALL(out[1] == g[i].w);
                WT_ALL(weft_backward(weft_add(sum_of_squares(out[0]), sum_of_squares(out[1]))) ==
                       WEFT_OK);
            }
            WT_ALL(wt_near_tensors(weft_grad(g[0].w), weft_grad(g[1].w), WT_EXACT));
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    }
}

FUNCTION(keep_hidden)
{
    weft_tensor **kept = state, *h = weft_mul(in[0], in[0]);

    weft_release(kept[0]);
    kept[0] = weft_retain(h);
    GIVE(weft_relu(h));
}

/* It is met behind the first backward, when the tape no longer holds it: no replay comes of it. */
WT_TEST_IN_WORLD(kept_tensor_of_a_taped_call__makes_no_replays, w)
{
    weft_tensor *kept[1] = {NULL};
    weft_compiled *compiled = wt_compile(keep_hidden, kept, true);

    for (int k = 0; k < 4; k++) {
        weft_tensor *x = weft_set_requires_grad(rows(w, k), true), *y;

        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(kept[0], weft_mul(rows(w, k), rows(w, k)), WT_EXACT));
        WT_ALL(weft_backward(sum_of_squares(y)) == WEFT_OK);
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, 0);
    weft_release(kept[0]);
}

/* ---- random numbers ---- */

struct reseeding {
    int call;
};

static weft_status draw_reseeded(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,
                                 weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED, void *state)
{
    struct reseeding *r = state;

    if (++r->call == 3) weft_manual_seed(7);
    weft_compile_disable_open();
    if (r->call % 2) (void)weft_dropout(in[0], 0.5, NULL);
    if (weft_compile_disable_close() != WEFT_OK) return weft_error_status();
    GIVE(weft_add(weft_dropout(in[0], 0.5, NULL), in[0]));
}

WT_TEST_IN_WORLD(draws_in_segments__are_those_of_the_program, w)
{
    struct reseeding a = {0}, b = {0};
    weft_compiled *compiled = wt_compile(draw_reseeded, &a, false);

    for (int k = 0; k < 6; k++) {
        weft_tensor *x = rows(w, k), *y, *want;
        weft_generator *own = weft_generator_new(50 + (uint64_t)k);

        WT_ALL(own != NULL);
        weft_manual_seed(90 + (uint64_t)k);
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        weft_manual_seed(90 + (uint64_t)k);
        WT_ALL(draw_reseeded(&x, 1, &want, 1, &b) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, want, WT_EXACT));
        weft_generator_release(own);
    }
}

/* ---- steps of optimizers that read gradients on the host ---- */

struct training {
    weft_module *mlp;
    weft_optim *optim;
    bool clips;
};

static weft_status clipped_step(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,
                                weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED, void *state)
{
    struct training *t = state;
    double norm;

    out[0] = sum_of_squares(weft_call(t->mlp, in[0]));
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    if (t->clips && weft_clip_grad_norm(t->mlp, 0.5, &norm) != WEFT_OK) return weft_error_status();
    return weft_step(t->optim);
}

static struct training new_training(struct wt_world *w, bool clips)
{
    struct training t = {.clips = clips};

    weft_manual_seed(3);
    t.mlp = wt_own(weft_mlp((weft_mlp_config){.in = 4, .hidden = 6, .out = 4}));
    WT_ALL(weft_parallelize_module(
               t.mlp, w->mesh, wt_own(weft_plan_parse("up colwise\ndown rowwise\n"))) == WEFT_OK);
    t.optim = wt_own(clips ? weft_adamw(t.mlp, (weft_adamw_config){.lr = 0.1})
                           : weft_muon(t.mlp, (weft_muon_config){.lr = 0.1}));
    return t;
}

WT_TEST_TIMES_IN_WORLD(clipping_and_muon__are_as_immediate, w, clips, 2)
{
    struct training t = new_training(w, clips), plain = new_training(w, clips);
    weft_compiled *compiled = wt_compile(clipped_step, &t, false);

    for (int k = 0; k < 5; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, 5, 4), *y, *want;

        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(clipped_step(&x, 1, &want, 1, &plain) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, want, WT_EXACT));
        WT_NEAR_PARAMETERS(t.mlp, plain.mlp, WT_EXACT);
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_ALL(weft_compiled_get_counts(compiled).segments > 0);
}

/* ---- what other code reads and writes ---- */

FUNCTION(write_state)
{
    if (!weft_add_(state, in[0])) return weft_error_status();
    GIVE(weft_mul_scalar(state, 2));
}

/* A collective in flight still reads what the list is about to write. */
WT_TEST_IN_WORLD(reader_in_flight__has_the_old_elements, w)
{
    weft_tensor *kept = weft_clone(rows(w, 1)), *y;
    weft_compiled *compiled = wt_compile(write_state, kept, true);

    if (wt_ranks() == 1) return; /* nothing moves: the two share their bytes */
    for (int k = 0; k < 4; k++) {
        weft_tensor *before = weft_full_tensor(weft_clone(kept)), *x = rows(w, k);
        weft_tensor *gathered =
            weft_redistribute_with(kept, NULL, &(weft_redistribute_options){.async = true});

        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(weft_wait(gathered), before, WT_EXACT));
        WT_ALL(wt_near_tensors(kept, weft_add(before, weft_full_tensor(x)), WT_EXACT));
    }
}

/* ---- generation with a cache, which counts its tokens on the host ---- */

FUNCTION(next_logits) { GIVE(weft_call(state, in[0])); }

enum { GENERATED = 5 };

WT_TEST_IN_WORLD(cache_of_a_model__is_refused_in_one_list, w)
{
    weft_module *gpt[2] = {given_small_gpt(w, 0), given_small_gpt(w, 0)};
    weft_compiled *compiled = wt_compile(next_logits, gpt[0], false),
                  *whole = wt_compile(next_logits, gpt[0], true);
    weft_status status = WEFT_OK;

    weft_no_grad_open();
    for (int c = 0; c < 2; c++) {
        WT_ALL(weft_module_cache(gpt[c], GENERATED) == WEFT_OK);
    }
    for (int k = 0; k < GENERATED; k++) {
        int64_t token = 3 * k + 1, shape[] = {1, 1};
        weft_tensor *in = weft_from_data(WEFT_I64, shape, 2, &token), *y = NULL, *want = NULL;

        WT_ALL(weft_compiled_call(compiled, &in, 1, &y, 1) == WEFT_OK);
        WT_ALL(next_logits(&in, 1, &want, 1, gpt[1]) == WEFT_OK);
        WT_ALL(wt_near_tensors(y, want, WT_EXACT));
    }
    for (int k = 0; k < 2 * GENERATED && status == WEFT_OK; k++) { /* the first makes the cache */
        int64_t token = 1, shape[] = {1, 1};
        weft_tensor *in = weft_from_data(WEFT_I64, shape, 2, &token), *y = NULL;

        WT_ALL(weft_module_cache_rewind(gpt[0], 0) == WEFT_OK);
        status = weft_compiled_call(whole, &in, 1, &y, 1);
    }
    WT_FAILS(status, WEFT_ERR_STATE, "on the host");
    WT_ALL(weft_no_grad_close() == WEFT_OK);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "beside_the_list"); }
