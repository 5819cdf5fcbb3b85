/* device_kernels.c: the CPU's kernels by number, and which device's are taken. */
#include "kernels/device_kernels.h"

#include "base/error.h"
#include "base/mem.h"
#include "device/device.h"
#include "kernels/cpu/threads/split.h"

static wf_kernel_prepare *const cpu_kernels[WF_KERNEL_COUNT] = {
#define WF_KERNEL(name, devices) [WF_KERNEL_##name] = wf_cpu_##name,
#include "kernels/kernels.def"
#undef WF_KERNEL
};

static const struct wf_device_kernels *kernels_of_rank(void)
{
    const struct wf_device_kernels *kernels = wf_device_library()->kernels;

    if (kernels->count != WF_KERNEL_COUNT)
        WF_DIE("the CUDA part has %d kernels, this library %d: it was built for another version of "
               "Weft",
               kernels->count, (int)WF_KERNEL_COUNT);
    return kernels;
}

weft_status wf_prepare_kernel_on(weft_device device, enum wf_kernel kernel,
                                 struct wf_kernel_call *k)
{
    struct wf_kernel_call as_given = *k;
    wf_kernel_prepare *prepare;
    weft_status status;

    if (device != WEFT_CUDA) return wf_prepare_on_threads(kernel, cpu_kernels[kernel], k);
    prepare = kernels_of_rank()->prepare[kernel];
    if (prepare) {
        status = prepare(k);
        if (status != WEFT_ERR_DTYPE) return status;
        wf_kernel_call_drop(k); /* prepared until it found that there is none for these dtypes */
        weft_error_clear();
        *k = as_given;
    }
    return wf_prepare_through_host(cpu_kernels[kernel], k);
}

const struct wf_optimizer_kernels *wf_optimizer_kernels_on(weft_device device)
{
    return device == WEFT_CUDA ? kernels_of_rank()->optimizer : &wf_cpu_optimizer_kernels;
}
