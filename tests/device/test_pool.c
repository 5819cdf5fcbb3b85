/* test_pool.c: the caching allocator: classes, categories, the shared source, failing on purpose.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/knob.h"
#include "device/pool.h"
#include "support/mpi_check.h"
#include <weft/error.h>

static void begin(void)
{
    wf_pool_finalize();
    weft_error_clear();
}

WT_UNIT(pool__every_size_gets_an_aligned_block_that_fits)
{
    for (size_t bytes = 0; bytes < 20000; bytes += bytes < 300 ? 1 : 97) {
        struct wf_block *block = wf_block_new(bytes, WF_MEM_ACTIVATIONS);

        ck_assert_ptr_nonnull(block);
        ck_assert_uint_eq((uintptr_t)block->data % 64, 0);
        ck_assert_int_ge(block->capacity, (int64_t)bytes);
        /* at most a fifth unused, beyond the granularity of one line */
        ck_assert_int_le(block->capacity - block->capacity / 5, (int64_t)bytes + 64);
        memset(block->data, 1, bytes);
        wf_block_release(block);
    }
}

WT_UNIT(pool__blocks_do_not_overlap)
{
    enum { COUNT = 300 };
    struct wf_block *blocks[COUNT];

    for (int i = 0; i < COUNT; i++) {
        blocks[i] = wf_block_new((size_t)(i * 37 % 5000), WF_MEM_WEIGHTS);
        memset(blocks[i]->data, i % 251, (size_t)blocks[i]->bytes);
    }
    for (int i = 0; i < COUNT; i++) {
        const unsigned char *data = blocks[i]->data;

        for (int64_t at = 0; at < blocks[i]->bytes; at++)
            ck_assert_uint_eq(data[at], (unsigned)(i % 251));
    }
    for (int i = 0; i < COUNT; i++) wf_block_release(blocks[i]);
}

WT_UNIT(pool__a_steady_state_asks_the_system_for_nothing)
{
    int64_t calls = 0;

    for (int step = 0; step < 5; step++) {
        struct wf_block *blocks[40];

        if (step == 1) calls = wf_pool_system_calls();
        for (int i = 0; i < 40; i++)
            blocks[i] = wf_block_new((size_t)1 << (i % 23), WF_MEM_ACTIVATIONS);
        for (int i = 0; i < 40; i++) wf_block_release(blocks[i]);
    }
    ck_assert_int_gt(calls, 0);
    ck_assert_int_eq(wf_pool_system_calls(), calls);
}

WT_UNIT(pool__the_block_released_last_is_handed_out_first)
{
    struct wf_block *a = wf_block_new(1000, WF_MEM_WEIGHTS),
                    *b = wf_block_new(1000, WF_MEM_WEIGHTS);
    void *data = a->data;

    WT_RELEASE(wf_block_release, b, a);
    a = wf_block_new(1010, WF_MEM_GRADIENTS); /* the same class */
    ck_assert_ptr_eq(a->data, data);
    wf_block_release(a);
}

WT_UNIT(pool__categories_count_what_was_asked_for)
{
    struct wf_block *w = wf_block_new(1000, WF_MEM_WEIGHTS),
                    *g = wf_block_new(300, WF_MEM_GRADIENTS);

    ck_assert_int_eq(wf_pool_stats(WF_MEM_WEIGHTS).live, 1000);
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).live, 1300);
    wf_block_recategorize(g, WF_MEM_OPTIMIZER);
    ck_assert_int_eq(wf_pool_stats(WF_MEM_GRADIENTS).live, 0);
    ck_assert_int_eq(wf_pool_stats(WF_MEM_GRADIENTS).peak, 300);
    ck_assert_int_eq(wf_pool_stats(WF_MEM_OPTIMIZER).live, 300);
    wf_block_release(g);
    ck_assert_int_eq(wf_pool_stats(WF_MEM_OPTIMIZER).live, 0);
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).cached, 320);
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).peak, 1300);
    wf_pool_reset_peak();
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).peak, 1000);
    ck_assert_int_eq(wf_pool_stats(WF_MEM_OPTIMIZER).peak, 0);
    wf_block_release(w);
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).live, 0);
}

WT_UNIT(pool__a_retained_block_lives_until_the_last_release)
{
    struct wf_block *block = wf_block_new(64, WF_MEM_WEIGHTS);

    wf_block_retain(block);
    wf_block_release(block);
    ck_assert_int_eq(wf_pool_stats(WF_MEM_WEIGHTS).live, 64);
    wf_block_release(block);
    ck_assert_int_eq(wf_pool_stats(WF_MEM_WEIGHTS).live, 0);
}

WT_UNIT(pool__the_nth_request_fails_once)
{
    struct wf_block *a, *b, *c;

    wf_pool_fail_nth_request(2);
    a = wf_block_new(64, WF_MEM_WEIGHTS);
    b = wf_block_new(77, WF_MEM_GRADIENTS);
    c = wf_block_new(64, WF_MEM_WEIGHTS);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(b);
    ck_assert_ptr_nonnull(c);
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_MEMORY);
    ck_assert_ptr_nonnull(strstr(weft_error_message(), "77 bytes of gradients"));
    WT_RELEASE(wf_block_release, a, c);
    wf_pool_fail_nth_request(1);
    wf_pool_fail_nth_request(0);
    a = wf_block_new(64, WF_MEM_WEIGHTS);
    ck_assert_ptr_nonnull(a);
    wf_block_release(a);
}

WT_UNIT(pool__an_impossible_size_is_an_error)
{
    ck_assert_ptr_null(wf_block_new(SIZE_MAX, WF_MEM_WEIGHTS));
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_MEMORY);
    ck_assert_ptr_null(wf_block_new((size_t)1 << 50, WF_MEM_WEIGHTS));
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).live, 0);
}

WT_UNIT(pool__trim_gives_back_all_but_what_is_held)
{
    struct wf_block *small = wf_block_new(100, WF_MEM_WEIGHTS),
                    *other = wf_block_new(100, WF_MEM_WEIGHTS);
    struct wf_block *large = wf_block_new((size_t)3 << 20, WF_MEM_WEIGHTS);

    memset(small->data, 7, 100);
    WT_RELEASE(wf_block_release, large, other);
    ck_assert_int_gt(wf_pool_stats(WF_CATEGORIES).cached, 3 << 20);
    wf_pool_trim();
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).cached, 128); /* its slab is in use */
    ck_assert_int_eq(((char *)small->data)[99], 7);
    wf_block_release(small);
    wf_pool_trim();
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).cached, 0);
    small = wf_block_new(100, WF_MEM_WEIGHTS); /* and goes on */
    ck_assert_ptr_nonnull(small);
    wf_block_release(small);
}

WT_UNIT(pool__large_blocks_lie_on_huge_pages_when_the_knob_says_so)
{
    struct wf_block *block;

    wf_knobs.huge_pages = 1;
    block = wf_block_new((size_t)5 << 20, WF_MEM_WEIGHTS);
    ck_assert_uint_eq((uintptr_t)block->data % ((size_t)2 << 20), 0);
    memset(block->data, 3, (size_t)block->capacity);
    wf_block_release(block);
    wf_pool_trim();
    wf_knobs.huge_pages = 0;
    block = wf_block_new((size_t)5 << 20, WF_MEM_WEIGHTS);
    memset(block->data, 3, (size_t)block->capacity);
    wf_block_release(block);
}

WT_UNIT(pool__finalize_with_a_held_block_keeps_it_usable)
{
    struct wf_block *block = wf_block_new(100, WF_MEM_WEIGHTS);

    wf_pool_finalize();
    memset(block->data, 1, 100);
    wf_block_release(block);
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).live, 0);
}

/* ---- the shared source ---- */

struct arena {
    char *base;
    size_t bytes, used;
    int unmapped;
};

static void *arena_map(void *self, size_t bytes)
{
    struct arena *arena = self;

    if (arena->bytes - arena->used < bytes) return NULL;
    arena->used += bytes;
    return arena->base + arena->used - bytes;
}

static void arena_unmap(void *self, void *p, size_t bytes)
{
    struct arena *arena = self;

    (void)p;
    (void)bytes;
    arena->unmapped++;
}

static bool in_arena(const struct arena *arena, const void *p)
{
    return (const char *)p >= arena->base && (const char *)p < arena->base + arena->bytes;
}

static struct wf_mem_source source_of(struct arena *arena, size_t bytes)
{
    *arena = (struct arena){.base = aligned_alloc(4096, bytes), .bytes = bytes};
    return (struct wf_mem_source){arena_map, arena_unmap, arena};
}

WT_UNIT(pool__only_communication_is_taken_from_the_shared_source)
{
    struct arena arena;
    struct wf_mem_source source = source_of(&arena, (size_t)4 << 20);
    struct wf_block *comm, *weights;

    wf_pool_set_shared_source(&source);
    comm = wf_block_new(100, WF_MEM_COMM);
    weights = wf_block_new(100, WF_MEM_WEIGHTS);
    ck_assert(comm->list == WF_BLOCKS_SHARED && in_arena(&arena, comm->data));
    ck_assert(weights->list == WF_BLOCKS_PRIVATE && !in_arena(&arena, weights->data));
    wf_block_recategorize(comm, WF_MEM_ACTIVATIONS);
    WT_RELEASE(wf_block_release, comm, weights);
    comm = wf_block_new(100, WF_MEM_COMM);
    ck_assert(in_arena(&arena, comm->data));
    wf_block_release(comm);
    wf_pool_set_shared_source(NULL);
    ck_assert_int_eq(arena.unmapped, 1);
    free(arena.base);
}

WT_UNIT(pool__a_full_source_falls_back_to_private_memory)
{
    struct arena arena;
    struct wf_mem_source source = source_of(&arena, (size_t)1 << 20);
    struct wf_block *first, *second;
    int64_t calls;

    wf_pool_set_shared_source(&source);
    first = wf_block_new((size_t)900 << 10, WF_MEM_COMM);
    second = wf_block_new((size_t)900 << 10, WF_MEM_COMM);
    ck_assert_int_eq(first->list, WF_BLOCKS_SHARED);
    ck_assert_ptr_nonnull(second);
    ck_assert_int_eq(second->list, WF_BLOCKS_PRIVATE);
    wf_block_release(second);
    calls = wf_pool_system_calls();
    second = wf_block_new((size_t)900 << 10, WF_MEM_COMM);
    ck_assert_int_eq(wf_pool_system_calls(), calls);
    WT_RELEASE(wf_block_release, first, second);
    wf_pool_set_shared_source(NULL);
    free(arena.base);
}

WT_UNIT(pool__a_block_that_outlives_its_source_is_never_used_again)
{
    struct arena arena;
    struct wf_mem_source source = source_of(&arena, (size_t)4 << 20);
    struct wf_block *old, *new;

    wf_pool_set_shared_source(&source);
    old = wf_block_new(100, WF_MEM_COMM);
    wf_block_release(wf_block_new(100, WF_MEM_COMM)); /* idle in the same slab */
    wf_pool_set_shared_source(NULL);
    ck_assert_int_eq(arena.unmapped, 0);
    wf_block_release(old);
    new = wf_block_new(100, WF_MEM_COMM);
    ck_assert(!in_arena(&arena, new->data));
    wf_block_release(new);
    wf_pool_trim();
    ck_assert_int_eq(arena.unmapped, 0);
    ck_assert_int_eq(wf_pool_stats(WF_CATEGORIES).cached, 0);
    free(arena.base);
}

int main(void) { return wt_unit_main_with("pool", begin, begin); }
