/* ptx_engine.cc: what ptx.h declares for C, on the engine and in the stand-in for the CUDA runtime.
 */
#include <string.h>

#include "device_address.h"
#include "engine.h"
#include "trace_hooks.h"
#include "translated.h"

using namespace engine;

static_assert(sizeof(position) == 12 * sizeof(unsigned), "ptx_position has twelve words");

extern "C" {

void ptx_add_kernel(stand_in::translated_kernel *kernel) { stand_in::add_kernel(kernel); }

const unsigned *ptx_position(void) { return reinterpret_cast<const unsigned *>(here); }

void ptx_barrier(const char *function, int place) { barrier({function, place}); }

void ptx_sync_warp(uint32_t mask, const char *function, int place)
{
    sync_warp(mask, {function, place});
}

/* Whether PTX's formula finds a lane inside of the segment. */
static bool in_segment(const shuffle &s, uint32_t lane, uint32_t argument)
{
    uint32_t width = static_cast<uint32_t>(s.width), first = lane & ~(width - 1);

    switch (s.from) {
    case shuffle::index:
        return true;
    case shuffle::exclusive_or:
        return (lane ^ argument) < first + width;
    case shuffle::below:
        return lane + argument < first + width;
    default:
        return lane >= first + argument;
    }
}

static uint32_t this_lane()
{
    const position &p = *here;

    return ((p.thread.z * p.block_size.y + p.thread.y) * p.block_size.x + p.thread.x) & 31;
}

uint32_t ptx_shuffle(int how, uint32_t mask, uint32_t value, uint32_t argument, uint32_t bounds,
                     bool *valid, const char *function, int place)
{
    shuffle s;

    s.name = "shfl.sync";
    s.at = {function, place};
    s.mask = mask;
    s.from = static_cast<enum shuffle::from>(how);
    s.value = value;
    s.argument = static_cast<int>(argument & 31);
    s.width = 32 - static_cast<int>(bounds >> 8 & 31);
    if ((bounds & 31) != (s.from == shuffle::above ? 0 : 31))
        fail("shfl.sync with the bound %u", bounds & 31);
    if (valid) *valid = in_segment(s, this_lane(), argument & 31);
    meet(s);
    return s.value;
}

uint32_t ptx_ballot(uint32_t mask, bool predicate, const char *function, int place)
{
    vote v;

    v.name = "vote.sync";
    v.at = {function, place};
    v.mask = mask;
    v.predicate = predicate;
    meet(v);
    return v.ballot;
}

static void multiply(const char *name, void product(matrix_product &), float *d, const uint32_t *a,
                     const uint32_t *b, place at)
{
    matrix_product m;

    m.name = name;
    m.at = at;
    memcpy(m.a, a, sizeof m.a);
    memcpy(m.b, b, sizeof m.b);
    memcpy(m.d, d, sizeof m.d);
    product(m);
    if (ptx_tracing) access_trace::note_product();
    memcpy(d, m.d, sizeof m.d);
}

void ptx_mma_bf16(float *d, const uint32_t *a, const uint32_t *b, const char *function, int place)
{
    multiply("mma.sync (bf16)", multiply_bf16, d, a, b, {function, place});
}

void ptx_mma_f16(float *d, const uint32_t *a, const uint32_t *b, const char *function, int place)
{
    multiply("mma.sync (f16)", multiply_f16, d, a, b, {function, place});
}

void ptx_ldmatrix(uint32_t *r, const void *row, int transposed, const char *function, int place)
{
    matrix_load m;

    m.name = "ldmatrix.sync";
    m.at = {function, place};
    m.row = row;
    m.transposed = transposed != 0;
    meet(m);
    memcpy(r, m.result, sizeof m.result);
}

void ptx_copy_async(void *to, const void *from) { copy_async(to, from); }
void ptx_copy_commit(void) { copy_commit(); }
void ptx_copy_wait(int newest) { copy_wait(newest); }
void ptx_fence(void) { fence(); }

uint32_t ptx_atomic_add_u32(void *p, uint32_t value)
{
    uint32_t before;

    before_atomic(p);
    before = __atomic_fetch_add(static_cast<uint32_t *>(p), value, __ATOMIC_RELAXED);
    after_atomic(p);
    return before;
}

uint64_t ptx_atomic_add_u64(void *p, uint64_t value)
{
    uint64_t before;

    before_atomic(p);
    before = __atomic_fetch_add(static_cast<uint64_t *>(p), value, __ATOMIC_RELAXED);
    after_atomic(p);
    return before;
}

uint32_t ptx_atomic_max_u32(void *p, uint32_t value)
{
    uint32_t *at = static_cast<uint32_t *>(p), before;

    before_atomic(p);
    before = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (before < value && !__atomic_compare_exchange_n(at, &before, value, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    after_atomic(p);
    return before;
}

uint32_t ptx_shared(shared_array *array) { return shared_address(shared_memory(*array)); }
uint32_t ptx_dynamic_shared(void) { return shared_address(dynamic_shared_memory()); }

void *ptx_shared_at(uint32_t address, size_t bytes, int number)
{
    if (ptx_tracing) access_trace::note_shared(address, bytes, number);
    if (address & (bytes - 1)) fail("%zu bytes at the shared address %u", bytes, address);
    return shared_at(address, bytes);
}

void *ptx_find_global(uint64_t address, size_t bytes, int number)
{
    if (ptx_tracing) access_trace::note_global(address, bytes, number);
    return stand_in::global_at(address, bytes);
}

void ptx_trap(void) { fail("a kernel traps"); }

void ptx_misaligned(uint64_t address, size_t bytes)
{
    fail("%zu bytes at the address %llx", bytes, static_cast<unsigned long long>(address));
}
}
