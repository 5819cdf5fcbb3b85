/* slice_writer.h: writes this rank's elements of a tensor into an open file, in few large writes
 * where they are contiguous. */
#pragma once

#include "io/file_slices.h"

struct wf_slice_writer {
    int fd;
    const char *path;
    size_t base; /* offset of the piece's first element in the file */
    char *buffer;
    size_t filled, at; /* buffered bytes, and where they belong */
};

void wf_slice_writer_open(struct wf_slice_writer *w, int fd, const char *path);
/** Write, and flush the buffer. fails: WEFT_ERR_IO, on this rank alone */
weft_status wf_slice_writer_write(struct wf_slice_writer *w, size_t base, const weft_tensor *t,
                                  const struct wf_local_runs *runs,
                                  const struct wf_file_slice *piece);
void wf_slice_writer_close(struct wf_slice_writer *w);
