/* mutate.h: inputs made from inputs, the same ones for the same seed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fuzz_input {
    uint8_t *bytes; /* room for FUZZ_MOST */
    size_t size;
};

enum { FUZZ_MOST = 1 << 14 };

/** A number below `count`, from a state that is never 0. */
size_t fuzz_below(uint64_t *state, size_t count);

/** Change `input` in one to eight ways; `other` is what parts of it may be replaced by. */
void fuzz_mutate(struct fuzz_input *input, const struct fuzz_input *other, uint64_t *state);
