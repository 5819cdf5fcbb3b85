/* say.h: complaints, and the one that ends the program. */
#pragma once

#include <stddef.h>

/** "PROGRAM: ..." on stderr, by rank 0 only: for what every rank knows alike, and what it alone has
 * read. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/** Zeroed memory. A rank that gets none ends the whole job: the others cannot go on without it. */
void *room_for(size_t count, size_t size);
