/*
 * device_memory.cc: device memory as addresses that nobody on the host can touch. A device pointer
 * lies in a range that is only reserved; its byte is `behind` further. Copies and translated
 * kernels go there, the host that follows the pointer crashes with a sentence. Every allocation
 * ends at the end of a page, an unmapped page follows, and no address is given out twice, so that
 * what touches freed memory or goes beyond an allocation crashes likewise.
 */
#include "stand_in.h"

#include <map>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device_address.h"
#include "sanitizers.h"

namespace stand_in
{

thread_local int running_device;
char *device_base, *device_behind;

const size_t page = 4096;
enum { alignment = 256, most_devices = 8, padding_byte = 0x7b };

struct allocation {
    size_t bytes, first_page, pages;
    bool live, freed, of_library;
    int kept;
};

/* A mutex would order the streams for ThreadSanitizer, which do not wait for each other here. */
class spin_lock
{
  public:
    void lock()
    {
        while (__atomic_exchange_n(&taken, true, __ATOMIC_ACQUIRE)) sched_yield();
    }
    void unlock() { __atomic_store_n(&taken, false, __ATOMIC_RELEASE); }

  private:
    bool taken = false;
};

static spin_lock memory_lock;
static std::map<char *, allocation> allocations;
static std::map<char *, size_t> registered;
static size_t next_free[most_devices], used[most_devices];
static bool peers[most_devices][most_devices];
static struct sigaction other_handler;

static char *behind(char *p) { return p - device_base + device_behind; }

static bool in_range(const char *p, const char *base)
{
    return p >= base && p < base + device_range_bytes * most_devices;
}

static void say(const char *text)
{
    if (write(2, text, strlen(text)) < 0) _Exit(2);
}

static void on_fault(int, siginfo_t *info, void *)
{
    const char *at = static_cast<char *>(info->si_addr);

    if (in_range(at, device_base)) {
        say("cudart stand-in: the host touches device memory\n");
        _Exit(1);
    }
    if (in_range(at, device_behind)) {
        say("cudart stand-in: a kernel or copy touches device memory that is freed, not allocated "
            "yet, or beyond an allocation\n");
        _Exit(1);
    }
    sigaction(SIGSEGV, &other_handler, nullptr);
}

static char *reserve_range()
{
    void *p = mmap(nullptr, device_range_bytes * most_devices, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) refuse("no room for device addresses");
    return static_cast<char *>(p);
}

static void begin()
{
    struct sigaction action = {};

    if (device_base) return;
    device_base = reserve_range();
    device_behind = reserve_range();
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &other_handler);
}

static size_t most_bytes()
{
    return static_cast<size_t>(setting("WT_CUDA_MEMORY_MIB", 4096)) << 20;
}

void *device_reserve(int device, size_t bytes)
{
    std::lock_guard<spin_lock> guard(memory_lock);
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    size_t pages = (rounded + page - 1) / page;
    allocation a = {bytes, next_free[device], pages, false, false, false, 0};
    char *p;

    begin();
    if (used[device] + rounded > most_bytes()) return nullptr;
    if (a.first_page + pages + 1 > device_range_bytes / page)
        refuse("more device memory was allocated over time than there are addresses");
    used[device] += rounded;
    next_free[device] += pages + 1;
    p = device_base + static_cast<size_t>(device) * device_range_bytes +
        (a.first_page + pages) * page - rounded;
    allocations[p] = a;
    return p;
}

static char *first_page_of(char *p)
{
    return behind(p) - reinterpret_cast<uintptr_t>(behind(p)) % page;
}

void device_make_live(void *at)
{
    std::lock_guard<spin_lock> guard(memory_lock);
    char *p = static_cast<char *>(at);
    allocation &a = allocations[p];
    char *end = first_page_of(p) + a.pages * page;

    if (mprotect(first_page_of(p), a.pages * page, PROT_READ | PROT_WRITE))
        refuse("no memory for the device");
    memset(behind(p), 0xff, a.bytes); /* NaN */
    memset(behind(p) + a.bytes, padding_byte, static_cast<size_t>(end - behind(p)) - a.bytes);
    a.live = true;
}

bool device_begin_free(void *at, bool of_library)
{
    std::lock_guard<spin_lock> guard(memory_lock);
    auto found = allocations.find(static_cast<char *>(at));

    if (found == allocations.end() || found->second.freed || found->second.of_library != of_library)
        return false;
    if (found->second.kept) refuse("device memory is freed while NCCL has it registered");
    found->second.freed = true;
    return true;
}

void device_end_free(void *at)
{
    std::lock_guard<spin_lock> guard(memory_lock);
    char *p = static_cast<char *>(at);
    allocation &a = allocations[p];
    char *end = first_page_of(p) + a.pages * page;

    if (!a.live) refuse("memory is freed before the stream that allocates it came to it");
    for (char *c = behind(p) + a.bytes; c < end; c++)
        if (*c != padding_byte)
            refuse("device memory was written behind an allocation of %zu bytes", a.bytes);
    engine::tsan_write(behind(p), a.bytes); /* freeing is an access */
    madvise(first_page_of(p), a.pages * page, MADV_DONTNEED);
    mprotect(first_page_of(p), a.pages * page, PROT_NONE);
    used[device_of_address(p)] -= (a.bytes + alignment - 1) / alignment * alignment;
    allocations.erase(p);
}

bool is_device_address(const void *p)
{
    return device_base && in_range(static_cast<const char *>(p), device_base);
}

int device_of_address(const void *p)
{
    return static_cast<int>(static_cast<size_t>(static_cast<const char *>(p) - device_base) /
                            device_range_bytes);
}

void device_mark_of_library(void *p)
{
    std::lock_guard<spin_lock> guard(memory_lock);

    allocations[static_cast<char *>(p)].of_library = true;
}

void device_keep(const void *p, bool keep)
{
    std::lock_guard<spin_lock> guard(memory_lock);
    auto found = allocations.upper_bound(static_cast<char *>(const_cast<void *>(p)));

    (--found)->second.kept += keep ? 1 : -1;
}

void device_use(int device, size_t *in_use, size_t *total)
{
    std::lock_guard<spin_lock> guard(memory_lock);

    *in_use = used[device];
    *total = most_bytes();
}

char *device_bytes(const void *at, size_t bytes, const char *what)
{
    std::lock_guard<spin_lock> guard(memory_lock);
    char *p = static_cast<char *>(const_cast<void *>(at));
    auto found = allocations.upper_bound(p);

    if (found == allocations.begin()) refuse("%s: not an allocation", what);
    --found;
    if (p + bytes > found->first + found->second.bytes)
        refuse("%s: %zu bytes go beyond an allocation of %zu bytes, or it is freed", what, bytes,
               found->second.bytes);
    if (!found->second.live)
        refuse("%s: the stream that allocates this memory has not come to it", what);
    return behind(p);
}

void host_register(void *p, size_t bytes)
{
    std::lock_guard<spin_lock> guard(memory_lock);

    registered[static_cast<char *>(p)] = bytes;
}

void *host_registered(const void *at, size_t bytes)
{
    std::lock_guard<spin_lock> guard(memory_lock);
    char *p = static_cast<char *>(const_cast<void *>(at));
    auto found = registered.upper_bound(p);

    if (found == registered.begin()) return nullptr;
    --found;
    return p + bytes <= found->first + found->second ? found->first : nullptr;
}

bool host_unregister(void *p)
{
    std::lock_guard<spin_lock> guard(memory_lock);

    return registered.erase(static_cast<char *>(p)) == 1;
}

void allow_peer(int device, int peer) { peers[device][peer] = true; }

bool peer_allowed(int device, int peer) { return device == peer || peers[device][peer]; }

char *kernel_bytes(uint64_t address, size_t bytes)
{
    static bool host_memory = setting("WT_CUDA_HOST_MEMORY", 0);
    char *p = reinterpret_cast<char *>(address);

    if (is_device_address(p)) {
        if (!peer_allowed(running_device, device_of_address(p)))
            refuse("a kernel of device %d touches memory of device %d", running_device,
                   device_of_address(p));
        return behind(p);
    }
    if (!host_memory && !host_registered(p, bytes))
        refuse("a kernel touches memory of the host that is not pinned");
    return p;
}

} // namespace stand_in
