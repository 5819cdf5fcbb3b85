/* tensor.c: handles and their properties. Scopes are in scope.c, tensors from data in
 * tensor_create.c. */
#include "tensor/tensor.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/recorder.h"
#include "tensor/scope.h"

enum {
    CHUNK_BYTES = 1 << 21,
    HANDLES_PER_CHUNK = 64 * 480, /* new ones come 480 at a time */
    NEW_AT_ONCE = 480,
    HANDLES_AT_REST = 16384,
    CHUNKS_AT_REST = 8, /* of threads that have ended */
};

/* A chunk is aligned to its size: a handle finds what it shares with others. It is one malloc for
 * more handles than most threads need, of which the system gives only the pages that are used. */
struct chunk {
    _Atomic uint64_t owner; /* the number of the thread that makes tensors in it; 0: it has ended */
    struct chunk *next;
    int used; /* handles from here on have not been in the thread's queue */
    _Alignas(64) weft_tensor handles[HANDLES_PER_CHUNK];
    int32_t ties[HANDLES_PER_CHUNK];
};
static_assert(sizeof(weft_tensor) == 64, "a handle is one cache line");
static_assert(sizeof(struct chunk) <= CHUNK_BYTES, "a chunk has room for its handles");

struct chunks {
    struct chunk *first, *last; /* in the order in which they came */
    int count;
};

/* Handles are used again in the order in which they were released, and not before HANDLES_AT_REST
 * others were. Until then a use of the dead handle is recognised by its layout, which has no plan.
 * The queue begins with those that were never used. */
static _Thread_local struct {
    weft_tensor *free, *last;    /* a queue that is never empty once there is a chunk */
    int64_t made, made_at_check; /* so many, and then the queue is looked at */
    int64_t released, all;
    struct chunks chunks;
    uint64_t thread; /* its number, from 1 */
} handles;

/* What a released handle has: nobody writes to it. */
static struct wf_layout no_layout;
static struct wf_block no_block;

/* Chunks of threads that have ended: a program may still use handles in them, so they are never
 * given back to the system. Memory for the threads to come, beside malloc's. */
static struct {
    pthread_mutex_t lock;
    struct chunks chunks;
} ended = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct chunk *chunk_of(const weft_tensor *t)
{
    return (struct chunk *)((uintptr_t)t & ~(uintptr_t)(CHUNK_BYTES - 1));
}

static uint64_t owner_of(const weft_tensor *t)
{
    return atomic_load_explicit(&chunk_of(t)->owner, memory_order_relaxed);
}

/* `more` begins with `first` and is linked. */
static void append(struct chunks *chunks, struct chunks more)
{
    if (chunks->last)
        chunks->last->next = more.first;
    else
        chunks->first = more.first;
    if (more.last) chunks->last = more.last;
    chunks->count += more.count;
}

/* One of a thread that has ended, when as many others rest; NULL: none */
static struct chunk *take_ended(void)
{
    struct chunk *chunk = NULL;

    pthread_mutex_lock(&ended.lock);
    if (ended.chunks.count > CHUNKS_AT_REST) {
        chunk = ended.chunks.first;
        ended.chunks.first = chunk->next;
        ended.chunks.count--;
    }
    pthread_mutex_unlock(&ended.lock);
    return chunk;
}

static void add_handle_chunk(void)
{
    static atomic_uint_fast64_t threads;
    struct chunk *chunk = take_ended();

    if (!chunk) chunk = wf_malloc_aligned(CHUNK_BYTES);
    if (!handles.thread) handles.thread = atomic_fetch_add(&threads, 1) + 1;
    atomic_store_explicit(&chunk->owner, handles.thread, memory_order_relaxed);
    chunk->next = NULL;
    chunk->used = 0;
    append(&handles.chunks, (struct chunks){chunk, chunk, 1});
}

/* gives: handles that can be used at once */
static int add_new(void)
{
    struct chunk *chunk = handles.chunks.last;
    weft_tensor *first = &chunk->handles[chunk->used], *last = first + NEW_AT_ONCE - 1;
    bool alone = !handles.last;

    memset(&chunk->ties[chunk->used], 0, NEW_AT_ONCE * sizeof *chunk->ties);
    for (weft_tensor *t = first; t <= last; t++)
        *t = (weft_tensor){.layout = &no_layout, .block = &no_block, .next_free = t + 1};
    last->next_free = handles.free;
    handles.free = first;
    if (alone) handles.last = last;
    chunk->used += NEW_AT_ONCE;
    handles.all += NEW_AT_ONCE;
    return NEW_AT_ONCE - alone;
}

/* Every so many handles: a thread that has released few makes each tensor in a new one. */
static void look_at_queue(void)
{
    const struct chunk *newest = handles.chunks.last;
    int64_t resting = handles.all - wf_tensor_live_count();
    int64_t usable = resting > HANDLES_AT_REST ? resting - HANDLES_AT_REST : 0;

    if (usable < NEW_AT_ONCE / 2) {
        if (!newest || newest->used + NEW_AT_ONCE > HANDLES_PER_CHUNK) add_handle_chunk();
        usable += add_new();
    }
    handles.made_at_check = handles.made + usable;
}

static const char *origin_of(const weft_tensor *t)
{
    return t->origin ? t->origin : "an earlier thread";
}

weft_status wf_tensor_fail_dead(const weft_tensor *t, const char *who)
{
    uint64_t owner = owner_of(t);

    WF_NEED(owner, WEFT_ERR_STATE,
            "%s: the tensor belongs to a thread that has ended: its rank of weft_run returned, or "
            "it called weft_finalize",
            who);
    WF_NEED(owner == handles.thread, WEFT_ERR_STATE,
            "%s: the tensor from %s belongs to the thread that made it", who, origin_of(t));
    return WF_FAIL(WEFT_ERR_STATE,
                   "%s: the tensor from %s was released: its scope was closed, or weft_release was "
                   "called once too often; keep it with weft_scope_return or weft_retain",
                   who, origin_of(t));
}

weft_status wf_tensor_check_alive(const weft_tensor *t, const char *who)
{
    return !t || (t->refs > 0 && owner_of(t) == handles.thread) ? WEFT_OK
                                                                : wf_tensor_fail_dead(t, who);
}

/* Called in the last place: a caller that calls nothing else has no registers to save. */
__attribute__((noinline)) static weft_tensor *new_tensor_after_growing(struct wf_layout *layout,
                                                                       struct wf_block *block,
                                                                       void *data,
                                                                       const char *origin)
{
    if (handles.made == handles.made_at_check) look_at_queue();
    if (wf_scope_stack_is_full()) wf_scope_grow_stack();
    return wf_tensor_new(layout, block, data, origin);
}

weft_tensor *wf_tensor_new(struct wf_layout *layout, struct wf_block *block, void *data,
                           const char *origin)
{
    weft_tensor *t;

    if (handles.made == handles.made_at_check || wf_scope_stack_is_full())
        return new_tensor_after_growing(layout, block, data, origin);
    t = handles.free;
    handles.free = t->next_free;
    __builtin_prefetch(handles.free, 1); /* it was not used for long */
    handles.made++;
    t->layout = wf_layout_retain(layout);
    t->data = data;
    t->block = block;
    t->origin = origin; /* node, grad and the flags were cleared at its end */
    t->recording = wf_recording_number;
    t->refs = 1;
    wf_scope_push_temporary(t);
    return t;
}

weft_tensor *wf_tensor_new_empty(struct wf_layout *layout, enum wf_category category,
                                 const char *origin)
{
    size_t bytes = (size_t)layout->desc.numel * wf_dtypes[layout->desc.dtype].size;
    struct wf_block *block = wf_block_new_on((weft_device)layout->desc.device, bytes, category);

    return block ? wf_tensor_new(layout, block, block->data, origin) : NULL;
}

/* Nobody holds it any more. */
__attribute__((noinline)) static void free_handle(weft_tensor *t)
{
    if (t->node) {
        wf_tape_node_release(t->node);
        t->node = NULL;
    }
    if (t->grad) {
        weft_release(t->grad);
        t->grad = NULL;
    }
    wf_block_release(t->block);
    wf_layout_release(t->layout);
    t->layout = &no_layout;
    t->block = &no_block;
    t->requires_grad = false;
    t->in_flight = t->inner_leaf = false;
    handles.last->next_free = t;
    handles.last = t;
    handles.released++;
}

weft_tensor *weft_retain(weft_tensor *t)
{
    if (!t) return NULL;
    if (t->refs <= 0) return (void)wf_tensor_fail_dead(t, "retain"), NULL;
    t->refs++;
    return t;
}

void weft_release(weft_tensor *t)
{
    if (!t || --t->refs > 0) return;
    if (t->refs == 0 && owner_of(t) == handles.thread) {
        free_handle(t);
    } else {
        t->refs++;
        wf_tensor_fail_dead(t, "release");
    }
}

int32_t *wf_tensor_parameter_count(weft_tensor *t)
{
    struct chunk *chunk = chunk_of(t);

    return &chunk->ties[t - chunk->handles];
}

_Thread_local uint64_t wf_inplace_write_count;

int64_t weft_tensor_version(const weft_tensor *t)
{
    return t && wf_tensor_check_alive(t, "tensor_version") == WEFT_OK ? t->block->version : 0;
}

void weft_increment_version(weft_tensor *t)
{
    if (!t || wf_tensor_check_alive(t, "increment_version") != WEFT_OK) return;
    wf_recorder_leave("increment_version: the program writes elements");
    wf_tensor_before_write(t, "weft_increment_version");
}

int64_t wf_tensor_live_count(void) { return handles.made - handles.released; }

static void report_leaks(void)
{
    char text[256];
    int shown = 0;

    for (const struct chunk *chunk = handles.chunks.first; chunk; chunk = chunk->next) {
        for (int i = 0; i < chunk->used && shown < 8; i++) {
            const weft_tensor *t = &chunk->handles[i];

            if (t->refs <= 0) continue;
            weft_tensor_format(t, text, sizeof text);
            WF_LOG(WF_LOG_WARN, "leak", "tensor from %s still held at the end: %s", t->origin,
                   text);
            shown++;
        }
    }
}

/* What handles point to ends with the thread, names of ops that it registered included. */
static void pool_handles_of_ending_thread(void)
{
    for (struct chunk *chunk = handles.chunks.first; chunk; chunk = chunk->next) {
        for (int i = 0; i < chunk->used; i++)
            chunk->handles[i] = (weft_tensor){.layout = &no_layout, .block = &no_block};
        atomic_store_explicit(&chunk->owner, 0, memory_order_relaxed);
    }
    pthread_mutex_lock(&ended.lock);
    append(&ended.chunks, handles.chunks);
    pthread_mutex_unlock(&ended.lock);
}

void wf_tensor_finalize(void)
{
    wf_scope_finalize();
    if (wf_tensor_live_count()) report_leaks();
    pool_handles_of_ending_thread();
    handles.free = handles.last = NULL;
    handles.made = handles.made_at_check = handles.released = handles.all = 0;
    handles.chunks = (struct chunks){0};
}

int wf_normalize_dim(int dim, int ndim, const char *who)
{
    if (dim >= -ndim && dim < ndim) return dim < 0 ? dim + ndim : dim;
    WF_FAIL(WEFT_ERR_ARG, "%s: dim %d of a tensor with %d dims", who, dim, ndim);
    return -1;
}

int weft_ndim(const weft_tensor *t) { return WF_HANDLE(t)->layout->desc.ndim; }

int64_t weft_size(const weft_tensor *t, int dim)
{
    int d = wf_normalize_dim(dim, weft_ndim(t), "size");

    return d < 0 ? -1 : WF_HANDLE(t)->layout->desc.global[d];
}

int64_t weft_numel(const weft_tensor *t) { return WF_HANDLE(t)->layout->numel; }

weft_dtype weft_tensor_dtype(const weft_tensor *t)
{
    return (weft_dtype)WF_HANDLE(t)->layout->desc.dtype;
}

weft_mesh *weft_tensor_mesh(const weft_tensor *t) { return WF_HANDLE(t)->layout->mesh; }

weft_placement weft_tensor_placement(const weft_tensor *t, int axis)
{
    return axis >= 0 && axis < WF_HANDLE(t)->layout->n_axes ? t->layout->placements[axis]
                                                            : weft_replicate();
}

int64_t weft_local_size(const weft_tensor *t, int dim)
{
    int d = wf_normalize_dim(dim, weft_ndim(t), "local size");

    return d < 0 ? -1 : WF_HANDLE(t)->layout->desc.shape[d];
}

int64_t weft_local_offset(const weft_tensor *t, int dim)
{
    int d = wf_normalize_dim(dim, weft_ndim(t), "local offset");

    return d < 0 ? -1 : WF_HANDLE(t)->layout->desc.offset[d];
}

int64_t weft_local_stride(const weft_tensor *t, int dim)
{
    int d = wf_normalize_dim(dim, weft_ndim(t), "local stride");

    return d < 0 ? -1 : WF_HANDLE(t)->layout->desc.stride[d];
}

int64_t weft_local_numel(const weft_tensor *t) { return WF_HANDLE(t)->layout->desc.numel; }

int64_t weft_local_storage_offset(const weft_tensor *t)
{
    const char *data = WF_HANDLE(t)->data, *storage = t->block->data;

    return data && storage ? (data - storage) / (int64_t)weft_dtype_size(weft_tensor_dtype(t)) : 0;
}

bool weft_is_contiguous(const weft_tensor *t) { return WF_HANDLE(t)->layout->desc.contiguous; }

void *weft_data(weft_tensor *t)
{
    if (!t || wf_tensor_check_alive(t, "data") != WEFT_OK) return NULL;
    wf_recorder_leave("data: the program takes the address of elements");
    wf_wait_ready(t);
    return t->data;
}
