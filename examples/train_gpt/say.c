/* say.c: one voice for all ranks. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/mesh.h>

void complain(const char *format, ...)
{
    va_list list;

    if (weft_world_rank() != 0) return;
    fputs("train_gpt: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

void *room_for(size_t count, size_t size)
{
    void *room = calloc(count, size);

    if (room) return room;
    fprintf(stderr, "train_gpt: no memory for %zu bytes on rank %d\n", count * size,
            weft_world_rank());
    abort();
}
