/*
 * comm.c: the funnel that every collective passes: argument check, comparison between ranks,
 * backend, waiting, observers. It knows no backend; who the ranks are is decided in world.c.
 *
 * A rank that waits for one collective moves all of its collectives forward, on all communicators:
 * peers may wait for them in another order.
 */
#include "comm/comm.h"

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/observers.h"
#include "base/recorder.h"
#include "base/settings/knob.h"
#include "base/sys.h"
#include "comm/stream_ordered.h"
#include "device/capture.h"

_Thread_local struct wf_comm_thread_state wf_comm_thread_state;

static bool needs_count_array(const struct wf_coll *coll, bool send)
{
    switch (coll->kind) {
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_GATHER:
        return !send;
    case WEFT_COLL_REDUCE_SCATTER:
    case WEFT_COLL_SCATTER:
        return send;
    case WEFT_COLL_ALL_TO_ALL:
        return true;
    default:
        return false;
    }
}

static const char *argument_error(const struct wf_coll *coll)
{
    int me = coll->comm->rank;
    bool pair = coll->kind == WEFT_COLL_SEND || coll->kind == WEFT_COLL_RECV;

    if ((unsigned)coll->dtype >= WEFT_DTYPE_COUNT) return "no such dtype";
    if (needs_count_array(coll, true) && !coll->send_counts) return "send_counts is missing";
    if (needs_count_array(coll, false) && !coll->recv_counts) return "recv_counts is missing";
    if (wf_coll_reduces(coll->kind) &&
        !(wf_coll_has_reduction(coll->reduce) && wf_dtype_can_reduce(coll->dtype, coll->reduce)))
        return "no such reduction of this dtype";
    if ((pair || wf_coll_has_root(coll->kind)) &&
        (coll->peer < 0 || coll->peer >= coll->comm->size))
        return "peer is not in the communicator";
    if (pair && coll->peer == me) return "peer is the rank itself";
    if (coll->kind == WEFT_COLL_ALL_TO_ALL && coll->send_counts[me] != coll->recv_counts[me])
        return "it sends itself another count than it receives";
    if (!coll->send && wf_coll_send_count(coll)) return "send is NULL";
    if (!coll->recv && wf_coll_recv_count(coll)) return "recv is NULL";
    return NULL;
}

static void check_arguments(const struct wf_coll *coll)
{
    const char *wrong;

    if (!coll->comm || (unsigned)coll->kind >= WEFT_COLL_COUNT)
        WF_DIE("a collective without communicator or of unknown kind %d", (int)coll->kind);
    wrong = argument_error(coll);
    if (wrong)
        WF_DIE("%s on axis '%s' of %d ranks: %s", wf_coll_name(coll->kind), coll->comm->label,
               coll->comm->size, wrong);
}

/* Go on without waiting. The comparison first: what it finds explains what goes wrong in moving. */
static bool progress_one(struct wf_coll *coll)
{
    if (coll->agreement) wf_mpi_agreement_progress(coll);
    if (!coll->moved) coll->moved = coll->backend->step(coll);
    return coll->moved && !coll->agreement;
}

/* Backends of the host begin collectives in the order in which the program asks for them. */
static const struct wf_backend *host_backend(const struct wf_comm *comm)
{
    if (wf_comm_thread_state.waiting) wf_staged_start_queued();
    return comm->backend;
}

static const struct wf_backend *backend_for(const struct wf_coll *coll)
{
    return coll->device == WEFT_CPU ? host_backend(coll->comm)
                                    : wf_comm_device_backend(coll->comm, coll);
}

static void start_on_backend(struct wf_coll *coll)
{
    struct wf_comm_thread_state *thread = &wf_comm_thread_state;

    coll->next = NULL;
    coll->state = NULL;
    coll->complete = false;
    coll->backend->start(coll);
    coll->moved = coll->complete;
    coll->complete = !coll->backend->order && progress_one(coll); /* else the device goes on */
    if (coll->complete) return;
    if (thread->last)
        thread->last->next = coll;
    else
        thread->first = coll;
    thread->last = coll;
}

void wf_comm_progress(void)
{
    struct wf_comm_thread_state *thread = &wf_comm_thread_state;
    struct wf_coll **link = &thread->first, *coll, *last = NULL;

    while ((coll = *link)) {
        if (!coll->complete) coll->complete = progress_one(coll);
        if (coll->complete) {
            *link = coll->next;
            continue;
        }
        last = coll;
        link = &coll->next;
    }
    thread->last = last;
}

bool wf_comm_in_flight(void) { return wf_comm_thread_state.first != NULL; }

bool wf_comm_needs_progress(const struct wf_coll *coll)
{
    const struct wf_backend *backend = coll->backend->order ? NULL : coll->comm->backend;

    return !coll->complete && (backend == &wf_backend_mpi || backend == &wf_backend_multi_node);
}

static _Noreturn void die_of_timeout(const struct wf_coll *coll, double waited)
{
    char what[512], missing[512] = "";

    wf_coll_describe_with_caller(coll, what, sizeof what);
    if (coll->moved)
        wf_mpi_agreement_describe_missing_ranks(coll, missing, sizeof missing);
    else
        coll->backend->missing(coll, missing, sizeof missing);
    WF_DIE("%s: %s after %.0f s (WEFT_TIMEOUT)", what, missing, waited);
}

static void order_if_on_device(struct wf_coll *coll)
{
    if (coll->moved || !coll->backend->order) return;
    coll->backend->order(coll);
    coll->moved = true;
}

void wf_comm_order_in_flight(void)
{
    for (struct wf_coll *coll = wf_comm_thread_state.first; coll; coll = coll->next)
        order_if_on_device(coll);
}

static void wait_until_complete(struct wf_coll *coll)
{
    struct wf_backoff patience = {0};
    double waited;

    order_if_on_device(coll);
    while (!coll->complete) {
        wf_comm_progress();
        if (coll->complete) return;
        waited = wf_backoff_wait(&patience);
        if (waited > (double)wf_knobs.timeout) die_of_timeout(coll, waited);
    }
}

void wf_comm_run_unobserved(struct wf_coll *coll)
{
    coll->agreement = NULL;
    coll->backend = backend_for(coll);
    start_on_backend(coll);
    wait_until_complete(coll);
}

/* One that the device itself carries out is captured. */
static void leave_capture_if_through_host(const struct wf_coll *coll)
{
    if (coll->comm->size == 1 || coll->backend->order) return;
    wf_capture_leave("%s: the collective goes through host memory", wf_coll_name(coll->kind));
}

void wf_comm_start(struct wf_coll *coll)
{
    bool watched = wf_observed_events & WF_EVENT_COLL;
    weft_coll kind = coll->kind;

    coll->began = watched ? wf_monotonic_seconds() : 0;
    if (wf_knobs.check >= 1) check_arguments(coll);
    coll->bytes = wf_coll_payload_bytes(coll);
    coll->where = wf_current_context;
    coll->seconds = 0;
    wf_comm_thread_state.recent =
        (struct wf_last_collective){kind, coll->comm->label, wf_current_context};
    coll->agreement = NULL;
    coll->backend = backend_for(coll);
    if (wf_recorder) wf_recorder->collective(wf_recorder, wf_coll_name(kind));
    if (wf_capture_of_thread) leave_capture_if_through_host(coll);
    if (wf_knobs.check >= 1 && coll->comm->size > 1 && kind != WEFT_COLL_SEND &&
        kind != WEFT_COLL_RECV) {
        if (wf_knobs.check >= 2)
            wf_fingerprint_compare(coll);
        else if (coll->comm->backend->compares_over && !coll->backend->order)
            wf_mpi_agreement_start(coll);
    }
    start_on_backend(coll);
    if (watched) coll->seconds = wf_monotonic_seconds() - coll->began;
}

bool wf_comm_test(struct wf_coll *coll)
{
    if (!coll->complete) wf_comm_progress();
    return coll->complete;
}

static void notify_completion(const struct wf_coll *coll)
{
    struct wf_event event = {
        .kind = WF_EVENT_COLL,
        .name = wf_coll_name(coll->rooted ? WEFT_COLL_REDUCE : coll->kind),
        .axis = coll->comm->label,
        .bytes = coll->bytes,
        .sent = wf_coll_bytes_sent(coll),
        .ranks = coll->comm->size,
        .coalesced = coll->coalesced,
        .began = coll->began,
        .seconds = coll->seconds,
        .where = coll->where,
    };

    wf_notify_observers(&event);
}

void wf_comm_report_simulated(const struct wf_coll *coll, const char *axis, int ranks, int rank)
{
    struct wf_comm nobody = {.label = axis, .size = ranks, .rank = rank};
    struct wf_coll planned = *coll;

    if (!(wf_observed_events & WF_EVENT_COLL)) return;
    planned.comm = &nobody;
    planned.bytes = wf_coll_payload_bytes(&planned);
    planned.began = wf_monotonic_seconds();
    planned.seconds = 0;
    planned.where = wf_current_context;
    notify_completion(&planned);
}

void wf_comm_wait(struct wf_coll *coll)
{
    double began;

    if (!(wf_observed_events & WF_EVENT_COLL)) {
        wait_until_complete(coll);
        return;
    }
    began = wf_monotonic_seconds();
    wait_until_complete(coll);
    coll->seconds += wf_monotonic_seconds() - began;
    notify_completion(coll);
}

void wf_comm_run(struct wf_coll *coll)
{
    wf_comm_start(coll);
    wf_comm_wait(coll);
}
