/*
 * through_host.c: a kernel of the CPU for operands on a device: inputs are copied to the host,
 * outputs back. Slow, and said so in the log; ops that a program registers have no other.
 */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/capture.h"
#include "device/device.h"
#include "device/pool.h"
#include "kernels/device_kernels.h"

enum { MOST_WARNED = 64 };

/* The bytes between the first and the last element of an operand. */
struct span {
    size_t bytes;
    bool gaps; /* not all of them are its elements */
};

struct through_host {
    struct wf_kernel_call host; /* the call that the CPU's kernel prepared */
    struct span in[WF_MAX_IN], out[WF_MAX_OUT];
};

static struct span span_of(const struct wf_tensor_desc *desc)
{
    int64_t last = 0;

    if (!desc || desc->numel == 0) return (struct span){0};
    for (int d = 0; d < desc->ndim; d++) last += (desc->shape[d] - 1) * desc->stride[d];
    return (struct span){(size_t)(last + 1) * wf_dtypes[desc->dtype].size, last + 1 != desc->numel};
}

/* Other ranks may be in a collective already: without memory the job ends. */
static struct wf_block *new_host_block(const struct wf_kernel_call *k, size_t bytes)
{
    struct wf_block *block = wf_block_new(bytes, WF_MEM_ACTIVATIONS);

    if (!block) WF_DIE("%s: %s", k->op, weft_error_message());
    return block;
}

static struct wf_block *copy_to_host(const struct wf_kernel_call *k, const void *data,
                                     struct span span, bool filled)
{
    struct wf_block *block = new_host_block(k, span.bytes);

    if (filled) wf_device_download(WEFT_CUDA, block->data, data, span.bytes, k->op);
    return block;
}

static void run_through_host(const struct wf_kernel_call *k, void *const *out,
                             const void *const *in, const struct wf_scalars *scalars)
{
    const struct through_host *p = k->prep;
    struct wf_block *from[WF_MAX_IN] = {0}, *to[WF_MAX_OUT] = {0};
    const void *host_in[WF_MAX_IN] = {0};
    void *host_out[WF_MAX_OUT] = {0};

    if (wf_capture_of_thread)
        wf_capture_leave("%s has no kernel for this GPU and runs on the CPU", k->op);
    for (int i = 0; i < k->n_in; i++)
        if (in[i]) host_in[i] = (from[i] = copy_to_host(k, in[i], p->in[i], true))->data;
    for (int j = 0; j < k->n_out; j++)
        if (k->out[j])
            host_out[j] = (to[j] = copy_to_host(k, out[j], p->out[j], p->out[j].gaps))->data;
    p->host.run(&p->host, host_out, host_in, scalars);
    for (int j = 0; j < k->n_out; j++)
        if (to[j]) wf_device_upload(WEFT_CUDA, out[j], to[j]->data, p->out[j].bytes);
    for (int i = 0; i < k->n_in; i++)
        if (from[i]) wf_block_release(from[i]);
    for (int j = 0; j < k->n_out; j++)
        if (to[j]) wf_block_release(to[j]);
}

static void drop_through_host(void *prep)
{
    struct through_host *p = prep;

    wf_kernel_call_drop(&p->host);
    wf_free(p);
}

/* Names of ops live as long as the library, or as the rank that registered them. */
static void warn_once(const char *op, const char *dtype)
{
    static _Thread_local const char *warned[MOST_WARNED];
    int n = 0;

    while (n < MOST_WARNED && warned[n] && warned[n] != op) n++;
    if (n < MOST_WARNED && warned[n] == op) return;
    if (n < MOST_WARNED) warned[n] = op;
    if (wf_log_rank() <= 0)
        WF_LOG(WF_LOG_WARN, "device",
               "%s of %s has no kernel for this GPU: it runs on the CPU, and each call copies its "
               "operands to the host and back",
               op, dtype);
}

weft_status wf_prepare_through_host(wf_kernel_prepare *prepare, struct wf_kernel_call *k)
{
    struct through_host *p = WF_NEW(struct through_host);
    weft_status status;

    p->host = *k;
    status = prepare(&p->host);
    if (status != WEFT_OK) {
        drop_through_host(p);
        return status;
    }
    for (int i = 0; i < k->n_in; i++) p->in[i] = span_of(k->in[i]);
    for (int j = 0; j < k->n_out; j++) p->out[j] = span_of(k->out[j]);
    k->prep = p;
    k->drop = drop_through_host;
    k->run = run_through_host;
    warn_once(k->op, wf_dtypes[k->out[0]->dtype].name);
    return WEFT_OK;
}
