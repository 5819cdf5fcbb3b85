/*
 * async_copies.cc: asynchronous copies to shared memory happen as late as the kernel allows: in the
 * wait that names their group. From the start of the copy until then the target is NaN, since a
 * copy may also arrive early.
 */
#include "multiprocessor.h"
#include "sanitizers.h"

namespace engine
{

enum { most_copies = 256, most_groups = 32, copy_bytes = 16 };

struct async_copies {
    struct {
        void *to;
        const void *from;
    } of[most_copies];
    int count, groups;
    int end[most_groups]; /* of each committed group, in `of` */
};

void async_copies_free(async_copies *copies) { delete copies; }

void async_copies_forget(async_copies *copies) { copies->count = copies->groups = 0; }

static async_copies &of_running_thread()
{
    thread *t = this_multiprocessor().running;

    if (!t->copies) t->copies = new async_copies();
    return *t->copies;
}

static void copy_now(void *to, const void *from)
{
    const volatile uint64_t *words = static_cast<const volatile uint64_t *>(from);

    for (int i = 0; i < copy_bytes / 8; i++) static_cast<volatile uint64_t *>(to)[i] = words[i];
}

void copy_async(void *to, const void *from)
{
    async_copies &copies = of_running_thread();

    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) & (copy_bytes - 1))
        fail("an asynchronous copy at addresses that 16 does not divide");
    shared_at(shared_address(to), copy_bytes);
    if (asan_poisoned(from, copy_bytes)) fail("an asynchronous copy reads out of bounds");
    tsan_read(from, copy_bytes);
    tsan_write(to, copy_bytes);
    fill_with_nan(to, copy_bytes);
    if (copies.count == most_copies)
        fail("more than %d asynchronous copies on their way", most_copies);
    copies.of[copies.count++] = {to, from};
}

void copy_commit()
{
    async_copies &copies = of_running_thread();

    if (copies.groups == most_groups)
        fail("more than %d groups of asynchronous copies", most_groups);
    copies.end[copies.groups++] = copies.count;
}

void copy_wait(int newest)
{
    async_copies &copies = of_running_thread();
    int arrived = copies.groups - newest, count;

    if (arrived <= 0) return;
    count = copies.end[arrived - 1];
    for (int i = 0; i < count; i++) {
        tsan_read(copies.of[i].from, copy_bytes);
        tsan_write(copies.of[i].to, copy_bytes);
        copy_now(copies.of[i].to, copies.of[i].from);
    }
    for (int i = count; i < copies.count; i++) copies.of[i - count] = copies.of[i];
    for (int i = arrived; i < copies.groups; i++) copies.end[i - arrived] = copies.end[i] - count;
    copies.count -= count;
    copies.groups -= arrived;
}

} // namespace engine
