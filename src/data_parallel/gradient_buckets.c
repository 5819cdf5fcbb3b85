/*
 * gradient_buckets.c: gradients of all replicas, reduced in buckets and divided by the number of
 * tokens of all. See NOTE [replicas].
 *
 * Which gradients are in which bucket is the same on every rank, whatever backward computed: a
 * gradient that one replica lacks counts as zeros, and one that all replicas lack stays missing. So
 * replicas need not have run the same backwards, and none waits for a collective that another does
 * not call.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "data_parallel/data_parallel.h"
#include "dtensor/collectives/reduce_gradients.h"
#include "kernels/device_kernels.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

static weft_dtype tensor_dtype_of(const struct wf_replica_tensor *m)
{
    return (weft_dtype)m->leaf->layout->desc.dtype;
}

static const struct wf_optimizer_kernels *kernels_of(const struct wf_replicas *r)
{
    return wf_optimizer_kernels_on(r->device);
}

/* ---- collectives over the replicas ---- */

static void start_all_reduce(const struct wf_replicas *r, unsigned axes, struct wf_coll *coll,
                             void *data)
{
    int ranks = wf_mesh_axes_size(r->mesh, axes);

    coll->kind = WEFT_COLL_ALL_REDUCE;
    coll->reduce = WEFT_SUM;
    coll->send = coll->recv = data;
    if (ranks == 1 || !weft_mesh_is_member(r->mesh)) return;
    if (r->meta || weft_mesh_is_fake(r->mesh)) {
        wf_comm_report_simulated(coll, wf_mesh_axes_label(r->mesh, axes), ranks,
                                 wf_mesh_axes_rank(r->mesh, axes));
        return;
    }
    coll->comm = wf_mesh_axes_comm(r->mesh, axes);
    wf_comm_start(coll);
}

static void wait_all_reduce(struct wf_coll *coll)
{
    if (coll->comm) wf_comm_wait(coll);
}

void wf_replicas_sum_values(const struct wf_replicas *r, unsigned axes, double *numbers, int count)
{
    struct wf_coll coll = {.dtype = WEFT_F64, .count = (size_t)count, .coalesced = count > 1};

    start_all_reduce(r, axes, &coll, numbers);
    wait_all_reduce(&coll);
}

/* ---- one bucket ---- */

static bool has_unreduced_gradient(const struct wf_replica_tensor *m)
{
    return m->leaf->grad && !m->grad_state.reduced;
}

/* A gradient that owns its bytes. Other replicas are in the collective already, so out of memory
 * ends the job. */
static void ensure_own_gradient(const struct wf_replica_tensor *m)
{
    if (wf_leaf_unshare_grad(m->leaf) != WEFT_OK) WF_DIE("data parallel: %s", weft_error_message());
    wf_wait_ready(m->leaf->grad);
}

/* Copies the gradient, or zeros, into the bucket; the gradient itself is released. */
static void move_gradient_to_bucket(struct wf_replica_tensor *m, char *to)
{
    m->taken = has_unreduced_gradient(m);
    if (!m->taken) {
        if (to) wf_device_zero(wf_device_of(m->leaf), to, wf_replica_tensor_bytes(m));
        return;
    }
    ensure_own_gradient(m);
    if (to)
        wf_device_copy(wf_device_of(m->leaf), to, m->leaf->grad->data, wf_replica_tensor_bytes(m));
    weft_release(m->leaf->grad);
    m->leaf->grad = NULL;
}

static struct wf_block *alloc_bucket_block(const struct wf_replicas *r, size_t bytes)
{
    struct wf_block *block = wf_block_new_on(r->device, bytes, WF_MEM_COMM);

    if (!block) WF_DIE("data parallel: %s", weft_error_message()); /* other ranks wait */
    return block;
}

void wf_bucket_start_all_reduce(struct wf_replicas *r, struct wf_gradient_bucket *bucket)
{
    weft_dtype dtype = tensor_dtype_of(&r->members[bucket->members[0]]);
    size_t at = 0;

    bucket->block = alloc_bucket_block(r, bucket->bytes);
    for (int i = 0; i < bucket->count; i++) {
        struct wf_replica_tensor *m = &r->members[bucket->members[i]];

        move_gradient_to_bucket(m, r->meta ? NULL : (char *)bucket->block->data + at);
        at += wf_replica_tensor_bytes(m);
    }
    bucket->coll = (struct wf_coll){.device = r->device,
                                    .dtype = dtype,
                                    .count = bucket->bytes / wf_dtypes[dtype].size,
                                    .coalesced = bucket->count > 1};
    if (bucket->bytes)
        start_all_reduce(r, bucket->axes, &bucket->coll,
                         bucket->block->data); /* else empty in all */
}

/* On some replica a gradient was added to after its bucket had started: the bucket is reduced once
 * more. */
static void reduce_late_gradients(struct wf_replicas *r, const struct wf_gradient_bucket *bucket)
{
    struct wf_gradient_bucket rest = *bucket;

    wf_bucket_start_all_reduce(r, &rest);
    wait_all_reduce(&rest.coll);
    if (!r->meta)
        kernels_of(r)->axpy(rest.coll.dtype, (int64_t)rest.coll.count, bucket->block->data, 1,
                            rest.block->data);
    wf_block_release(rest.block);
}

/* A gradient left from an earlier step was reduced then: it is added after the reduction. */
static void add_earlier_gradient(const struct wf_replicas *r, const struct wf_replica_tensor *m,
                                 void *data)
{
    const weft_tensor *before = m->before ? m->before : m->leaf->grad;

    if (before && before->data)
        kernels_of(r)->axpy(tensor_dtype_of(m), m->leaf->layout->desc.numel, data, 1, before->data);
}

/* The leaf's gradient becomes a view of the bucket. */
static void set_gradient_to_bucket_view(const struct wf_replicas *r, struct wf_replica_tensor *m,
                                        struct wf_block *block, void *data)
{
    weft_tensor *grad =
        wf_tensor_new(m->leaf->layout, wf_block_retain(block), data, "reduce_gradients");

    add_earlier_gradient(r, m, data);
    weft_release(m->leaf->grad);
    m->leaf->grad = weft_retain(grad);
}

/* The sums are divided, and the leaves get them. */
static void finish_gradient_bucket(struct wf_replicas *r, struct wf_gradient_bucket *bucket,
                                   const double *had, double factor)
{
    char *at = bucket->block->data;

    wf_block_recategorize(bucket->block, WF_MEM_GRADIENTS);
    if (!r->meta) kernels_of(r)->scale(bucket->coll.dtype, (int64_t)bucket->coll.count, at, factor);
    for (int i = 0; i < bucket->count; i++) {
        struct wf_replica_tensor *m = &r->members[bucket->members[i]];

        if (had[bucket->members[i]] > 0) set_gradient_to_bucket_view(r, m, bucket->block, at);
        if (!r->meta) at += wf_replica_tensor_bytes(m);
    }
    wf_block_release(bucket->block);
    bucket->block = NULL;
}

/* Zeros for a gradient that this rank lacks where others have one. */
static void set_zero_gradient(const struct wf_replica_tensor *m)
{
    weft_tensor *zeros = wf_zero_gradient_like(m->leaf);

    if (!zeros) WF_DIE("data parallel: %s", weft_error_message()); /* other ranks wait */
    m->leaf->grad = weft_retain(zeros);
}

/* Gradients that backward has reduced already are divided only. */
static void scale_reduced_gradient(const struct wf_replicas *r, const struct wf_replica_tensor *m,
                                   bool had, double factor)
{
    weft_tensor *grad;

    if (had && !m->leaf->grad) set_zero_gradient(m);
    if (!has_unreduced_gradient(m)) return;
    ensure_own_gradient(m);
    grad = m->leaf->grad;
    wf_tensor_before_write(grad, "reduce_gradients");
    if (r->meta) return;
    kernels_of(r)->scale(tensor_dtype_of(m), grad->layout->desc.numel, grad->data, factor);
    if (m->before)
        kernels_of(r)->axpy(tensor_dtype_of(m), grad->layout->desc.numel, grad->data, 1,
                            m->before->data);
}

/* The other replicas are summing buckets in flight, so those have to finish before their bytes are
 * freed. */
void wf_buckets_wait_and_drop(struct wf_replicas *r)
{
    for (int b = 0; b < r->n_started; b++) {
        wait_all_reduce(&r->buckets[b].coll);
        wf_block_release(r->buckets[b].block);
    }
    r->n_started = 0;
}

/* ---- a step ---- */

/*
 * Sums over the replicas: tokens, loss, and for each member how many replicas have a gradient, and
 * how many have added to it since its bucket started. Counts are integers, which f64 sums exactly.
 */
struct replica_stats {
    const double *tokens, *loss, *had, *rest;
};

size_t wf_replica_stats_count(const struct wf_replicas *r) { return 2 + 2 * (size_t)r->n_members; }

static struct replica_stats sum_step_statistics(struct wf_replicas *r)
{
    double *had = r->numbers + 2, *rest = had + r->n_members;

    r->numbers[0] = r->tokens;
    r->numbers[1] = r->loss;
    for (int i = 0; i < r->n_members; i++) {
        const struct wf_replica_tensor *m = &r->members[i];

        rest[i] = m->bucket >= 0 && has_unreduced_gradient(m);
        had[i] = has_unreduced_gradient(m) || (m->bucket >= 0 && m->taken);
    }
    wf_replicas_sum_values(r, r->axes, r->numbers, (int)wf_replica_stats_count(r));
    return (struct replica_stats){r->numbers, r->numbers + 1, had, rest};
}

static bool bucket_has_late_gradients(const struct wf_gradient_bucket *bucket,
                                      const struct replica_stats *replica_stats)
{
    for (int i = 0; i < bucket->count; i++)
        if (replica_stats->rest[bucket->members[i]] > 0) return true;
    return false;
}

static void finish_gradient_reduction(struct wf_replicas *r,
                                      const struct replica_stats *replica_stats)
{
    double factor = 1 / (*replica_stats->tokens > 0 ? *replica_stats->tokens : r->count);

    for (int b = 0; b < r->n_buckets; b++) wait_all_reduce(&r->buckets[b].coll);
    for (int b = 0; b < r->n_buckets; b++)
        if (bucket_has_late_gradients(&r->buckets[b], replica_stats))
            reduce_late_gradients(r, &r->buckets[b]);
    for (int b = 0; b < r->n_buckets; b++)
        finish_gradient_bucket(r, &r->buckets[b], replica_stats->had, factor);
    for (int i = 0; i < r->n_members; i++)
        if (r->members[i].bucket < 0)
            scale_reduced_gradient(r, &r->members[i], replica_stats->had[i] > 0, factor);
}

/* The gradients of this step are reduced. A member of which no replica had one may still get one.
 */
static void reset_step_counters(struct wf_replicas *r, const struct replica_stats *replica_stats)
{
    bool any = false;

    for (int i = 0; i < r->n_members; i++) any |= replica_stats->had[i] > 0;
    r->n_started = r->backwards = 0;
    r->tokens = r->loss = 0;
    r->grad_hook.reduced = true;
    if (!any) return;
    r->all_tokens = *replica_stats->tokens;
    r->mean_loss = *replica_stats->loss / *replica_stats->tokens;
    for (int i = 0; i < r->n_members; i++) {
        r->members[i].grad_state.reduced = true;
        weft_release(r->members[i].before);
        r->members[i].before = NULL;
    }
}

static weft_status reduce_all_gradients(struct wf_replicas *r)
{
    struct replica_stats replica_stats;

    /* along other axes all leaves together: which are partial there is known to each replica alone
     */
    WF_TRY(wf_reduce_partial_gradients(r->leaves, r->n_members));
    if (r->n_started == 0) wf_buckets_rebuild_if_changed(r);
    for (; r->n_started < r->n_buckets; r->n_started++)
        wf_bucket_start_all_reduce(r, &r->buckets[r->n_started]);
    replica_stats = sum_step_statistics(r);
    finish_gradient_reduction(r, &replica_stats);
    wf_replicas_sync_buffers(r);
    reset_step_counters(r, &replica_stats);
    return WEFT_OK;
}

weft_status wf_replicas_reduce_grads(struct wf_grad_hook *hook)
{
    struct wf_replicas *r = (struct wf_replicas *)hook;
    weft_scope *scope;
    weft_status status;

    if (hook->reduced) return WEFT_OK;
    scope = weft_scope_open();
    status = reduce_all_gradients(r);
    weft_scope_close(scope);
    return status;
}

weft_status wf_replicas_grad_before_add(struct wf_grad_hook *hook, struct wf_grad_state *state)
{
    struct wf_replica_tensor *m = (struct wf_replica_tensor *)state;

    if (!state->reduced) hook->reduced = false;
    WF_NEED(!hook->reduced, WEFT_ERR_STATE,
            "backward: the gradients were reduced over the replicas already; take the step or drop "
            "them first");
    if (!state->reduced) return WEFT_OK;
    m->before = m->leaf->grad;
    m->leaf->grad = NULL;
    state->reduced = false;
    return WEFT_OK;
}

/* Buckets in flight are finished first: they have started on all replicas. */
void wf_replicas_grad_dropped(struct wf_grad_hook *hook, struct wf_grad_state *state)
{
    struct wf_replicas *r = (struct wf_replicas *)hook;
    struct wf_replica_tensor *m = (struct wf_replica_tensor *)state;

    if (r->config.backwards && r->backwards >= r->config.backwards) hook->reduce(hook);
    r->backwards = 0;
    weft_release(m->before);
    m->before = NULL;
    state->reduced = hook->reduced = false;
}
