/* writing.c: a buffer in front of pwrite. */
#include "io/writing.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/file_write.h"

enum { BUFFER_BYTES = 1 << 20 };

void wf_writing_begin(struct wf_writing *w, int fd, const char *path)
{
    *w = (struct wf_writing){.fd = fd, .path = path, .buffer = wf_malloc(BUFFER_BYTES)};
}

void wf_writing_end(struct wf_writing *w)
{
    wf_free(w->buffer);
    w->buffer = NULL;
}

static weft_status flush(struct wf_writing *w)
{
    size_t count = w->filled;

    w->filled = 0;
    return count ? wf_file_put(w->fd, w->path, w->buffer, count, w->at) : WEFT_OK;
}

static weft_status put(int64_t offset, const void *bytes, size_t count, void *payload)
{
    struct wf_writing *w = payload;
    size_t at = w->base + (size_t)offset;

    if (w->filled && (at != w->at + w->filled || w->filled + count > BUFFER_BYTES))
        WF_TRY(flush(w));
    if (count > BUFFER_BYTES / 2) return wf_file_put(w->fd, w->path, bytes, count, at);
    if (!w->filled) w->at = at;
    memcpy(w->buffer + w->filled, bytes, count);
    w->filled += count;
    return WEFT_OK;
}

weft_status wf_writing_piece(struct wf_writing *w, size_t base, const weft_tensor *t,
                             const struct wf_held *held, const struct wf_piece *piece)
{
    w->base = base;
    WF_TRY(wf_piece_write(t, held, piece, put, w));
    return flush(w);
}
