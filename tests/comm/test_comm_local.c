/* test_comm_local.c: every collective on 1 to 8 threads, and what wf_comm_run_rank_threads
 * promises. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm_cases.h"
#include "device/pool.h"
#include "support/mpi_check.h"

static const int rank_counts[] = {1, 2, 3, 4, 8};

WT_UNIT_TIMES(local__every_collective_equals_the_serial_tree,
              (int)(sizeof rank_counts / sizeof *rank_counts))
{
    int failed;

    wf_comm_set_thread_hooks(NULL, wf_pool_finalize); /* a thread's pool ends with it */
    failed = wf_comm_run_rank_threads(rank_counts[_i], comm_cases, NULL);
    wf_comm_set_thread_hooks(NULL, NULL);

    ck_assert_msg(failed == 0, "%d failures on %d ranks, first: %s", failed, rank_counts[_i],
                  weft_error_message());
}

static int fail_on_two_ranks(void *payload)
{
    int rank = wf_comm_rank(wf_comm_world());

    (void)payload;
    if (rank == 1) WF_FAIL(WEFT_ERR_SHAPE, "the shape of rank one");
    if (rank == 2) WF_FAIL(WEFT_ERR_DTYPE, "the dtype of rank two");
    return rank == 1 || rank == 2 ? 10 + rank : 0;
}

WT_UNIT(local__first_failing_rank_leaves_its_error)
{
    weft_error_clear();
    ck_assert_int_eq(wf_comm_run_rank_threads(4, fail_on_two_ranks, NULL), 11);
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(weft_error_message(), "the shape of rank one"));
    weft_error_clear();
}

static int know_oneself(void *payload)
{
    struct wf_comm *world = wf_comm_world();

    (void)payload;
    return wf_comm_size(world) != 3 || wf_log_rank() != wf_comm_rank(world) ||
           strcmp(wf_comm_backend_name(world), "local") != 0;
}

WT_UNIT(local__thread_knows_its_rank_and_world)
{
    ck_assert_int_eq(wf_comm_run_rank_threads(3, know_oneself, NULL), 0);
}

static _Thread_local int started;
static int finished_in_order;

static void start(void) { started = 1; }

static void finish(void) { __atomic_add_fetch(&finished_in_order, started, __ATOMIC_SEQ_CST); }

static int was_started(void *payload)
{
    (void)payload;
    return started ? 0 : 1;
}

WT_UNIT(local__hooks_surround_the_body)
{
    wf_comm_set_thread_hooks(start, finish);
    ck_assert_int_eq(wf_comm_run_rank_threads(3, was_started, NULL), 0);
    wf_comm_set_thread_hooks(NULL, NULL);
    ck_assert_int_eq(finished_in_order, 3);
}

WT_UNIT(local__no_ranks_is_an_error)
{
    weft_error_clear();
    ck_assert_int_ne(wf_comm_run_rank_threads(0, was_started, NULL), 0);
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_ARG);
    weft_error_clear();
}

WT_UNIT(self__outside_ranks_the_world_is_one)
{
    struct wf_comm *world = wf_comm_world();
    float in[3] = {1, 2, 3}, out[3] = {0};
    struct wf_coll coll = {
        .kind = WEFT_COLL_ALL_REDUCE, .comm = world, .count = 3, .send = in, .recv = out};

    ck_assert_int_eq(wf_comm_size(world), 1);
    ck_assert_str_eq(wf_comm_backend_name(world), "self");
    wf_comm_run(&coll);
    ck_assert_mem_eq(in, out, sizeof in);
    ck_assert_uint_eq(coll.bytes, 12);
}

int main(void) { return wt_unit_main("comm_local"); }
