/*
 * region.c: mapping and unmapping. It decides alignment and huge pages; what blocks are made of a
 * region and when it goes is pool_regions.c's business.
 */
#include "device/region.h"

#include <sys/mman.h>

#include "base/mem.h"
#include "base/settings/knob.h"
#include "device/device.h"

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

static void *map_private(size_t bytes)
{
    return bytes >= HUGE_PAGE && wf_knobs.huge_pages ? map_huge(bytes) : map_pages(bytes);
}

struct wf_region *wf_region_map(size_t bytes, enum wf_block_list list,
                                const struct wf_mem_source *source)
{
    struct wf_region *region;
    void *p;

    bytes = (bytes + 4095) & ~(size_t)4095;
    p = list == WF_BLOCKS_DEVICE ? wf_device_driver->map(bytes)
        : source                 ? source->map(source->self, bytes)
                                 : map_private(bytes);
    if (!p) return NULL;
    region = WF_NEW(struct wf_region);
    region->base = p;
    region->bytes = bytes;
    region->list = list;
    region->from_source = source != NULL;
    region->pinned = list == WF_BLOCKS_PINNED && wf_device_driver->pin(p, bytes);
    return region;
}

void wf_region_unpin(struct wf_region *region)
{
    if (region->pinned && wf_device_driver) wf_device_driver->unpin(region->base, region->bytes);
    region->pinned = false;
}

/* Without a driver, memory of the device went with it: a tensor was held over weft_finalize. */
void wf_region_unmap(struct wf_region *region, const struct wf_mem_source *source)
{
    wf_region_unpin(region);
    if (region->list == WF_BLOCKS_DEVICE) {
        if (wf_device_driver) wf_device_driver->unmap(region->base, region->bytes);
    } else if (!region->from_source) {
        munmap(region->base, region->bytes);
    } else if (!region->orphan && source->unmap) {
        source->unmap(source->self, region->base, region->bytes);
    }
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
