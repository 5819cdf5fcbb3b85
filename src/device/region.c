/*
 * region.c: mapping and unmapping. It decides alignment and huge pages; what blocks are made of a
 * region and when it goes is pool.c's business.
 */
#include "device/region.h"

#include <sys/mman.h>

#include "base/mem.h"
#include "base/settings/knob.h"

static const size_t HUGE_PAGE = (size_t)2 << 20;

static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* The kernel makes huge pages of aligned pieces only: map more and cut the ends off. The advice
 * stops at the last whole huge page, so that the tail commits no more than it uses. */
static void *map_huge(size_t bytes)
{
    char *p = map_pages(bytes + HUGE_PAGE);
    size_t head;

    if (!p) return NULL;
    head = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (head) munmap(p, head);
    munmap(p + head + bytes, HUGE_PAGE - head);
    /* A kernel without huge pages refuses, and the block works all the same. */
    (void)madvise(p + head, bytes - bytes % HUGE_PAGE, MADV_HUGEPAGE);
    return p + head;
}

struct wf_region *wf_region_map(size_t bytes, const struct wf_mem_source *source)
{
    struct wf_region *region;
    void *p;

    bytes = (bytes + 4095) & ~(size_t)4095;
    if (source)
        p = source->map(source->self, bytes);
    else
        p = bytes >= HUGE_PAGE && wf_knobs.huge_pages ? map_huge(bytes) : map_pages(bytes);
    if (!p) return NULL;
    region = WF_NEW(struct wf_region);
    region->base = p;
    region->bytes = bytes;
    region->shared = source != NULL;
    return region;
}

void wf_region_unmap(struct wf_region *region, const struct wf_mem_source *source)
{
    if (!region->shared)
        munmap(region->base, region->bytes);
    else if (!region->orphan && source->unmap)
        source->unmap(source->self, region->base, region->bytes);
    wf_free(region);
}

void *wf_region_carve(struct wf_region *region, size_t bytes)
{
    char *p = region->base + region->used;

    if (region->bytes - region->used < bytes) return NULL;
    region->used += bytes;
    region->blocks++;
    return p;
}
