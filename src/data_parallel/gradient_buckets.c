/*
 * gradient_buckets.c: gradients of all replicas, reduced in buckets and divided by the number of
 * tokens of all. See NOTE [replicas].
 *
 * Which gradients are in which bucket is the same on every rank, whatever backward came to: one
 * that a replica lacks is zeros there, and one that all lack stays missing. So replicas need not
 * have run the same backwards, and none waits for a message that another does not send.
 */
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "data_parallel/data_parallel.h"
#include "dtensor/buckets.h"
#include "kernels/optim.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

/* ---- which gradients travel together ---- */

static size_t bytes_of(const struct wf_member *m)
{
    const struct wf_desc *desc = &m->leaf->layout->desc;

    return (size_t)desc->numel * wf_dtypes[desc->dtype].size;
}

static uint8_t dtype_of(const struct wf_member *m) { return m->leaf->layout->desc.dtype; }

/* Cut leaves are reduced by backward. */
static bool waits(const struct wf_member *m)
{
    return m->leaf->requires_grad && weft_is_replicate(m->leaf->layout->placements[0]);
}

static void put(struct wf_replicas *r, struct wf_bucket *bucket, int member)
{
    bucket->members[bucket->count++] = member;
    bucket->bytes += bytes_of(&r->members[member]);
    r->members[member].bucketed = true;
}

/* The last member that is in no bucket yet, and those before it that fit in beside it. */
static void fill(struct wf_replicas *r, struct wf_bucket *bucket, int last)
{
    uint8_t dtype = dtype_of(&r->members[last]);

    *bucket = (struct wf_bucket){.members = wf_calloc((size_t)last + 1, sizeof(int))};
    put(r, bucket, last);
    for (int i = last - 1; i >= 0; i--) {
        const struct wf_member *m = &r->members[i];

        if (m->bucketed || !waits(m) || dtype_of(m) != dtype) continue;
        if (bucket->bytes + bytes_of(m) > r->config.bucket_bytes) return;
        put(r, bucket, i);
    }
}

void wf_buckets_make(struct wf_replicas *r)
{
    wf_buckets_free(r);
    for (int i = 0; i < r->n_members; i++) {
        r->members[i].bucketed = false;
        r->members[i].wanted = r->members[i].leaf->requires_grad;
    }
    for (int i = r->n_members - 1; i >= 0; i--) {
        if (r->members[i].bucketed || !waits(&r->members[i])) continue;
        r->buckets = wf_realloc(r->buckets, (size_t)(r->n_buckets + 1) * sizeof *r->buckets);
        fill(r, &r->buckets[r->n_buckets++], i);
    }
}

void wf_buckets_free(struct wf_replicas *r)
{
    for (int b = 0; b < r->n_buckets; b++) wf_free(r->buckets[b].members);
    wf_free(r->buckets);
    r->buckets = NULL;
    r->n_buckets = 0;
}

/* Parameters may be frozen and thawed between steps. */
static void make_again_where_changed(struct wf_replicas *r)
{
    int i = 0;

    while (i < r->n_members && r->members[i].wanted == r->members[i].leaf->requires_grad) i++;
    if (i < r->n_members) wf_buckets_make(r);
}

/* ---- talking to the other replicas ---- */

static bool is_alone(const struct wf_replicas *r)
{
    return weft_mesh_axis_size(r->mesh, 0) == 1 || !weft_mesh_is_member(r->mesh);
}

static void start(const struct wf_replicas *r, struct wf_coll *coll, void *data)
{
    coll->kind = WEFT_COLL_ALL_REDUCE;
    coll->reduce = WEFT_SUM;
    coll->send = coll->recv = data;
    if (is_alone(r)) return;
    if (r->meta || weft_mesh_is_fake(r->mesh)) {
        wf_comm_plan(coll, weft_mesh_axis_name(r->mesh, 0), weft_mesh_axis_size(r->mesh, 0),
                     weft_mesh_coordinate(r->mesh, 0));
        return;
    }
    coll->comm = wf_mesh_comm(r->mesh, 0);
    wf_comm_start(coll);
}

static void wait(struct wf_coll *coll)
{
    if (coll->comm) wf_comm_wait(coll);
}

void wf_replicas_sum(const struct wf_replicas *r, double *numbers, int count)
{
    struct wf_coll coll = {.dtype = WEFT_F64, .count = (size_t)count, .coalesced = count > 1};

    start(r, &coll, numbers);
    wait(&coll);
}

/* ---- one bucket ---- */

static bool has_news(const struct wf_member *m) { return m->leaf->grad && !m->kept.reduced; }

/* The gradient's bytes, or zeros, to their place; the gradient itself is given up. */
static weft_status take(struct wf_member *m, char *to)
{
    m->taken = has_news(m);
    if (m->taken) WF_TRY(wf_leaf_own_gradient(m->leaf));
    if (to && !m->taken) memset(to, 0, bytes_of(m));
    if (!m->taken) return WEFT_OK;
    wf_settled(m->leaf->grad);
    if (to) memcpy(to, m->leaf->grad->data, bytes_of(m));
    weft_release(m->leaf->grad);
    m->leaf->grad = NULL;
    return WEFT_OK;
}

static weft_status start_bucket(struct wf_replicas *r, struct wf_bucket *bucket)
{
    uint8_t dtype = dtype_of(&r->members[bucket->members[0]]);
    size_t at = 0;

    bucket->block = r->meta ? wf_block_planned(bucket->bytes, WF_MEM_COMM)
                            : wf_block_new(bucket->bytes, WF_MEM_COMM);
    if (!bucket->block) return weft_error_status();
    for (int i = 0; i < bucket->count; i++) {
        struct wf_member *m = &r->members[bucket->members[i]];

        WF_TRY(take(m, r->meta ? NULL : (char *)bucket->block->data + at));
        at += bytes_of(m);
    }
    bucket->coll = (struct wf_coll){.dtype = (weft_dtype)dtype,
                                    .count = bucket->bytes / wf_dtypes[dtype].size,
                                    .coalesced = bucket->count > 1};
    start(r, &bucket->coll, bucket->block->data);
    return WEFT_OK;
}

/* The leaf's gradient is now its part of the bucket. */
static void adopt(struct wf_member *m, struct wf_block *block, void *data)
{
    struct wf_layout *layout =
        wf_layout_with_placements(m->leaf->layout, m->leaf->layout->placements);
    weft_tensor *grad = wf_tensor_new(layout, wf_block_retain(block), data, "reduce_gradients");

    wf_layout_release(layout);
    weft_release(m->leaf->grad);
    m->leaf->grad = weft_retain(grad);
    m->kept.reduced = true;
}

static void finish_bucket(struct wf_replicas *r, struct wf_bucket *bucket, const double *had,
                          double factor)
{
    char *at = bucket->block->data;

    wait(&bucket->coll);
    wf_block_recategorize(bucket->block, WF_MEM_GRADIENTS);
    if (!r->meta) wf_cpu_scale(bucket->coll.dtype, (int64_t)bucket->coll.count, at, factor);
    for (int i = 0; i < bucket->count; i++) {
        struct wf_member *m = &r->members[bucket->members[i]];

        if (had[bucket->members[i]] > 0) adopt(m, bucket->block, at);
        if (!r->meta) at += bytes_of(m);
    }
    wf_block_release(bucket->block);
    bucket->block = NULL;
}

/* ---- all of them ---- */

/* A cut leaf's gradient is reduced already, and only to be divided. */
static weft_status finish_cut(const struct wf_replicas *r, struct wf_member *m, double factor)
{
    if (!has_news(m)) return WEFT_OK;
    WF_TRY(wf_leaf_own_gradient(m->leaf));
    m->kept.reduced = true;
    if (r->meta) return WEFT_OK;
    wf_settled(m->leaf->grad);
    wf_cpu_scale((weft_dtype)dtype_of(m), m->leaf->grad->layout->desc.numel, m->leaf->grad->data,
                 factor);
    return WEFT_OK;
}

/* What is pending along other axes, in one collective for all leaves; a replica decides by itself
 * what that is. */
static weft_status reduce_other_axes(struct wf_replicas *r)
{
    weft_tensor **leaves = wf_calloc((size_t)r->n_members + 1, sizeof *leaves);
    weft_status status;

    for (int i = 0; i < r->n_members; i++) leaves[i] = r->members[i].leaf;
    status = wf_reduce_groups(leaves, r->n_members);
    wf_free(leaves);
    return status;
}

/* numbers: tokens, loss, and for each member how many replicas have a gradient. Counts are whole
 * numbers, of which f64 adds up exactly what anybody can count. */
enum { TOKENS, LOSS, HAD };

static void agree(struct wf_replicas *r, double *numbers)
{
    bool any = false;

    numbers[TOKENS] = r->tokens;
    numbers[LOSS] = r->loss;
    for (int i = 0; i < r->n_members; i++) {
        struct wf_member *m = &r->members[i];

        numbers[HAD + i] = m->bucketed ? m->taken : has_news(m);
    }
    wf_replicas_sum(r, numbers, HAD + r->n_members);
    for (int i = 0; i < r->n_members; i++) any |= numbers[HAD + i] > 0;
    if (!any) return;
    r->all_tokens = numbers[TOKENS];
    r->mean_loss = numbers[LOSS] / numbers[TOKENS];
    r->tokens = r->loss = 0;
}

static weft_status finish_all(struct wf_replicas *r, const double *numbers)
{
    double factor = 1 / (numbers[TOKENS] > 0 ? numbers[TOKENS] : weft_mesh_axis_size(r->mesh, 0));

    for (int b = 0; b < r->n_buckets; b++) finish_bucket(r, &r->buckets[b], numbers + HAD, factor);
    for (int i = 0; i < r->n_members; i++)
        if (!r->members[i].bucketed) WF_TRY(finish_cut(r, &r->members[i], factor));
    return WEFT_OK;
}

static weft_status reduce(struct wf_replicas *r)
{
    double *numbers;
    weft_status status;

    WF_TRY(reduce_other_axes(r));
    make_again_where_changed(r);
    for (int b = 0; b < r->n_buckets; b++) WF_TRY(start_bucket(r, &r->buckets[b]));
    numbers = wf_calloc((size_t)(HAD + r->n_members), sizeof *numbers);
    agree(r, numbers);
    status = finish_all(r, numbers);
    wf_free(numbers);
    r->keeper.reduced = status == WEFT_OK;
    return status;
}

weft_status wf_replicas_reduce(struct wf_keeper *keeper)
{
    struct wf_replicas *r = (struct wf_replicas *)keeper;
    weft_scope *scope;
    weft_status status;

    if (keeper->reduced) return WEFT_OK;
    scope = weft_scope_open();
    status = reduce(r);
    weft_scope_close(scope);
    return status;
}
