/*
 * test_faults.c: memory runs out at every place in turn. On one rank that is an error like any
 * other: it is reported, nothing leaks, nothing is half done, and the next try may succeed.
 */
#include <stdlib.h>

#include <check.h>

#include <weft/weft.h>

#include "device/pool.h"
#include "dtensor/convert/init.h"
#include "dtensor/dispatch/plan_cache.h"
#include "kernels/kernels.h"
#include "support/mpi_check.h"
#include "tensor/tensor.h"

enum { ROWS = 5, WIDTH = 6, HIDDEN = 8, CLASSES = 7, PARAMETERS = 6, MOST = 2000 };

typedef weft_status body(weft_tensor *const *p);

static void set_up(void)
{
    wf_kernels_choose_isa();
    wf_dtensor_init();
    weft_error_clear();
}

static void make_parameters(weft_tensor **p)
{
    static const int64_t shapes[PARAMETERS][2] = {{CLASSES, WIDTH}, {HIDDEN, WIDTH},   {HIDDEN, 0},
                                                  {WIDTH, 0},       {CLASSES, HIDDEN}, {WIDTH, 0}};

    weft_manual_seed(3);
    for (int i = 0; i < PARAMETERS; i++) {
        p[i] = weft_empty(WEFT_F32, shapes[i], shapes[i][1] ? 2 : 1);
        weft_normal_(p[i], 0, 1, NULL);
        weft_set_requires_grad(p[i], true);
    }
}

/* Embedding, norm, linear layers, dropout, cross-entropy. */
static weft_status classify(weft_tensor *const *p)
{
    static const int32_t tokens[ROWS] = {1, 6, 0, 3, 3}, targets[ROWS] = {2, 2, 0, 5, 6};
    const int64_t rows = ROWS;
    weft_tensor *index = weft_from_data(WEFT_I32, &rows, 1, tokens);
    weft_tensor *target = weft_from_data(WEFT_I32, &rows, 1, targets);
    weft_tensor *h = weft_layer_norm(weft_embedding(p[0], index), p[3], p[5], 1e-5);

    h = weft_dropout(weft_gelu(weft_linear(h, p[1], p[2], 1)), 0.1, NULL);
    return weft_backward(weft_cross_entropy(weft_linear(h, p[4], NULL, 1), target, -1));
}

/* Attention over packed heads, views that need copies, broadcasts and reductions. */
static weft_status attend(weft_tensor *const *p)
{
    weft_tensor *qkv = weft_reshape(weft_matmul_t(p[1], p[0], false, true),
                                    (int64_t[]){1, HIDDEN, 1, CLASSES, 1}, 5);
    weft_tensor *heads = weft_cat((weft_tensor *[]){qkv, weft_neg(qkv), qkv}, 3, 2);
    weft_tensor *o =
        weft_reshape(weft_attention_packed(heads, true, 0), (int64_t[]){HIDDEN, CLASSES}, 2);
    weft_tensor *y = weft_reshape(weft_transpose(weft_mul(o, weft_transpose(p[4], 0, 1)), 0, 1),
                                  (int64_t[]){-1}, 1);
    weft_tensor *z = weft_softmax(weft_maximum(y, weft_amax(y, NULL, 0, true)), 0);

    return weft_backward(
        weft_add(weft_mean_all(weft_square(z)), weft_sum_all(weft_rms_norm(p[0], p[3], 1e-5))));
}

/* gives: true when the body passed although the n-th request was to fail */
static bool passes_without(body *run, weft_tensor *const *p, int64_t n)
{
    int64_t tensors = wf_tensor_live_count(), live = wf_pool_stats(WF_CATEGORIES).live;
    weft_scope *scope = weft_scope_open();
    weft_status status;

    wf_pool_fail_nth_request(n);
    status = run(p);
    wf_pool_fail_nth_request(0);
    weft_scope_close(scope);
    for (int i = 0; i < PARAMETERS; i++) weft_zero_grad(p[i]);
    if (status != WEFT_OK) {
        ck_assert_msg(weft_error_status() == WEFT_ERR_MEMORY, "request %lld: %s", (long long)n,
                      weft_error_message());
        weft_error_clear();
    }
    ck_assert_msg(wf_tensor_live_count() == tensors, "request %lld: %lld tensors leak",
                  (long long)n, (long long)(wf_tensor_live_count() - tensors));
    ck_assert_msg(wf_pool_stats(WF_CATEGORIES).live == live, "request %lld: %lld bytes leak",
                  (long long)n, (long long)(wf_pool_stats(WF_CATEGORIES).live - live));
    return status == WEFT_OK;
}

/* Twice: with plans still to be made, and with plans that wait in the cache. */
static void fail_everywhere(body *run)
{
    for (int warm = 0; warm < 2; warm++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *p[PARAMETERS];
        int64_t n = 1;

        make_parameters(p);
        while (!passes_without(run, p, n) && n < MOST) n++;
        ck_assert_int_gt(n, 20);
        ck_assert_int_lt(n, MOST);
        weft_scope_close(scope);
    }
    wf_plan_cache_finalize();
}

WT_UNIT(memory__may_fail_anywhere_in_a_classifier) { fail_everywhere(classify); }

WT_UNIT(memory__may_fail_anywhere_in_attention_and_views) { fail_everywhere(attend); }

/* A failure is not remembered: the same step gives the same numbers afterwards. */
WT_UNIT(memory__failure_does_not_change_later_results)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *p[PARAMETERS];
    double want[CLASSES * WIDTH], got[CLASSES * WIDTH];

    make_parameters(p);
    ck_assert_int_eq(attend(p), WEFT_OK);
    ck_assert_int_eq(weft_read_f64(weft_grad(p[0]), want, CLASSES * WIDTH), WEFT_OK);
    for (int i = 0; i < PARAMETERS; i++) weft_zero_grad(p[i]);
    ck_assert(!passes_without(attend, p, 15));
    ck_assert_int_eq(attend(p), WEFT_OK);
    ck_assert_int_eq(weft_read_f64(weft_grad(p[0]), got, CLASSES * WIDTH), WEFT_OK);
    for (int i = 0; i < CLASSES * WIDTH; i++) ck_assert(got[i] == want[i]);
    weft_scope_close(scope);
}

/* Without its state an optimizer refuses to step, until there is memory for it. */
WT_UNIT(memory__may_fail_for_an_optimizers_state)
{
    weft_module *m = weft_linear_new((weft_linear_config){.in = {WIDTH}, .out = {HIDDEN}});
    weft_optim *sgd = weft_sgd(m, (weft_sgd_config){.lr = 1});
    weft_tensor *weight = weft_module_parameter(m, "weight");

    wf_pool_fail_nth_request(1);
    ck_assert_int_eq(weft_optim_set(sgd, "**", "momentum", 0.5), WEFT_ERR_MEMORY);
    wf_pool_fail_nth_request(0);
    weft_error_clear();
    ck_assert(weft_optim_state(sgd, weight, 0) == NULL);
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_STATE);
    weft_error_clear();
    ck_assert_int_eq(weft_step(sgd), WEFT_ERR_STATE);
    weft_error_clear();
    ck_assert_int_eq(weft_optim_set(sgd, "**", "momentum", 0.5), WEFT_OK);
    ck_assert(weft_optim_state(sgd, weight, 0) != NULL);
    ck_assert_int_eq(weft_step(sgd), WEFT_OK);
    weft_optim_release(sgd);
    weft_module_release(m);
}

int main(void) { return wt_unit_main_with("faults", set_up, NULL); }
