/*
 * bucket_assignment.c: which gradients share a bucket, and when a bucket's collective may start.
 * The collective itself is in gradient_buckets.c.
 *
 * Buckets start in the same order on every rank, as collectives have to: one that waits for a
 * gradient delays those after it. So gradients that may be partial along another axis too, and have
 * to be reduced there first, are in the last buckets when buckets start during backward.
 */
#include "base/array_grow.h"
#include "base/call_context.h"
#include "base/elements/dtype.h"
#include "base/mem.h"
#include "data_parallel/data_parallel.h"
#include "tensor/tensor.h"

size_t wf_replica_tensor_bytes(const struct wf_replica_tensor *m)
{
    const struct wf_tensor_desc *desc = &m->leaf->layout->desc;

    return (size_t)desc->numel * wf_dtypes[desc->dtype].size;
}

/* Gradients of leaves that are sharded along all axes are reduced by backward. */
static bool needs_bucket_reduction(const struct wf_replica_tensor *m)
{
    return m->leaf->requires_grad && m->grad_state.axes;
}

/* Never for a plain tensor's gradient; for a distributed one's where an axis replicates it. */
static bool gradient_may_be_partial(const struct wf_replica_tensor *m)
{
    const struct wf_layout *view = m->view;

    for (int a = 0; a < view->n_axes; a++)
        if (weft_is_replicate(view->placements[a]) && weft_mesh_axis_size(view->mesh, a) > 1)
            return true;
    return false;
}

static bool can_share_bucket(const struct wf_replicas *r, const struct wf_replica_tensor *a,
                             const struct wf_replica_tensor *b)
{
    return a->leaf->layout->desc.dtype == b->leaf->layout->desc.dtype &&
           a->grad_state.axes == b->grad_state.axes &&
           (!r->config.backwards || gradient_may_be_partial(a) == gradient_may_be_partial(b));
}

static void add_member_to_bucket(struct wf_replicas *r, int bucket, int member)
{
    struct wf_gradient_bucket *b = &r->buckets[bucket];

    b->members[b->count++] = member;
    b->bytes += wf_replica_tensor_bytes(&r->members[member]);
    r->members[member].bucket = bucket;
}

/* A bucket of member `last`, and of members before it that have no bucket yet, as far as there is
 * room. */
static void add_gradient_bucket(struct wf_replicas *r, int last)
{
    int number = r->n_buckets;
    struct wf_gradient_bucket *b;

    r->buckets = wf_array_grow(r->buckets, r->n_buckets++, sizeof *r->buckets);
    b = &r->buckets[number];
    *b = (struct wf_gradient_bucket){.axes = r->members[last].grad_state.axes,
                                     .members = wf_calloc((size_t)last + 1, sizeof(int))};
    add_member_to_bucket(r, number, last);
    for (int i = last - 1; i >= 0; i--) {
        const struct wf_replica_tensor *m = &r->members[i];

        if (m->bucket >= 0 || !needs_bucket_reduction(m) ||
            !can_share_bucket(r, m, &r->members[last]))
            continue;
        if (b->bytes && b->bytes + wf_replica_tensor_bytes(m) > r->config.bucket_bytes) return;
        add_member_to_bucket(r, number, i);
    }
}

static void add_gradient_buckets(struct wf_replicas *r, bool partial)
{
    for (int i = r->n_members - 1; i >= 0; i--) {
        const struct wf_replica_tensor *m = &r->members[i];

        if (m->bucket < 0 && needs_bucket_reduction(m) && (partial || !gradient_may_be_partial(m)))
            add_gradient_bucket(r, i);
    }
}

void wf_buckets_build(struct wf_replicas *r)
{
    wf_buckets_free(r);
    for (int i = 0; i < r->n_members; i++) {
        r->members[i].bucket = -1;
        r->members[i].wanted = r->members[i].leaf->requires_grad;
    }
    if (r->config.backwards) add_gradient_buckets(r, false);
    add_gradient_buckets(r, true);
}

void wf_buckets_free(struct wf_replicas *r)
{
    for (int b = 0; b < r->n_buckets; b++) wf_free(r->buckets[b].members);
    wf_free(r->buckets);
    r->buckets = NULL;
    r->n_buckets = 0;
}

void wf_buckets_rebuild_if_changed(struct wf_replicas *r)
{
    int i = 0;

    while (i < r->n_members && r->members[i].wanted == r->members[i].leaf->requires_grad) i++;
    if (i < r->n_members) wf_buckets_build(r);
}

/* ---- starting during backward ---- */

void wf_buckets_begin_backward(struct wf_replicas *r)
{
    wf_buckets_rebuild_if_changed(r);
    for (int b = 0; b < r->n_buckets; b++) r->buckets[b].missing = r->buckets[b].count;
    for (int i = 0; i < r->n_members; i++) {
        r->members[i].complete = false;
        r->members[i].grad_state.awaited = 0;
    }
    r->grad_hook.wants_complete = true;
}

/* Start the next buckets that are complete; with `all` also those that are not, up to the first
 * that has to be reduced along another axis before. */
static void start_ready_buckets(struct wf_replicas *r, bool all)
{
    for (; r->n_started < r->n_buckets; r->n_started++) {
        struct wf_gradient_bucket *bucket = &r->buckets[r->n_started];

        if (bucket->missing && (!all || gradient_may_be_partial(&r->members[bucket->members[0]])))
            return;
        wf_bucket_start_all_reduce(r, bucket);
    }
}

/* Observers see a bucket's collective as one of backward and of no module, whichever module
 * backward is in when the bucket starts. */
static void start_buckets_outside_modules(struct wf_replicas *r, bool all)
{
    struct wf_call_context before = wf_current_context;

    wf_current_context = (struct wf_call_context){.phase = WF_BACKWARD};
    start_ready_buckets(r, all);
    wf_current_context = before;
}

weft_status wf_replicas_grad_complete(struct wf_grad_hook *hook, struct wf_grad_state *state)
{
    struct wf_replicas *r = (struct wf_replicas *)hook;
    struct wf_replica_tensor *m = (struct wf_replica_tensor *)state;

    if (r->n_started) wf_comm_test(&r->buckets[r->n_started - 1].coll);
    if (m->bucket < 0 || m->complete || gradient_may_be_partial(m)) return WEFT_OK;
    m->complete = true;
    r->buckets[m->bucket].missing--;
    start_buckets_outside_modules(r, false);
    return WEFT_OK;
}

void wf_buckets_start_remaining(struct wf_replicas *r)
{
    if (!r->grad_hook.wants_complete) return;
    r->grad_hook.wants_complete = false;
    start_buckets_outside_modules(r, true);
}
