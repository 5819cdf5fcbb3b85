/* both_devices.h: one call on the CPU's kernels and on CUDA's, on the same operands; see cases.h.
 */
#pragma once

#include "kernels/cases.h"

#define WF_KERNEL(name, devices) wf_kernel_prepare wf_cuda_##name;
#include "kernels/kernels.def"
#undef WF_KERNEL

struct kernel {
    const char *name;
    wf_kernel_prepare *cpu, *cuda;
};
#define KERNEL(name)                                                                               \
    {                                                                                              \
#name, wf_cpu_##name, wf_cuda_##name                                                       \
    }

/** y[1] is what the CPU gives. */
static inline void run_both(const struct kernel *kernel, struct operand *y, int n_in,
                            struct operand *const *in, const union wf_op_attrs *attrs,
                            const struct wf_scalars *scalars)
{
    for (int cpu = 0; cpu < 2; cpu++) {
        struct wf_kernel_call k = {.op = kernel->name, .n_in = n_in, .n_out = 1, .attrs = attrs};

        kernel_run(cpu ? kernel->cpu : kernel->cuda, &k, &(struct operand *){&y[cpu]}, in, scalars);
    }
}

/** Bytes between and around the elements too: the poison is untouched. */
static inline void expect_same_bits(const struct operand *y, const char *what)
{
    const struct wf_tensor_desc *d = &y->desc;
    size_t bytes = operand_bytes(d) + 2 * GUARD_BYTES;

    for (int i = 0; i < 2; i++) UNGUARD(y[i].memory, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (y[0].memory[i] != y[1].memory[i])
            ck_abort_msg("%s of %s: byte %lld is %02x, the CPU's is %02x", what,
                         wf_dtypes[d->dtype].name, (long long)i - GUARD_BYTES,
                         (unsigned char)y[0].memory[i], (unsigned char)y[1].memory[i]);
}

static inline void both_operands_free(struct operand *y)
{
    operand_free(&y[0]);
    operand_free(&y[1]);
}
