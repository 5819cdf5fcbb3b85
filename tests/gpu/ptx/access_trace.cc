/* access_trace.cc: requests of warps to memory, gathered from what single lanes do, block by block.
 */
#include "access_trace.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "multiprocessor.h"
#include "trace_hooks.h"

namespace access_trace
{

enum { sector_bytes = 32, banks = 32, bank_bytes = 4, bytes_at_once = 128 };

/* What the lanes of a warp ask for when they execute an instruction together. */
struct request {
    uint64_t at[engine::warp_size];
    uint32_t mask;
    unsigned bytes;
};

/* One instruction in one warp: its requests, and how many of them each lane has taken part in. */
struct instruction {
    std::vector<request> requests;
    unsigned count[engine::warp_size];
};

/* Passes over the banks, by instruction. */
struct passes {
    double taken, least;
};

static struct {
    std::vector<wt_cuda_launch> launches;
    const stand_in::translated_kernel *kernel;
    uint64_t block;
    std::unordered_map<uint64_t, instruction> of_block[2]; /* global, shared memory */
    std::unordered_set<uint64_t> read, written;            /* sectors of the block */
    std::unordered_map<int, passes> by_access;
} trace;

static bool is_write(const char *name) { return name[0] == 's' || name[0] == 'r'; } /* st, red */

static uint32_t sectors_of(const request &r, std::unordered_set<uint64_t> &of_block, double *useful)
{
    uint64_t sectors[engine::warp_size], bytes[engine::warp_size];
    size_t n = 0;

    for (int lane = 0; lane < engine::warp_size; lane++) {
        if (!(r.mask >> lane & 1)) continue;
        bytes[n] = r.at[lane];
        sectors[n++] = r.at[lane] / sector_bytes; /* accesses are aligned, so have one sector */
    }
    std::sort(bytes, bytes + n);
    *useful += static_cast<double>(std::unique(bytes, bytes + n) - bytes) * r.bytes;
    std::sort(sectors, sectors + n);
    n = static_cast<size_t>(std::unique(sectors, sectors + n) - sectors);
    of_block.insert(sectors, sectors + n);
    return static_cast<uint32_t>(n);
}

static void add_global(wt_cuda_launch &launch, const char *name, const instruction &i)
{
    bool write = is_write(name);

    for (const request &r : i.requests) {
        double sectors = sectors_of(r, write ? trace.written : trace.read, &launch.useful_bytes);

        (write ? launch.sectors_written : launch.sectors_read) += sectors;
    }
}

/* Lanes are served as many at once as make 128 bytes; different words of one bank take turns. */
static void add_passes(const request &r, passes &p)
{
    const int together = std::min<int>(bytes_at_once / static_cast<int>(r.bytes), banks);

    for (int first = 0; first < engine::warp_size; first += together) {
        std::vector<uint64_t> words[banks];
        size_t most = 0;

        for (int lane = first; lane < first + together; lane++)
            for (unsigned b = 0; (r.mask >> lane & 1) && b < r.bytes; b += bank_bytes) {
                uint64_t word = (r.at[lane] + b) / bank_bytes;
                std::vector<uint64_t> &bank = words[word % banks];

                if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
            }
        for (auto &bank : words) most = std::max(most, bank.size());
        p.taken += static_cast<double>(most);
        p.least += most > 0;
    }
}

static void end_block()
{
    wt_cuda_launch &launch = trace.launches.back();

    for (auto &entry : trace.of_block[0])
        add_global(launch, trace.kernel->accesses[entry.first / engine::most_warps], entry.second);
    for (auto &entry : trace.of_block[1])
        for (const request &r : entry.second.requests)
            add_passes(r, trace.by_access[static_cast<int>(entry.first / engine::most_warps)]);
    launch.sectors_of_blocks += static_cast<double>(trace.read.size() + trace.written.size());
    trace.of_block[0].clear();
    trace.of_block[1].clear();
    trace.read.clear();
    trace.written.clear();
}

static void note(int shared, uint64_t address, size_t bytes, int number)
{
    const engine::multiprocessor &m = engine::this_multiprocessor();
    const engine::thread &t = *m.running;
    uint32_t bit = 1u << t.lane;

    if (m.block != trace.block) {
        if (trace.block) end_block();
        trace.block = m.block;
    }
    instruction &i = trace.of_block[shared][static_cast<uint64_t>(number) * engine::most_warps +
                                            static_cast<uint64_t>(t.warp)];
    unsigned n = i.count[t.lane]++;

    if (n >= i.requests.size()) i.requests.push_back({{}, 0, static_cast<unsigned>(bytes)});
    i.requests[n].at[t.lane] = address;
    i.requests[n].mask |= bit;
}

void note_global(uint64_t address, size_t bytes, int number) { note(0, address, bytes, number); }
void note_shared(uint64_t address, size_t bytes, int number) { note(1, address, bytes, number); }

void note_product()
{
    const int flops = 2 * 16 * 8 * 16; /* of m16n8k16, of which each lane tells */

    trace.launches.back().tensor_flops += static_cast<double>(flops) / engine::warp_size;
}

void begin_launch(const stand_in::translated_kernel *kernel, dim3 grid, dim3 block, size_t shared)
{
    wt_cuda_launch launch = {};

    launch.kernel = kernel->name;
    launch.grid[0] = grid.x, launch.grid[1] = grid.y, launch.grid[2] = grid.z;
    launch.block[0] = block.x, launch.block[1] = block.y, launch.block[2] = block.z;
    launch.shared = shared;
    trace.launches.push_back(launch);
    trace.kernel = kernel;
    trace.block = 0;
    trace.by_access.clear();
}

void end_launch(size_t blocks)
{
    wt_cuda_launch &launch = trace.launches.back();

    if (trace.block) end_block();
    launch.blocks_traced = static_cast<double>(blocks);
    for (auto &entry : trace.by_access) {
        double ratio = entry.second.taken / entry.second.least;

        launch.shared_passes += entry.second.taken;
        launch.shared_passes_least += entry.second.least;
        if (ratio <= launch.worst_ratio) continue;
        launch.worst_ratio = ratio;
        launch.worst = trace.kernel->accesses[entry.first];
    }
}

} // namespace access_trace

extern "C" {

bool ptx_tracing;

void ptx_count_flops(int count) { access_trace::trace.launches.back().flops += count; }

void wt_cuda_trace_begin(int blocks)
{
    access_trace::trace.launches.clear();
    engine::run_few_blocks(blocks);
    ptx_tracing = true;
}

int wt_cuda_trace_end(struct wt_cuda_launch *launches, int room)
{
    auto &noted = access_trace::trace.launches;
    int count = static_cast<int>(noted.size());

    ptx_tracing = false;
    engine::run_few_blocks(0);
    std::copy_n(noted.begin(), std::min(count, room), launches);
    return count;
}
}
