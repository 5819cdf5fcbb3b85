/* test_ended_handles.c: tensors that are used before weft_init, after weft_finalize, and after the
 * rank that made them has ended. */
#include <math.h>
#include <string.h>

#include <weft/weft.h>

#include "support/mpi_check.h"

enum { RANKS = 3, EACH = 4 };

static bool failed(const char *part)
{
    bool as_told = weft_error_status() == WEFT_ERR_STATE && strstr(weft_error_message(), part);

    if (!as_told) fprintf(stderr, "not '%s', but '%s'\n", part, weft_error_message());
    weft_error_clear();
    return as_told;
}

/* trial 1.8 */
WT_UNIT(backward__before_weft_init_is_refused)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F32, NULL, 0, 3), true);

    ck_assert_int_eq(weft_backward(x), WEFT_ERR_STATE);
    ck_assert(failed("backward: weft_init was not called"));
    ck_assert(weft_item(x) == 3);
    weft_scope_close(scope);
}

/* It is gone, whatever asks; the text says how. */
static void check_gone(weft_tensor *t, const char *how)
{
    double element;

    ck_assert(!weft_relu(t) && failed(how));
    ck_assert(weft_fill_(t, 1) == WEFT_ERR_STATE && failed(how));
    ck_assert(isnan(weft_item(t)) && failed(how));
    ck_assert(!weft_data(t) && failed(how));
    ck_assert(weft_read_f64(t, &element, 1) == WEFT_ERR_STATE && failed(how));
    ck_assert(!weft_retain(t) && failed(how));
    weft_release(t);
    ck_assert(failed(how));
    ck_assert(weft_backward(t) == WEFT_ERR_STATE && failed(how));
    ck_assert(!weft_grad(t) && failed(how));
    ck_assert(!weft_to_local(t, NULL) && failed(how));
    ck_assert(!weft_full_tensor(t) && failed(how));
    ck_assert(weft_ndim(t) == 0 && weft_numel(t) == 0 && !weft_tensor_mesh(t));
    ck_assert(!weft_requires_grad(t) && weft_error_status() == WEFT_OK);
}

/* A tensor of a scope, one that nothing owns, a leaf with a gradient that is retained. */
static void make(weft_tensor **made)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss;

    made[0] = weft_full(WEFT_F32, NULL, 0, 1);
    made[1] = weft_retain(weft_set_requires_grad(weft_full(WEFT_F32, (int64_t[]){2}, 1, 1), true));
    loss = weft_sum_all(weft_square(made[1]));
    weft_backward(loss);
    weft_scope_close(scope);
    made[2] = weft_full(WEFT_F64, (int64_t[]){3}, 1, 2);
    made[3] = weft_square(made[2]);
}

static int leave_behind(void *payload)
{
    make((weft_tensor **)payload + EACH * weft_world_rank());
    return weft_error_status() != WEFT_OK;
}

/* trial 1.8 */
WT_UNIT(handle__of_a_rank_that_has_ended_is_refused)
{
    weft_tensor *made[RANKS * EACH];

    ck_assert_int_eq(weft_run(RANKS, leave_behind, made), 0);
    for (int i = 0; i < RANKS * EACH; i++) check_gone(made[i], "to a thread that has ended");
}

static int make_others(void *payload)
{
    weft_tensor *old = payload, *t = weft_full(WEFT_F32, NULL, 0, 5);

    for (int i = 0; i < 1000; i++) t = weft_relu(t);
    return weft_relu(old) || weft_item(t) != 5;
}

/* trial 1.8: memory of threads that have ended is used again, by and by */
WT_UNIT(handle__of_a_rank_that_has_ended_is_refused_by_later_ranks)
{
    weft_tensor *made[RANKS * EACH];

    ck_assert_int_eq(weft_run(RANKS, leave_behind, made), 0);
    for (int i = 0; i < 5; i++) ck_assert_int_eq(weft_run(1, make_others, made[i]), 0);
    for (int i = 0; i < RANKS * EACH; i++) check_gone(made[i], "to a thread that has ended");
    for (int i = 0; i < 100; i++) /* each on memory of the ones before */
        ck_assert_int_eq(weft_run(RANKS, make_others, NULL), 0);
}

/* trial 1.8 */
WT_UNIT(handle__is_refused_after_weft_finalize)
{
    weft_tensor *made[EACH], *again;

    ck_assert_int_eq(weft_init(NULL, NULL), WEFT_OK);
    make(made);
    ck_assert_int_eq(weft_error_status(), WEFT_OK);
    ck_assert_int_eq(weft_finalize(), 0);
    for (int i = 0; i < EACH; i++) check_gone(made[i], "to a thread that has ended");
    again = weft_full(WEFT_F32, NULL, 0, 6); /* other handles */
    for (int i = 0; i < EACH; i++) check_gone(made[i], "to a thread that has ended");
    ck_assert(weft_item(again) == 6);
    ck_assert_int_eq(weft_finalize(), 0);
    check_gone(again, "to a thread that has ended");
}

int main(void)
{
    /* nothing came before */
    return wt_unit_main("ended_handles");
}
