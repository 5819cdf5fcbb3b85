/* printable.h: bytes that a model wrote, as text that any terminal can show. */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum { CHARACTER_MAX = 4 }; /* bytes of one in UTF-8 */

/** A character's bytes may come one by one: those of one that is not whole yet wait in `bytes`. */
struct printable {
    FILE *out;
    unsigned char bytes[CHARACTER_MAX];
    int count, expected; /* expected: of the whole character; 0 when none is begun */
};

/** Print what is whole. Characters, tabs and ends of lines are printed as they are; a '?' stands
 * for every other control character and for every byte or begun character that is not UTF-8. */
void printable_write(struct printable *p, const void *bytes, size_t count);

/** At the end of a text: a '?' for a character that was left incomplete. */
void printable_end(struct printable *p);
