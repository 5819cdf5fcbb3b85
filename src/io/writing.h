/* writing.h: putting this rank's share of a tensor into an open file, few large writes where the
 * elements lie together. */
#pragma once

#include "io/slices.h"

struct wf_writing {
    int fd;
    const char *path;
    size_t base; /* offset of the piece's first element in the file */
    char *buffer;
    size_t filled, at; /* buffered bytes, and where they belong */
};

void wf_writing_begin(struct wf_writing *w, int fd, const char *path);
/** What is buffered goes out, too. fails: WEFT_ERR_IO, on this rank alone */
weft_status wf_writing_piece(struct wf_writing *w, size_t base, const weft_tensor *t,
                             const struct wf_held *held, const struct wf_piece *piece);
void wf_writing_end(struct wf_writing *w);
