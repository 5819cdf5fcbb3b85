/*
 * pool.h: all bytes of tensors come from here: a caching allocator with size classes.
 *
 * One pool per rank (thread). A hit pops a free list: no lock, no malloc. Private memory comes
 * from mmap (huge pages asked for on blocks of 2 MiB and more); memory that peers can read comes
 * from the source that comm installs, and from private memory while there is none; device memory
 * from the driver, and the pool never touches its bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/types.h>

enum wf_category {
    WF_MEM_WEIGHTS,
    WF_MEM_GRADIENTS,
    WF_MEM_OPTIMIZER,
    WF_MEM_ACTIVATIONS,
    WF_MEM_COMM, /* peers read it: outputs that are partial sums, buffers of collectives */
    WF_CATEGORIES
};

/** Which free lists a block is of. */
enum wf_block_list {
    WF_BLOCKS_PRIVATE,
    WF_BLOCKS_SHARED, /* from the shared source */
    WF_BLOCKS_PINNED, /* host memory that the device copies by itself; from the shared source while
                       there is one */
    WF_BLOCKS_DEVICE,
    WF_BLOCK_LISTS
};

/** Header of a block; its data lie apart. Reference counted by the owning thread only. */
struct wf_block {
    void *data; /* 64-byte aligned */
    int32_t refs;
    uint8_t category;
    uint8_t size_class;
    uint8_t list;       /* enum wf_block_list */
    uint8_t flags;      /* bits WF_BLOCK_..: what its release does besides the free list */
    uint32_t version;   /* grows with every write in place; goes on when the block is used again */
    int32_t readers;    /* collectives in flight that still read it */
    const char *writer; /* the op of the last such write */
    int64_t bytes;      /* asked for: what the categories count */
    int64_t capacity;   /* of the size class */
    struct wf_block *next; /* in a free list; in use, in the ring of WF_BLOCK_ALIASED */
};

enum {
    WF_BLOCK_SIMULATED = 1, /* without storage */
    WF_BLOCK_ALIASED = 2,   /* with the others of its ring */
    WF_BLOCK_ON_DEVICE = 4,
    WF_BLOCK_IN_COMPUTE =
        8, /* what was given to this stream so far may still use it: once released, */
    WF_BLOCK_IN_COMM = 16,  /* it is not used again before that has run */
    WF_BLOCK_RECORDED = 32, /* this thread's recorder hears of writes and of its release */
    WF_BLOCK_HELD = 64, /* the recorder has one of the references, and does not count as a holder */
    WF_BLOCK_WRAPPED = 128 /* a program made a shard of it: other ranks may have other strides */
};

/**
 * A block of at least `bytes` (0 allowed) with one reference.
 * Fails with NULL and WEFT_ERR_MEMORY naming category and bytes.
 */
struct wf_block *wf_block_new(size_t bytes, enum wf_category category);

/**
 * A simulated block, without storage (data NULL), for tensors on the meta device. Counted apart, in
 * wf_pool_stats_on. Cannot fail.
 */
struct wf_block *wf_block_new_simulated(size_t bytes, enum wf_category category);

/**
 * A block on a device, for WEFT_CPU and WEFT_META as the two above.
 *
 * Blocks of a device serve the compute stream: one that was released may be used again at once, by
 * what comes later in that stream. Fails as wf_block_new, and where the rank has no such device.
 */
struct wf_block *wf_block_new_on(weft_device device, size_t bytes, enum wf_category category);

/** Where its bytes are: WEFT_META for a simulated one. */
weft_device wf_block_device(const struct wf_block *block);

/** Host memory that the device copies from and to by itself, and that peers can read; counted as
 *  communication. The rank has its device. Fails as wf_block_new. */
struct wf_block *wf_block_new_pinned(size_t bytes);
/** The same for `what`, for which peers or the device wait already: without memory the job ends. */
struct wf_block *wf_block_new_pinned_or_die(size_t bytes, const char *what);

/** `bits` (WF_BLOCK_IN_..): what was given to that stream uses the block, of a device or pinned. */
static inline void wf_block_mark_used_by_stream(struct wf_block *block, unsigned bits)
{
    block->flags |= (uint8_t)bits;
}

/** Back to the free list of its class; called by wf_block_release. */
void wf_block_recycle(struct wf_block *block);

static inline struct wf_block *wf_block_retain(struct wf_block *block)
{
    block->refs++;
    return block;
}

/** Some of these bytes lie in it. */
static inline bool wf_block_overlaps(const struct wf_block *block, const void *bytes, int64_t n)
{
    const char *a = block->data, *b = bytes;

    return a && b && a < b + n && b < a + block->bytes;
}

/** Nothing but the one who asks holds it. */
static inline bool wf_block_is_unshared(const struct wf_block *block)
{
    return block->refs == (block->flags & WF_BLOCK_HELD ? 2 : 1);
}

static inline void wf_block_release(struct wf_block *block)
{
    if (--block->refs == 0) wf_block_recycle(block);
}

/**
 * On this rank `copy` is a copy of `of`, where ranks with other strides use a view of `of`: from
 * now on a write to either raises the version of both, so that backward sees the same writes on all
 * ranks. It is also marked WF_BLOCK_WRAPPED if `of` is. Holds no reference; ends when either block
 * ends. `copy` shares with no other block yet.
 */
void wf_block_share_version(struct wf_block *of, struct wf_block *copy);

/** The elements are written in place by `op` (a text that lasts). */
void wf_block_record_write(struct wf_block *block, const char *op);

/** Remove the block from its ring of shared versions; it is about to be released. */
void wf_block_unshare_version(struct wf_block *block);

/** Count the block under another category from now on (a gradient that was an activation). */
void wf_block_recategorize(struct wf_block *block, enum wf_category category);

/** Where shared blocks come from. `map` returns NULL when it is full: the pool then falls back to
 *  private memory. `unmap` may be NULL. */
struct wf_mem_source {
    void *(*map)(void *self, size_t bytes);
    void (*unmap)(void *self, void *p, size_t bytes);
    void *self;
};

/** Install this thread's shared source (NULL removes it; cached shared blocks are given back
 * first). */
void wf_pool_set_shared_source(const struct wf_mem_source *source);

struct wf_pool_stats {
    int64_t live, peak, cached;
};

/** Bytes of one category, or of all for WF_CATEGORIES. `cached` is known for all only. */
struct wf_pool_stats wf_pool_stats(enum wf_category category);
/** The same of blocks on one device: WEFT_CPU as above, WEFT_META those without storage. */
struct wf_pool_stats wf_pool_stats_on(weft_device device, enum wf_category category);
void wf_pool_reset_peak(void);

/** Requests that reached mmap, the shared source or the driver since the thread began: 0 in steady
 * state. */
int64_t wf_pool_system_calls(void);

/** Tests: the n-th request from now fails (1 = the next); 0 switches it off. */
void wf_pool_fail_nth_request(int64_t n);

/** Give all cached blocks back to the system; at thread end also the pool itself. */
void wf_pool_trim(void);
/** To the device alone, for others who need memory there. It waits for the device; within a
 * capture, nothing. */
void wf_pool_trim_device(void);
void wf_pool_finalize(void);
