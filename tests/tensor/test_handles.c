/* test_handles.c: tensors, scopes and regions that are used after their end, on every rank alike.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/knob.h"
#include "support/worlds.h"

enum { ROWS = 5, COLUMNS = 2 };

/* trial 1.8 */
WT_TEST_IN_WORLD(handle__of_a_closed_scope_is_refused_by_name, w)
{
    weft_tensor *kept = wt_spread(w, wt_whole(WEFT_F32, 1, ROWS, COLUMNS), "S(0)"), *gone;
    weft_scope *scope = weft_scope_open();
    double elements[ROWS * COLUMNS];

    gone = weft_relu(kept);
    weft_scope_close(scope);
    for (int i = 0; i < 10; i++)
        WT_ALL(weft_mul(kept, kept) != NULL); /* others take no handle of it */
    WT_ALL(weft_add(gone, kept) == NULL);
    WT_FAILED(WEFT_ERR_STATE, "add: the tensor from relu was released");
    WT_ALL(weft_transpose(gone, 0, 1) == NULL);
    weft_error_clear();
    WT_ALL(weft_sum_all(gone) == NULL);
    WT_FAILED(WEFT_ERR_STATE, "the tensor from relu was released");
    WT_ALL(isnan(weft_item(gone)));
    WT_FAILED(WEFT_ERR_STATE, "item: the tensor from relu was released");
    WT_ALL(weft_data(gone) == NULL);
    WT_FAILED(WEFT_ERR_STATE, "was released");
    WT_EQ(weft_read_f64(gone, elements, ROWS * COLUMNS), WEFT_ERR_STATE);
    weft_error_clear();
    WT_FAILS(weft_backward(gone), WEFT_ERR_STATE, "backward: the tensor from relu was released");
    WT_FAILS(weft_fill_(gone, 1), WEFT_ERR_STATE, "fill: the tensor from relu was released");
    WT_ALL(weft_retain(gone) == NULL);
    WT_FAILED(WEFT_ERR_STATE, "retain: the tensor from relu was released");
    WT_ALL(weft_ndim(gone) == 0 && weft_numel(gone) == 0 && !weft_tensor_mesh(gone));
}

/* trial 1.8: from one step to the next there are thousands of others */
WT_TEST_IN_WORLD(handle__is_refused_after_thousands_of_others, w)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *gone = weft_relu(weft_full(WEFT_F32, NULL, 0, 7)), *kept;

    weft_scope_close(scope);
    kept = wt_spread(w, wt_whole(WEFT_F32, 1, ROWS, COLUMNS), "S(0)");
    for (int i = 0; i < 160; i++) { /* 16,000 */
        weft_scope *step = weft_scope_open();

        for (int j = 0; j < 100; j++) weft_mul(kept, kept);
        weft_scope_close(step);
        if (i != 50 && i != 159) continue;
        WT_FAILS(weft_add(gone, gone), WEFT_ERR_STATE, "add: the tensor from relu was released");
        WT_ALL(isnan(weft_item(gone)));
        WT_FAILED(WEFT_ERR_STATE, "item: the tensor from relu was released");
    }
}

/* ---- functions that look at a tensor, or hand it back, before dispatch sees it ---- */

struct entry {
    const char *who;
    bool (*refuses)(weft_tensor *t);
};

/* clang-format off */
#define GIVES(name, call) \
    static bool name(weft_tensor *t) { return !(call); }
#define FAILS(name, call) \
    static bool name(weft_tensor *t) { return (call) != WEFT_OK; }

static const int first_dim[] = {0};
static const int64_t no_size[1];
static weft_dtensor_spec flat;
static weft_layout paper;
static weft_redistribution_cost cost;
static bool alike;
static char text[256];

GIVES(to_local, weft_to_local(t, NULL))
GIVES(full_tensor, weft_full_tensor(t))
GIVES(from_local, weft_from_local(t, NULL, NULL, NULL))
GIVES(checked, weft_from_local_with(t, NULL, NULL, (weft_from_local_options){.run_check = true}))
GIVES(redistribute, weft_redistribute(t, NULL))
GIVES(redistribute_with, weft_redistribute_with(t, NULL, NULL))
FAILS(redistribute_cost, weft_redistribute_cost(&cost, t, NULL))
FAILS(redistribute_explain, weft_redistribution_format(t, NULL, text, sizeof text) < 0)
GIVES(flatten, weft_dtensor_unwrap(t, &flat))
GIVES(unflatten, weft_dtensor_wrap(t, &flat))
FAILS(save, weft_shard_to_bytes(t, NULL, 0) < 0)
GIVES(new_empty, weft_new_empty(t, NULL, NULL, 0))
GIVES(as_strided, weft_as_strided(t, NULL, NULL, 0, 0))
GIVES(awaited, weft_wait(t))
GIVES(untyped, weft_drop_grad_types(t))
GIVES(cast, weft_cast(t, WEFT_F32))
GIVES(contiguous, weft_contiguous(t))
FAILS(copied_to, weft_copy_(t, t))
GIVES(to, weft_to_device(t, WEFT_CPU))
GIVES(empty_like, weft_empty_like(t, WEFT_CPU))
GIVES(zeros_like, weft_zeros_like(t))
GIVES(rand_like, weft_rand_like(t, NULL))
GIVES(reshape, weft_reshape(t, NULL, 0))
GIVES(permute, weft_permute(t, NULL))
GIVES(transpose, weft_transpose(t, 0, 1))
GIVES(slice, weft_slice(t, 0, 0, 1))
GIVES(selected, weft_select(t, 0, 0))
FAILS(split, weft_split(&t, t, 0, NULL, 1))
GIVES(expand, weft_expand(t, no_size, 1))
GIVES(cat, weft_cat(&t, 1, 0))
GIVES(softmax, weft_softmax(t, 0))
GIVES(log_softmax, weft_log_softmax(t, 0))
GIVES(sum, weft_sum(t, first_dim, 1, false))
GIVES(mean, weft_mean(t, first_dim, 1, false))
GIVES(max, weft_amax(t, first_dim, 1, false))
GIVES(topk, weft_topk(t, 1, 0, NULL))
GIVES(argmax, weft_argmax(t, 0))
GIVES(prod, weft_prod(t, first_dim, 1, false))
GIVES(norm, weft_norm(t, 2, first_dim, 1, false))
GIVES(std, weft_std(t, first_dim, 1, 1, false))
GIVES(any, weft_any(t, first_dim, 1, false))
GIVES(nanmean, weft_nanmean(t, first_dim, 1, false))
GIVES(argmin_all, weft_argmin_all(t))
GIVES(max_with_index, weft_max_with_index(t, 0, false, NULL))
GIVES(sort, weft_sort(t, 0, false, NULL))
GIVES(histc, weft_histc(t, 3, 0, 1))
GIVES(logsumexp, weft_logsumexp(t, first_dim, 1, false))
GIVES(layer_norm, weft_layer_norm(t, NULL, NULL, 1e-5))
GIVES(rms_norm, weft_rms_norm(t, NULL, 1e-5))
GIVES(batch_norm, weft_batch_norm(t, NULL, NULL, 1e-5, (weft_batch_norm_options){.training = true}))
GIVES(group_norm, weft_group_norm(t, 1, NULL, NULL, 1e-5))
GIVES(cumsum, weft_cumsum(t, 0))
GIVES(linear_scan, weft_linear_scan(t, t, NULL, 0))
GIVES(cross_entropy, weft_cross_entropy(t, t, 0))
GIVES(rotary, weft_rotary(t, NULL, (weft_rotary_options){0}))
GIVES(embedding, weft_embedding(t, t))
GIVES(attention, weft_attention(t, t, t, false, 0))
FAILS(uniform, weft_uniform_(t, 0, 1, NULL))
FAILS(kaiming, weft_kaiming_normal_(t, 0, WEFT_FAN_IN, NULL))
GIVES(bernoulli, weft_bernoulli(t, NULL))
GIVES(multinomial, weft_multinomial(t, 1, true, NULL))
GIVES(dropout, weft_dropout(t, 0.5, NULL))
FAILS(equal, weft_equal(&alike, t, t))
FAILS(allclose, weft_allclose(&alike, t, t, (weft_allclose_options){0}))
FAILS(reduce_gradients, weft_reduce_gradients(&t, 1))
FAILS(layout, weft_layout_of(&paper, t))
GIVES(memory_count_as, weft_memory_count_as(t, WEFT_MEMORY_WEIGHTS))
FAILS(explain, weft_explain_print(t, 1, stderr))
FAILS(visualize, weft_sharding_print(t, stderr))
FAILS(visualize_svg, weft_sharding_svg_print(t, stderr))
GIVES(returned, weft_scope_return(NULL, t))
/* clang-format on */

static const struct entry entries[] = {
    {"to_local", to_local},
    {"full_tensor", full_tensor},
    {"from_local", from_local},
    {"from_local", checked},
    {"redistribute", redistribute},
    {"redistribute", redistribute_with},
    {"redistribute_cost", redistribute_cost},
    {"redistribution_format", redistribute_explain},
    {"dtensor_unwrap", flatten},
    {"dtensor_wrap", unflatten},
    {"save", save},
    {"new_empty", new_empty},
    {"as_strided", as_strided},
    {"wait", awaited},
    {"untyped", untyped},
    {"cast", cast},
    {"contiguous", contiguous},
    {"copy_", copied_to},
    {"to", to},
    {"empty_like", empty_like},
    {"tensor like another", zeros_like},
    {"tensor like another", rand_like},
    {"reshape", reshape},
    {"permute", permute},
    {"transpose", transpose},
    {"slice", slice},
    {"select", selected},
    {"split", split},
    {"expand", expand},
    {"cat", cat},
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"sum", sum},
    {"mean", mean},
    {"max", max},
    {"topk", topk},
    {"argmax", argmax},
    {"prod", prod},
    {"norm", norm},
    {"std", std},
    {"any", any},
    {"nanmean", nanmean},
    {"argmin", argmin_all},
    {"max", max_with_index},
    {"sort", sort},
    {"histc", histc},
    {"logsumexp", logsumexp},
    {"layer_norm", layer_norm},
    {"rms_norm", rms_norm},
    {"batch_norm", batch_norm},
    {"group_norm", group_norm},
    {"cumsum", cumsum},
    {"linear_scan", linear_scan},
    {"cross_entropy", cross_entropy},
    {"rotary", rotary},
    {"embedding", embedding},
    {"attention", attention},
    {"uniform", uniform},
    {"kaiming", kaiming},
    {"bernoulli", bernoulli},
    {"multinomial", multinomial},
    {"dropout", dropout},
    {"equal", equal},
    {"allclose", allclose},
    {"reduce gradients", reduce_gradients},
    {"layout", layout},
    {"memory_count_as", memory_count_as},
    {"explain", explain},
    {"sharding_print", visualize},
    {"sharding_print", visualize_svg},
    {"scope_return", returned},
};

/* trial 1.8 */
WT_TEST_TIMES_IN_WORLD(handle__that_was_released_is_refused_wherever_it_enters, w, plain, 2)
{
    weft_tensor *t = wt_whole(WEFT_F32, 1, ROWS, COLUMNS);
    weft_scope *scope = weft_scope_open();

    t = weft_relu(plain ? t : wt_spread(w, t, "S(0)"));
    weft_scope_close(scope);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        char told[128];
        bool refused;

        snprintf(told, sizeof told, "%s: the tensor from relu was released", entries[i].who);
        refused = entries[i].refuses(t) && strstr(weft_error_message(), told);
        if (!refused) wt_note("%s: %s", told, weft_error_message());
        weft_error_clear();
        WT_ALL(refused);
    }
}

static weft_tensor *as_it_is(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    (void)payload;
    return in[0];
}

static weft_tensor *input(weft_module *m, weft_tensor *const *in, int n)
{
    (void)m;
    (void)n;
    return in[0];
}

/* trial 1.8: modules, states and the tape keep no tensor that is gone */
WT_TEST_IN_WORLD(handle__that_was_released_is_kept_by_nobody, w)
{
    static const weft_module_class kind = {.type = "holder", .forward = input};
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_I64};
    weft_buffer_options options = {0};

    for (int i = 0; i < 2; i++) {
        weft_module *m = weft_module_new(&kind, NULL);
        weft_state *state = weft_state_new();
        weft_scope *scope = weft_scope_open();
        weft_tensor *kept = weft_full(dtypes[i], (int64_t[]){ROWS}, 1, 1), *gone;

        WT_EQ(weft_module_add_parameter(m, "weight", kept), WEFT_OK);
        WT_EQ(weft_module_add_buffer(m, "seen", weft_full(dtypes[i], NULL, 0, 1), options),
              WEFT_OK);
        gone = weft_full(dtypes[i], (int64_t[]){ROWS}, 1, 1);
        weft_scope_close(scope);
        WT_FAILS(weft_module_add_parameter(m, "more", gone), WEFT_ERR_STATE, "was released");
        WT_EQ(weft_module_add_buffer(m, "more", gone, options), WEFT_ERR_STATE);
        WT_FAILED(WEFT_ERR_STATE, "was released");
        WT_FAILS(weft_module_set_parameter(m, "weight", gone), WEFT_ERR_STATE, "was released");
        WT_FAILS(weft_module_set_buffer(m, "seen", gone), WEFT_ERR_STATE, "was released");
        WT_ALL(weft_module_parameter(m, "weight") == kept);
        WT_FAILS(weft_state_add_tensor(state, "gone", gone), WEFT_ERR_STATE, "was released");
        WT_ALL(!weft_recomputed(as_it_is, &gone, 1, NULL, NULL));
        WT_FAILED(WEFT_ERR_STATE, "recomputed: the tensor from");
        WT_ALL(!weft_set_requires_grad(gone, false));
        WT_FAILED(WEFT_ERR_STATE, "set_requires_grad: the tensor from");
        WT_FAILS(weft_grad(gone), WEFT_ERR_STATE, "grad: the tensor from");
        WT_ALL(weft_tensor_version(gone) == 0);
        WT_FAILED(WEFT_ERR_STATE, "tensor_version: the tensor from");
        weft_increment_version(gone);
        WT_FAILED(WEFT_ERR_STATE, "increment_version: the tensor from");
        WT_ALL(!weft_mesh_all_gather(gone, 0, NULL, w->mesh, 0));
        WT_FAILED(WEFT_ERR_STATE, "all_gather: the tensor from");
        WT_ALL(!weft_mesh_all_reduce(gone, WEFT_SUM, w->mesh, 0));
        WT_FAILED(WEFT_ERR_STATE, "all_reduce: the tensor from");
        WT_ALL(!weft_distribute_tensor(gone, w->mesh, NULL, 0));
        WT_FAILED(WEFT_ERR_STATE, "distribute_tensor: the tensor from");
        weft_state_release(state);
        weft_module_release(m);
    }
}

/* trial 1.8 */
WT_TEST_IN_WORLD(handle__released_once_too_often_is_told, w)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = weft_retain(weft_full(WEFT_F32, NULL, 0, 1));

    weft_scope_close(scope);
    weft_release(t);
    WT_EQ(weft_error_status(), WEFT_OK);
    weft_release(t);
    WT_FAILED(WEFT_ERR_STATE, "release: the tensor from");
}

struct other {
    weft_tensor *t;
    bool refused;
};

static void *elsewhere(void *payload)
{
    struct other *other = payload;

    other->refused = weft_relu(other->t) == NULL && weft_error_status() == WEFT_ERR_STATE;
    weft_error_clear();
    weft_release(other->t);
    other->refused &= weft_error_status() == WEFT_ERR_STATE;
    return NULL;
}

/* trial 1.8: the last release on another thread, and an op there */
WT_TEST_IN_WORLD(handle__of_another_thread_is_refused, w)
{
    weft_scope *scope = weft_scope_open();
    struct other other = {weft_retain(weft_full(WEFT_F32, NULL, 0, 3)), false};
    pthread_t thread;

    weft_scope_close(scope);
    WT_ALL(pthread_create(&thread, NULL, elsewhere, &other) == 0);
    pthread_join(thread, NULL);
    WT_ALL(other.refused);
    WT_ALL(weft_item(other.t) == 3);
    weft_release(other.t);
}

/* trial 1.8 */
WT_TEST_IN_WORLD(scope__closed_twice_closes_nothing_more, w)
{
    weft_scope *outer = weft_scope_open(), *inner = weft_scope_open(), *next;
    weft_tensor *t;

    weft_scope_close(outer); /* and the inner one */
    weft_scope_close(inner);
    WT_FAILED(WEFT_ERR_STATE, "scope_close: the scope was closed before");
    next = weft_scope_open();
    t = weft_full(WEFT_F32, NULL, 0, 2);
    weft_scope_close(outer);
    WT_FAILED(WEFT_ERR_STATE, "closed before");
    WT_ALL(weft_item(t) == 2);
    WT_ALL(weft_scope_return(outer, t) == NULL);
    WT_FAILED(WEFT_ERR_STATE, "scope_return");
    WT_ALL(weft_item(t) == 2);
    weft_scope_close(next);
}

/* trial 1.8 */
WT_TEST_IN_WORLD(no_grad_end__without_a_beginning_is_refused, w)
{
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F32, NULL, 0, 2), true);

    weft_no_grad_close();
    WT_FAILED(WEFT_ERR_STATE, "no_grad_close");
    WT_ALL(weft_requires_grad(weft_square(x)));
}

/* trial 1.8 */
WT_TEST_IN_WORLD(finalize__on_a_rank_thread_is_refused, w)
{
    weft_tensor *t = weft_full(WEFT_F32, NULL, 0, 2);

    if (wt_ranks() > 1 && !weft_error_status()) {
        WT_EQ(weft_finalize(), 1);
        WT_FAILED(WEFT_ERR_STATE, "finalize");
    }
    WT_ALL(weft_item(t) == 2);
}

/* trial 3: WEFT_THREADS=100000 crashed, WEFT_PLANS=-1 went on for ever */
WT_TEST(knob__outside_its_range_is_ignored)
{
    static const struct {
        const char *variable, *text;
        long *value;
    } outside[] = {{"WEFT_THREADS", "100000", &wf_knobs.threads},
                   {"WEFT_THREADS", "0", &wf_knobs.threads},
                   {"WEFT_PLANS", "-1", &wf_knobs.plans},
                   {"WEFT_PLANS", "99999999999999999999", &wf_knobs.plans},
                   {"WEFT_SHM", "4", &wf_knobs.shm},
                   {"WEFT_BANDWIDTH_MBS", "0", &wf_knobs.bandwidth_mbs}};

    if (wt_ranks() > 1) return; /* the environment is one for all threads */
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        long before = *outside[i].value;
        char *old = getenv(outside[i].variable);

        if (old) continue; /* somebody chose it for this run */
        setenv(outside[i].variable, outside[i].text, 1);
        wf_knobs_read();
        unsetenv(outside[i].variable);
        WT_EQ(*outside[i].value, before);
    }
    wf_knobs_read();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "handles"); }
