/* slice_writer.c: a buffer in front of pwrite. */
#include "io/slice_writer.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/file_write.h"
#include "tensor/host_copy.h"

enum { BUFFER_BYTES = 1 << 20 };

void wf_slice_writer_open(struct wf_slice_writer *w, int fd, const char *path)
{
    *w = (struct wf_slice_writer){.fd = fd, .path = path, .buffer = wf_malloc(BUFFER_BYTES)};
}

void wf_slice_writer_close(struct wf_slice_writer *w)
{
    wf_free(w->buffer);
    w->buffer = NULL;
}

static weft_status flush_buffer(struct wf_slice_writer *w)
{
    size_t count = w->filled;

    w->filled = 0;
    return count ? wf_file_write_at(w->fd, w->path, w->buffer, count, w->at) : WEFT_OK;
}

static weft_status put_bytes_in_buffer(int64_t offset, const void *bytes, size_t count,
                                       void *payload)
{
    struct wf_slice_writer *w = payload;
    size_t at = w->base + (size_t)offset;

    if (w->filled && (at != w->at + w->filled || w->filled + count > BUFFER_BYTES))
        WF_TRY(flush_buffer(w));
    if (count > BUFFER_BYTES / 2) return wf_file_write_at(w->fd, w->path, bytes, count, at);
    if (!w->filled) w->at = at;
    memcpy(w->buffer + w->filled, bytes, count);
    w->filled += count;
    return WEFT_OK;
}

weft_status wf_slice_writer_write(struct wf_slice_writer *w, size_t base, const weft_tensor *t,
                                  const struct wf_local_runs *local,
                                  const struct wf_file_slice *piece)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *host = wf_tensor_on_host((weft_tensor *)(uintptr_t)t, "save");
    weft_status status = weft_error_status();

    w->base = base;
    if (host) status = wf_file_slice_write(host, local, piece, put_bytes_in_buffer, w);
    weft_scope_close(scope);
    WF_TRY(status);
    return flush_buffer(w);
}
