/* test_handles.c: tensors, scopes and regions that are used after their end, on every rank alike.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/knob.h"
#include "support/worlds.h"

enum { ROWS = 5, COLUMNS = 2 };

/* trial 1.8 */
WT_TEST(handle__of_a_closed_scope_is_refused_by_name)
{
    struct wt_world w = wt_world_open();
    weft_tensor *kept = wt_spread(&w, wt_whole(WEFT_F32, 1, ROWS, COLUMNS), "S(0)"), *gone;
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
    WT_EQ(weft_backward(gone), WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "backward: the tensor from relu was released");
    WT_EQ(weft_fill_(gone, 1), WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "fill: the tensor from relu was released");
    WT_ALL(weft_retain(gone) == NULL);
    WT_FAILED(WEFT_ERR_STATE, "retain: the tensor from relu was released");
    WT_ALL(weft_ndim(gone) == 0 && weft_numel(gone) == 0 && !weft_tensor_mesh(gone));
    wt_world_close(&w);
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
WT_TEST(handle__that_was_released_is_kept_by_nobody)
{
    static const weft_module_class kind = {.type = "holder", .forward = input};
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_I64};
    struct wt_world w = wt_world_open();
    weft_buffer_options options = {0};

    for (int i = 0; i < 2; i++) {
        weft_module *m = weft_module_new(&kind, NULL);
        weft_state *state = weft_state_new();
        weft_scope *scope = weft_scope_open();
        weft_tensor *kept = weft_full(dtypes[i], 1, (int64_t[]){ROWS}, 1), *gone;

        WT_EQ(weft_module_add_parameter(m, "weight", kept), WEFT_OK);
        WT_EQ(weft_module_add_buffer(m, "seen", weft_full(dtypes[i], 0, NULL, 1), options),
              WEFT_OK);
        gone = weft_full(dtypes[i], 1, (int64_t[]){ROWS}, 1);
        weft_scope_close(scope);
        WT_EQ(weft_module_add_parameter(m, "more", gone), WEFT_ERR_STATE);
        WT_FAILED(WEFT_ERR_STATE, "was released");
        WT_EQ(weft_module_add_buffer(m, "more", gone, options), WEFT_ERR_STATE);
        WT_FAILED(WEFT_ERR_STATE, "was released");
        WT_EQ(weft_module_set_parameter(m, "weight", gone), WEFT_ERR_STATE);
        WT_FAILED(WEFT_ERR_STATE, "was released");
        WT_EQ(weft_module_set_buffer(m, "seen", gone), WEFT_ERR_STATE);
        WT_FAILED(WEFT_ERR_STATE, "was released");
        WT_ALL(weft_module_parameter(m, "weight") == kept);
        WT_EQ(weft_state_add_tensor(state, "gone", gone), WEFT_ERR_STATE);
        WT_FAILED(WEFT_ERR_STATE, "was released");
        WT_ALL(!weft_recomputed(as_it_is, &gone, 1, NULL, NULL));
        WT_FAILED(WEFT_ERR_STATE, "recomputed: the tensor from");
        WT_ALL(!weft_set_requires_grad(gone, false));
        WT_FAILED(WEFT_ERR_STATE, "set_requires_grad: the tensor from");
        WT_ALL(!weft_grad(gone));
        WT_FAILED(WEFT_ERR_STATE, "grad: the tensor from");
        WT_ALL(weft_tensor_version(gone) == 0);
        WT_FAILED(WEFT_ERR_STATE, "tensor_version: the tensor from");
        weft_increment_version(gone);
        WT_FAILED(WEFT_ERR_STATE, "increment_version: the tensor from");
        WT_ALL(!weft_mesh_all_gather(gone, 0, NULL, w.mesh, 0));
        WT_FAILED(WEFT_ERR_STATE, "all_gather: the tensor from");
        WT_ALL(!weft_mesh_all_reduce(gone, WEFT_SUM, w.mesh, 0));
        WT_FAILED(WEFT_ERR_STATE, "all_reduce: the tensor from");
        WT_ALL(!weft_distribute_tensor(gone, w.mesh, NULL, 0));
        WT_FAILED(WEFT_ERR_STATE, "distribute_tensor: the tensor from");
        weft_state_release(state);
        weft_module_release(m);
    }
    wt_world_close(&w);
}

/* trial 1.8 */
WT_TEST(handle__released_once_too_often_is_told)
{
    struct wt_world w = wt_world_open();
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = weft_retain(weft_full(WEFT_F32, 0, NULL, 1));

    weft_scope_close(scope);
    weft_release(t);
    WT_EQ(weft_error_status(), WEFT_OK);
    weft_release(t);
    WT_FAILED(WEFT_ERR_STATE, "release: the tensor from");
    wt_world_close(&w);
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
WT_TEST(handle__of_another_thread_is_refused)
{
    struct wt_world w = wt_world_open();
    weft_scope *scope = weft_scope_open();
    struct other other = {weft_retain(weft_full(WEFT_F32, 0, NULL, 3)), false};
    pthread_t thread;

    weft_scope_close(scope);
    WT_ALL(pthread_create(&thread, NULL, elsewhere, &other) == 0);
    pthread_join(thread, NULL);
    WT_ALL(other.refused);
    WT_ALL(weft_item(other.t) == 3);
    weft_release(other.t);
    wt_world_close(&w);
}

/* trial 1.8 */
WT_TEST(scope__closed_twice_closes_nothing_more)
{
    struct wt_world w = wt_world_open();
    weft_scope *outer = weft_scope_open(), *inner = weft_scope_open(), *next;
    weft_tensor *t;

    weft_scope_close(outer); /* and the inner one */
    weft_scope_close(inner);
    WT_FAILED(WEFT_ERR_STATE, "scope_close: the scope was closed before");
    next = weft_scope_open();
    t = weft_full(WEFT_F32, 0, NULL, 2);
    weft_scope_close(outer);
    WT_FAILED(WEFT_ERR_STATE, "closed before");
    WT_ALL(weft_item(t) == 2);
    WT_ALL(weft_scope_return(outer, t) == NULL);
    WT_FAILED(WEFT_ERR_STATE, "scope_return");
    WT_ALL(weft_item(t) == 2);
    weft_scope_close(next);
    wt_world_close(&w);
}

/* trial 1.8 */
WT_TEST(no_grad_end__without_a_beginning_is_refused)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F32, 0, NULL, 2), true);

    weft_no_grad_end();
    WT_FAILED(WEFT_ERR_STATE, "no_grad_end");
    WT_ALL(weft_requires_grad(weft_square(x)));
    wt_world_close(&w);
}

/* trial 1.8 */
WT_TEST(finalize__on_a_rank_thread_is_refused)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = weft_full(WEFT_F32, 0, NULL, 2);

    if (wt_ranks() > 1 && !weft_error_status()) {
        WT_EQ(weft_finalize(), 1);
        WT_FAILED(WEFT_ERR_STATE, "finalize");
    }
    WT_ALL(weft_item(t) == 2);
    wt_world_close(&w);
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

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(handle__of_a_closed_scope_is_refused_by_name),
        WT_CASE(handle__that_was_released_is_kept_by_nobody),
        WT_CASE(handle__released_once_too_often_is_told),
        WT_CASE(handle__of_another_thread_is_refused),
        WT_CASE(scope__closed_twice_closes_nothing_more),
        WT_CASE(no_grad_end__without_a_beginning_is_refused),
        WT_CASE(finalize__on_a_rank_thread_is_refused),
        WT_CASE(knob__outside_its_range_is_ignored),
        WT_END,
    };

    return wt_main(argc, argv, "handles", cases);
}
