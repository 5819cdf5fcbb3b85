/* say.c: one voice for all ranks. */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/mesh.h>

void complain(const char *format, ...)
{
    va_list list;

    if (weft_world_rank() != 0) return;
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

void *room_for(size_t count, size_t size)
{
    void *room = calloc(count ? count : 1, size);

    if (room) return room;
    fprintf(stderr, "%s: no memory for %zu bytes on rank %d\n", program_invocation_short_name,
            count * size, weft_world_rank());
    abort();
}
