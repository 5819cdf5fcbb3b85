/*
 * bucket_list.c: which gradients travel together, and when a bucket may leave. What it then does is
 * in gradient_buckets.c.
 *
 * Buckets leave in their order on every rank, and their collectives have to: one that waits for a
 * gradient holds up those behind it. So what may be pending along another axis too, and has to be
 * reduced there first, is put behind the rest when buckets leave during backward.
 */
#include "base/dtype.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/where.h"
#include "data_parallel/data_parallel.h"
#include "tensor/tensor.h"

size_t wf_member_bytes(const struct wf_member *m)
{
    const struct wf_desc *desc = &m->leaf->layout->desc;

    return (size_t)desc->numel * wf_dtypes[desc->dtype].size;
}

/* Leaves that are cut along all axes are reduced by backward. */
static bool travels(const struct wf_member *m) { return m->leaf->requires_grad && m->kept.axes; }

/* A plain tensor's gradient never is; a distributed one's where an axis replicates it. */
static bool may_be_pending(const struct wf_member *m)
{
    const struct wf_layout *lent = m->lent;

    for (int a = 0; a < lent->n_axes; a++)
        if (weft_is_replicate(lent->placements[a]) && weft_mesh_axis_size(lent->mesh, a) > 1)
            return true;
    return false;
}

static bool go_together(const struct wf_replicas *r, const struct wf_member *a,
                        const struct wf_member *b)
{
    return a->leaf->layout->desc.dtype == b->leaf->layout->desc.dtype &&
           a->kept.axes == b->kept.axes &&
           (!r->config.backwards || may_be_pending(a) == may_be_pending(b));
}

static void put(struct wf_replicas *r, int bucket, int member)
{
    struct wf_bucket *b = &r->buckets[bucket];

    b->members[b->count++] = member;
    b->bytes += wf_member_bytes(&r->members[member]);
    r->members[member].bucket = bucket;
}

/* A bucket of member `last`, and of those before it that are in none yet and fit in. */
static void add_bucket(struct wf_replicas *r, int last)
{
    int number = r->n_buckets;
    struct wf_bucket *b;

    r->buckets = wf_grown(r->buckets, r->n_buckets++, sizeof *r->buckets);
    b = &r->buckets[number];
    *b = (struct wf_bucket){.axes = r->members[last].kept.axes,
                            .members = wf_calloc((size_t)last + 1, sizeof(int))};
    put(r, number, last);
    for (int i = last - 1; i >= 0; i--) {
        const struct wf_member *m = &r->members[i];

        if (m->bucket >= 0 || !travels(m) || !go_together(r, m, &r->members[last])) continue;
        if (b->bytes && b->bytes + wf_member_bytes(m) > r->config.bucket_bytes) return;
        put(r, number, i);
    }
}

static void add_buckets(struct wf_replicas *r, bool pending)
{
    for (int i = r->n_members - 1; i >= 0; i--) {
        const struct wf_member *m = &r->members[i];

        if (m->bucket < 0 && travels(m) && (pending || !may_be_pending(m))) add_bucket(r, i);
    }
}

void wf_buckets_make(struct wf_replicas *r)
{
    wf_buckets_free(r);
    for (int i = 0; i < r->n_members; i++) {
        r->members[i].bucket = -1;
        r->members[i].wanted = r->members[i].leaf->requires_grad;
    }
    if (r->config.backwards) add_buckets(r, false);
    add_buckets(r, true);
}

void wf_buckets_free(struct wf_replicas *r)
{
    for (int b = 0; b < r->n_buckets; b++) wf_free(r->buckets[b].members);
    wf_free(r->buckets);
    r->buckets = NULL;
    r->n_buckets = 0;
}

void wf_buckets_refresh(struct wf_replicas *r)
{
    int i = 0;

    while (i < r->n_members && r->members[i].wanted == r->members[i].leaf->requires_grad) i++;
    if (i < r->n_members) wf_buckets_make(r);
}

/* ---- leaving during backward ---- */

void wf_buckets_listen(struct wf_replicas *r)
{
    wf_buckets_refresh(r);
    for (int b = 0; b < r->n_buckets; b++) r->buckets[b].missing = r->buckets[b].count;
    for (int i = 0; i < r->n_members; i++) {
        r->members[i].arrived = false;
        r->members[i].kept.awaited = 0;
    }
    r->keeper.listening = true;
}

/* The next buckets, as far as they are complete; with `all` the others too, but for those that wait
 * for another axis. */
static void send(struct wf_replicas *r, bool all)
{
    for (; r->n_started < r->n_buckets; r->n_started++) {
        struct wf_bucket *bucket = &r->buckets[r->n_started];

        if (bucket->missing && (!all || may_be_pending(&r->members[bucket->members[0]]))) return;
        wf_bucket_start(r, bucket);
    }
}

/* A bucket is of no module, and of backward wherever that is when it leaves. */
static void send_from_nowhere(struct wf_replicas *r, bool all)
{
    struct wf_where before = wf_here;

    wf_here = (struct wf_where){.phase = WF_BACKWARD};
    send(r, all);
    wf_here = before;
}

weft_status wf_replicas_arrived(struct wf_keeper *keeper, struct wf_kept *kept)
{
    struct wf_replicas *r = (struct wf_replicas *)keeper;
    struct wf_member *m = (struct wf_member *)kept;

    if (r->n_started) wf_comm_test(&r->buckets[r->n_started - 1].coll);
    if (m->bucket < 0 || m->arrived || may_be_pending(m)) return WEFT_OK;
    m->arrived = true;
    r->buckets[m->bucket].missing--;
    send_from_nowhere(r, false);
    return WEFT_OK;
}

void wf_buckets_send(struct wf_replicas *r)
{
    if (!r->keeper.listening) return;
    r->keeper.listening = false;
    send_from_nowhere(r, true);
}
