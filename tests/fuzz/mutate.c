/* mutate.c: what is done to an input: bytes and runs of bytes changed, numbers and words of texts
 * replaced by others that are likely to matter. */
#include "fuzz/mutate.h"

#include <ctype.h>
#include <string.h>

size_t fuzz_below(uint64_t *state, size_t count)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return count ? (size_t)(*state % count) : 0;
}

/* Replace `cut` bytes at `at` by others, as far as there is room. */
static void splice(struct fuzz_input *input, size_t at, size_t cut, const void *bytes, size_t count)
{
    size_t rest = input->size - at - cut;

    if (input->size - cut + count > FUZZ_MOST) return;
    memmove(input->bytes + at + count, input->bytes + at + cut, rest);
    if (count) memcpy(input->bytes + at, bytes, count);
    input->size = at + count + rest;
}

/* A place in the input, and how many bytes from there on: few, more often than many. */
static size_t run_at(const struct fuzz_input *input, uint64_t *state, size_t *count)
{
    size_t at = fuzz_below(state, input->size + 1), rest = input->size - at;
    size_t most = fuzz_below(state, 4) ? 12 : 400;

    *count = fuzz_below(state, (rest < most ? rest : most) + 1);
    return at;
}

static void change_byte(struct fuzz_input *input, uint64_t *state)
{
    size_t at = fuzz_below(state, input->size);

    if (!input->size) return;
    if (fuzz_below(state, 2))
        input->bytes[at] ^= (uint8_t)(1u << fuzz_below(state, 8));
    else
        input->bytes[at] = (uint8_t)fuzz_below(state, 256);
}

static void insert_word(struct fuzz_input *input, uint64_t *state)
{
    static const char *const words[] = {
        "{",    "}",  "[",     "]",   ":",     ",",    "\"", "\\u0000", "\\ud800", "\\n", "null",
        "true", ".5", "1e999", "-1",  "[[[[",  "|",    ";",  "+",       "*",       "?",   "#",
        "S(0)", "R",  "P",     "../", "\x1b[", "\xff", "0",  "NaN",     "-0.0",    "\n",  "\t",
    };
    const char *word = words[fuzz_below(state, sizeof words / sizeof *words)];
    size_t cut, at = run_at(input, state, &cut);

    splice(input, at, fuzz_below(state, 2) ? 0 : cut, word, strlen(word));
}

static void drop_run(struct fuzz_input *input, uint64_t *state)
{
    size_t cut, at = run_at(input, state, &cut);

    splice(input, at, cut, NULL, 0);
}

/* A run of the other input, or of this one, to another place. */
static void copy_run(struct fuzz_input *input, const struct fuzz_input *other, uint64_t *state)
{
    uint8_t copy[400];
    size_t count, from = run_at(other, state, &count), cut, at = run_at(input, state, &cut);

    memcpy(copy, other->bytes + from, count);
    splice(input, at, fuzz_below(state, 2) ? cut : 0, copy, count);
}

/* A whole number somewhere in the text becomes another one. */
static void change_number(struct fuzz_input *input, uint64_t *state)
{
    static const char *const numbers[] = {
        "0",     "1",          "2",          "3",          "4",   "7",
        "8",     "16",         "24",         "64",         "255", "1024",
        "65536", "2147483647", "4294967296", "1073741824", "-1",  "9223372036854775807",
    };
    const char *number = numbers[fuzz_below(state, sizeof numbers / sizeof *numbers)];
    size_t at = fuzz_below(state, input->size + 1), end;

    while (at < input->size && !isdigit(input->bytes[at])) at++;
    for (end = at; end < input->size && isdigit(input->bytes[end]);) end++;
    if (end > at) splice(input, at, end - at, number, strlen(number));
}

void fuzz_mutate(struct fuzz_input *input, const struct fuzz_input *other, uint64_t *state)
{
    size_t changes = 1 + fuzz_below(state, 1 + fuzz_below(state, 8));

    for (size_t i = 0; i < changes; i++) {
        switch (fuzz_below(state, 7)) {
        case 0:
            change_byte(input, state);
            break;
        case 1:
            insert_word(input, state);
            break;
        case 2:
            drop_run(input, state);
            break;
        case 3:
            copy_run(input, other, state);
            break;
        case 4:
            copy_run(input, input, state);
            break;
        default:
            change_number(input, state);
        }
    }
}
