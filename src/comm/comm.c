/*
 * comm.c: the funnel that every collective passes: argument check, comparison between ranks,
 * backend, waiting, observers. It knows no backend; who the ranks are is decided in world.c.
 *
 * A rank that waits for one collective moves all of its collectives forward, on all communicators:
 * peers may wait for them in another order.
 */
#include "comm/comm.h"

#include "base/error.h"
#include "base/knob.h"
#include "base/observe.h"
#include "base/sys.h"
#include "comm/backend.h"

_Thread_local struct wf_comm_thread wf_comm_thread;

static bool needs_counts(const struct wf_coll *coll, bool send)
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

static bool can_reduce(weft_dtype dtype, weft_reduce reduce)
{
    return dtype != WEFT_U8 && dtype != WEFT_BOOL && reduce != WEFT_AVG &&
           (unsigned)reduce < WEFT_MASKED; /* the last two end as sums */
}

static const char *wrong_with(const struct wf_coll *coll)
{
    int me = coll->comm->rank;
    bool pair = coll->kind == WEFT_COLL_SEND || coll->kind == WEFT_COLL_RECV;

    if ((unsigned)coll->dtype >= WEFT_DTYPE_COUNT) return "no such dtype";
    if (needs_counts(coll, true) && !coll->send_counts) return "send_counts is missing";
    if (needs_counts(coll, false) && !coll->recv_counts) return "recv_counts is missing";
    if (wf_coll_reduces(coll->kind) && !can_reduce(coll->dtype, coll->reduce))
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

static void check(const struct wf_coll *coll)
{
    const char *wrong;

    if (!coll->comm || (unsigned)coll->kind >= WEFT_COLL_COUNT)
        WF_DIE("a collective without communicator or of unknown kind %d", (int)coll->kind);
    wrong = wrong_with(coll);
    if (wrong)
        WF_DIE("%s on axis '%s' of %d ranks: %s", wf_coll_name(coll->kind), coll->comm->label,
               coll->comm->size, wrong);
}

/* Go on without waiting. The comparison first: what it finds explains what goes wrong in moving. */
static bool step(struct wf_coll *coll)
{
    if (coll->agreement) wf_net_agree_step(coll);
    if (!coll->moved) coll->moved = coll->comm->backend->step(coll);
    return coll->moved && !coll->agreement;
}

static void launch(struct wf_coll *coll)
{
    struct wf_comm_thread *thread = &wf_comm_thread;

    coll->next = NULL;
    coll->state = NULL;
    coll->complete = false;
    coll->comm->backend->start(coll);
    coll->moved = coll->complete;
    coll->complete = step(coll);
    if (coll->complete) return;
    if (thread->last)
        thread->last->next = coll;
    else
        thread->first = coll;
    thread->last = coll;
}

/* Move everything in flight, oldest first, and drop what is complete. */
static void progress(void)
{
    struct wf_comm_thread *thread = &wf_comm_thread;
    struct wf_coll **link = &thread->first, *coll, *last = NULL;

    while ((coll = *link)) {
        if (!coll->complete) coll->complete = step(coll);
        if (coll->complete) {
            *link = coll->next;
            continue;
        }
        last = coll;
        link = &coll->next;
    }
    thread->last = last;
}

static _Noreturn void give_up(const struct wf_coll *coll, double waited)
{
    char what[512], missing[512] = "";

    wf_coll_describe_place(coll, what, sizeof what);
    if (coll->moved)
        wf_net_agree_missing(coll, missing, sizeof missing);
    else
        coll->comm->backend->missing(coll, missing, sizeof missing);
    WF_DIE("%s: %s after %.0f s (WEFT_TIMEOUT)", what, missing, waited);
}

static void finish(struct wf_coll *coll)
{
    struct wf_patience patience = {0};
    double waited;

    while (!coll->complete) {
        progress();
        if (coll->complete) return;
        waited = wf_wait_turn(&patience);
        if (waited > (double)wf_knobs.timeout) give_up(coll, waited);
    }
}

void wf_comm_run_quiet(struct wf_coll *coll)
{
    coll->agreement = NULL;
    launch(coll);
    finish(coll);
}

void wf_comm_start(struct wf_coll *coll)
{
    bool watched = wf_observed & WF_EVENT_COLL;
    weft_coll kind = coll->kind;

    coll->began = watched ? wf_now() : 0;
    if (wf_knobs.check >= 1) check(coll);
    coll->bytes = wf_coll_bytes(coll);
    coll->where = wf_here;
    coll->seconds = 0;
    wf_comm_thread.recent = (struct wf_recent){kind, coll->comm->label, wf_here};
    coll->agreement = NULL;
    if (wf_knobs.check >= 1 && coll->comm->size > 1 && kind != WEFT_COLL_SEND &&
        kind != WEFT_COLL_RECV) {
        if (wf_knobs.check >= 2)
            wf_fingerprint_compare(coll);
        else if (coll->comm->backend->compares_over)
            wf_net_agree_start(coll);
    }
    launch(coll);
    if (watched) coll->seconds = wf_now() - coll->began;
}

bool wf_comm_test(struct wf_coll *coll)
{
    if (!coll->complete) progress();
    return coll->complete;
}

static void tell(const struct wf_coll *coll)
{
    struct wf_event event = {
        .kind = WF_EVENT_COLL,
        .name = wf_coll_name(coll->rooted ? WEFT_COLL_REDUCE : coll->kind),
        .axis = coll->comm->label,
        .bytes = coll->bytes,
        .sent = wf_coll_sent(coll),
        .ranks = coll->comm->size,
        .coalesced = coll->coalesced,
        .began = coll->began,
        .seconds = coll->seconds,
        .where = coll->where,
    };

    wf_observe(&event);
}

void wf_comm_plan(const struct wf_coll *coll, const char *axis, int ranks, int rank)
{
    struct wf_comm nobody = {.label = axis, .size = ranks, .rank = rank};
    struct wf_coll planned = *coll;

    if (!(wf_observed & WF_EVENT_COLL)) return;
    planned.comm = &nobody;
    planned.bytes = wf_coll_bytes(&planned);
    planned.began = wf_now();
    planned.seconds = 0;
    planned.where = wf_here;
    tell(&planned);
}

void wf_comm_wait(struct wf_coll *coll)
{
    double began;

    if (!(wf_observed & WF_EVENT_COLL)) {
        finish(coll);
        return;
    }
    began = wf_now();
    finish(coll);
    coll->seconds += wf_now() - began;
    tell(coll);
}

void wf_comm_run(struct wf_coll *coll)
{
    wf_comm_start(coll);
    wf_comm_wait(coll);
}
