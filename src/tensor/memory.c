/* memory.c: bytes of tensors by category. */
#include "tensor/memory.h"

#include "base/error.h"
#include "device/pool.h"
#include "tensor/tensor.h"

static bool is_memory_category(weft_memory_category category)
{
    return (unsigned)category <= WEFT_MEMORY_CATEGORIES;
}

weft_memory weft_memory_on(weft_device device, weft_memory_category category)
{
    struct wf_pool_stats stats = {0};

    if (is_memory_category(category) && (unsigned)device < WEFT_DEVICES)
        stats = wf_pool_stats_on(device, (enum wf_category)category);
    return (weft_memory){stats.live, stats.peak, stats.cached};
}

weft_memory weft_memory_of(weft_memory_category category)
{
    return weft_memory_on(WEFT_CPU, category);
}

weft_memory weft_memory_simulated(weft_memory_category category)
{
    return weft_memory_on(WEFT_META, category);
}

void weft_memory_reset_peak(void) { wf_pool_reset_peak(); }

void weft_memory_trim(void) { wf_pool_trim(); }

const char *wf_memory_category_name(int category)
{
    static const char *const names[] = {"weights",     "gradients",     "optimizer",
                                        "activations", "communication", "all"};

    return names[category];
}

static void print_memory_on(weft_device device, const char *title, FILE *out)
{
    fprintf(out, "%-14s %12s %12s  MiB\n", title, "live", "peak");
    for (int c = 0; c <= WEFT_MEMORY_CATEGORIES; c++) {
        weft_memory m = weft_memory_on(device, (weft_memory_category)c);

        fprintf(out, "%-14s %12.2f %12.2f\n", wf_memory_category_name(c), (double)m.live / 1048576,
                (double)m.peak / 1048576);
    }
}

void weft_print_memory(FILE *out)
{
    WF_NEED_VOID(out, WEFT_ERR_ARG, "memory print: no file");
    print_memory_on(WEFT_CPU, "memory", out);
    if (weft_memory_on(WEFT_CUDA, WEFT_MEMORY_CATEGORIES).peak)
        print_memory_on(WEFT_CUDA, "GPU memory", out);
}

weft_tensor *weft_memory_count_as(weft_tensor *t, weft_memory_category category)
{
    WF_TRY_PTR(wf_tensor_need_alive(t, "memory_count_as"));
    if (t && category < WEFT_MEMORY_CATEGORIES)
        wf_block_recategorize(t->block, (enum wf_category)category);
    return t;
}
