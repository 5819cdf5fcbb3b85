/*
 * shared_memory.cc: the shared memory of the block that runs. It holds NaN at first. Between any
 * two arrays lie guard bytes that nobody may write; AddressSanitizer refuses reads of them too.
 * Arrays are aligned to 16 bytes and to no more.
 */
#include <stdlib.h>

#include "multiprocessor.h"
#include "sanitizers.h"

namespace engine
{

const size_t guard_bytes = 64, arrays_from = guard_bytes + 16;
const uint64_t guard_word = 0x7b7b7b7b7b7b7b7b;
/* Every array may cost a guard more. */
const size_t memory_bytes = 2 * most_shared_bytes;

void fill_with_nan(void *p, size_t bytes)
{
    volatile char *c = static_cast<volatile char *>(p);

    for (; bytes >= 8; bytes -= 8, c += 8) *reinterpret_cast<volatile uint64_t *>(c) = ~uint64_t{0};
    for (; bytes; bytes--) *c++ = -1;
}

char *shared_memory_new() { return static_cast<char *>(aligned_alloc(1024, memory_bytes)); }

void shared_memory_free(char *memory)
{
    if (memory) asan_unpoison(memory, memory_bytes);
    free(memory);
}

static char *guard_after(const multiprocessor &m, const placed_array &a)
{
    return m.memory[m.set] + a.offset + ((a.bytes + 15) & ~size_t{15});
}

/* Place an array after those that are there. */
static size_t place_array(multiprocessor &m, const char *name, size_t bytes)
{
    placed_array &a = m.arrays[m.array_count];

    a = {name, arrays_from, bytes};
    if (m.array_count)
        a.offset = static_cast<size_t>(guard_after(m, (&a)[-1]) + guard_bytes - m.memory[m.set]);
    m.used_bytes += (bytes + 15) & ~size_t{15};
    if (m.used_bytes > most_shared_bytes)
        fail("%s: %zu bytes of shared memory are more than 227 KiB", name, m.used_bytes);
    if (++m.array_count == most_arrays) fail("more than %d arrays in shared memory", most_arrays);
    asan_unpoison(m.memory[m.set] + a.offset, bytes);
    fill_with_nan(m.memory[m.set] + a.offset, bytes);
    for (size_t i = 0; i < guard_bytes; i += 8)
        *reinterpret_cast<volatile uint64_t *>(guard_after(m, a) + i) = guard_word;
    return a.offset;
}

void shared_memory_begin_block(multiprocessor &m, size_t dynamic_bytes)
{
    asan_poison(m.memory[m.set], memory_bytes);
    m.array_count = 0;
    m.used_bytes = 0;
    m.dynamic_bytes = dynamic_bytes;
    place_array(m, "dynamic shared memory", dynamic_bytes);
}

void shared_memory_end_block(multiprocessor &m)
{
    for (int k = 0; k < m.array_count; k++) {
        const placed_array &a = m.arrays[k];

        for (size_t i = 0; i < guard_bytes; i += 8)
            if (*reinterpret_cast<volatile uint64_t *>(guard_after(m, a) + i) != guard_word)
                fail("shared memory was written behind the %zu bytes of %s", a.bytes, a.name);
    }
}

void *shared_memory(shared_array &array)
{
    multiprocessor &m = this_multiprocessor();

    if (array.block != m.block) {
        array.offset = place_array(m, array.name, array.bytes);
        array.block = m.block;
    }
    return m.memory[m.set] + array.offset;
}

void *dynamic_shared_memory()
{
    multiprocessor &m = this_multiprocessor();

    return m.memory[m.set] + arrays_from;
}

uint32_t shared_address(const void *p)
{
    const multiprocessor &m = this_multiprocessor();
    ptrdiff_t offset = static_cast<const char *>(p) - m.memory[m.set];

    if (offset < 0 || static_cast<size_t>(offset) >= memory_bytes)
        fail("an address that is not in shared memory");
    return static_cast<uint32_t>(offset);
}

void *shared_at(uint32_t address, size_t bytes)
{
    const multiprocessor &m = this_multiprocessor();

    for (int k = 0; k < m.array_count; k++) {
        const placed_array &a = m.arrays[k];

        if (address >= a.offset && address + bytes <= a.offset + a.bytes)
            return m.memory[m.set] + address;
    }
    fail("%zu bytes of shared memory that belong to no array", bytes);
}

} // namespace engine
