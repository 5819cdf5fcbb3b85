/*
 * broadcast_batch.c: named tensors that one rank of a line has, on all of them: a header that says
 * what comes, and then all elements, one tensor after another. Two broadcasts, however many
 * tensors.
 *
 * Whether the root can send at all is in the header, so that all ranks refuse together.
 */
#include <weft/extend/collective.h>

#include <string.h>

#include <weft/autograd.h>
#include <weft/ops.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

/* An entry in the header. */
enum { KEY, DTYPE, NDIM, SIZES, WORDS = SIZES + WEFT_MAX_DIMS };
enum { MISSING = -1 }; /* a dtype */
enum { ALIGNMENT = 64 };

static int64_t hash_entry_key(const char *key) { return (int64_t)wf_hash_bytes(key, strlen(key)); }

static void describe_entry(int64_t *words, const weft_batch_entry *entry)
{
    const weft_tensor *t = entry->tensor;

    words[DTYPE] = t && wf_is_plain(t) && !wf_is_meta(t) ? (int64_t)weft_tensor_dtype(t) : MISSING;
    if (words[DTYPE] == MISSING) return;
    words[NDIM] = weft_ndim(t);
    for (int d = 0; d < weft_ndim(t); d++) words[SIZES + d] = weft_size(t, d);
}

static int64_t padded_entry_bytes(const int64_t *words)
{
    int64_t bytes = (int64_t)weft_dtype_size((weft_dtype)words[DTYPE]);

    for (int d = 0; d < words[NDIM]; d++) bytes *= words[SIZES + d];
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Broadcasts the root's header; `*bytes` is the number of bytes that follow. */
static weft_status check_batch_header(int64_t *words, int64_t *bytes, const weft_batch_entry *batch,
                                      int n)
{
    *bytes = 0;
    for (int i = 0; i < n; i++, words += WORDS) {
        if (words[KEY] != hash_entry_key(batch[i].key))
            WF_DIE("broadcast_batch: entry %d is '%s' here and another one on the root", i,
                   batch[i].key);
        WF_NEED(words[DTYPE] != MISSING, WEFT_ERR_ARG,
                "broadcast_batch: the root has no plain tensor for '%s'", batch[i].key);
        *bytes += padded_entry_bytes(words);
    }
    return WEFT_OK;
}

/* Other ranks may be in the collective already: out of memory ends the job. */
static weft_tensor *need_tensor_or_die(weft_tensor *t)
{
    if (!t) WF_DIE("broadcast_batch: %s", weft_error_message());
    return t;
}

/* Pack the root's elements into the buffer. */
static void pack_batch_tensors(weft_tensor *buffer, const int64_t *words,
                               const weft_batch_entry *batch, int n)
{
    char *at = buffer->data;

    for (int i = 0; i < n; i++, words += WORDS) {
        weft_tensor *t = need_tensor_or_die(weft_contiguous(batch[i].tensor));
        int64_t used, room = padded_entry_bytes(words);

        wf_wait_ready(t);
        used = weft_numel(t) * (int64_t)weft_dtype_size(weft_tensor_dtype(t));
        wf_device_download(wf_device_of(t), at, t->data, (size_t)used, "broadcast_batch");
        memset(at + used, 0, (size_t)(room - used));
        at += room;
    }
}

/* Views of the buffer, for ranks other than the root. */
static void unpack_batch_tensors(weft_batch_entry *batch, int n, weft_tensor *buffer,
                                 const int64_t *words)
{
    char *at = buffer->data;

    for (int i = 0; i < n; i++, words += WORDS) {
        struct wf_layout *layout = wf_layout_new(NULL, NULL, (weft_dtype)words[DTYPE],
                                                 words + SIZES, NULL, (int)words[NDIM]);

        batch[i].tensor = wf_tensor_new(layout, wf_block_retain(buffer->block), at, "batch");
        wf_layout_release(layout);
        at += padded_entry_bytes(words);
    }
}

static weft_status broadcast_header_and_data(weft_batch_entry *batch, int n, weft_mesh *mesh,
                                             int axis, int root)
{
    weft_tensor *header = need_tensor_or_die(weft_full(WEFT_I64, (int64_t[]){n, WORDS}, 2, 0)),
                *buffer;
    bool there = mesh && weft_mesh_is_member(mesh) && axis >= 0 && axis < weft_mesh_ndim(mesh);
    bool mine = there && weft_mesh_coordinate(mesh, axis) == root;
    int64_t *words, bytes;

    words = header->data;
    for (int i = 0; i < n && mine; i++) {
        words[i * WORDS + KEY] = hash_entry_key(batch[i].key);
        describe_entry(words + i * WORDS, &batch[i]);
    }
    WF_TRY(weft_mesh_broadcast(header, mesh, axis, root));
    WF_TRY(check_batch_header(words, &bytes, batch, n));
    buffer = need_tensor_or_die(weft_empty(WEFT_U8, &bytes, 1));
    if (mine) pack_batch_tensors(buffer, words, batch, n);
    WF_TRY(weft_mesh_broadcast(buffer, mesh, axis, root));
    if (!mine) unpack_batch_tensors(batch, n, buffer, words);
    return WEFT_OK;
}

weft_status weft_mesh_broadcast_batch(weft_batch_entry *batch, int n, weft_mesh *mesh, int axis,
                                      int root)
{
    weft_device before;
    weft_status status;

    WF_NEED(n >= 0 && (batch || n == 0), WEFT_ERR_ARG, "broadcast_batch: no batch");
    for (int i = 0; i < n; i++)
        WF_NEED(batch[i].key, WEFT_ERR_ARG, "broadcast_batch: entry %d has no key", i);
    mesh = wf_mesh_or_current(mesh);
    before = weft_set_default_device(WEFT_CPU);
    weft_no_grad_open();
    status = broadcast_header_and_data(batch, n, mesh, axis, root);
    weft_no_grad_close();
    weft_set_default_device(before);
    return status;
}
