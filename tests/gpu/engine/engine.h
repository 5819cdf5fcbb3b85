/*
 * engine.h: CUDA's execution model on the CPU. A launch runs its blocks one after the other in the
 * calling OS thread; the threads of a block are fibers, which give up the CPU only where CUDA lets
 * threads wait for each other. host_gpu.h has CUDA's words on top of it for kernels that a host
 * compiler compiles; translated PTX uses it too (tests/gpu/ptx).
 *
 * What CUDA leaves open is decided against the kernel: shared memory starts as NaN, asynchronous
 * copies arrive in the wait that names them, and the order of threads is one of four. What CUDA
 * forbids ends the process with a message.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

namespace engine
{

/** Where a thread stands: threadIdx, blockIdx, blockDim, gridDim. */
struct position {
    uint3 thread, block;
    dim3 block_size, grid_size;
};
/** Of the thread that runs. */
extern thread_local const position *here;

/** A place in the source. */
struct place {
    const char *file;
    int line;
};

struct lanes;

/** What a thread brings to a meeting with other threads, and takes away. */
struct meeting {
    const char *name; /* of the function; all who meet call the same */
    place at;
    unsigned mask = ~0u; /* lanes that meet; of a barrier: unused */
    /** Give all lanes their results; NULL: a meeting orders memory and has none. */
    void (*finish)(const lanes &all) = nullptr;
};

/** The lanes of a warp that have met: NULL for those that the mask leaves out. */
struct lanes {
    meeting *of[32];
    unsigned mask;
};

struct shuffle : meeting {
    enum from { index, exclusive_or, below, above } from;
    int argument, width;
    uint32_t value;
};
struct vote : meeting {
    bool predicate;
    unsigned ballot;
};
/** d += a b, fragments as in PTX's mma.m16n8k16. */
struct matrix_product : meeting {
    uint32_t a[4], b[2];
    float d[4];
};
struct matrix_load : meeting {
    const void *row;
    bool transposed;
    uint32_t result[4];
};

/** Wait for all threads of the block. */
void barrier(place at);
/** Wait for the lanes of the mask; their memory is ordered. */
void sync_warp(unsigned mask, place at);
/** These wait for the lanes of the mask and order no memory. */
void meet(shuffle &m);
void meet(vote &m);
void multiply_bf16(matrix_product &m);
void multiply_f16(matrix_product &m);
void meet(matrix_load &m);

/** One array in shared memory of a kernel; thread_local, since each OS thread runs blocks of its
 * own. */
struct shared_array {
    size_t bytes;
    const char *name;
    size_t offset;  /* in the memory of the block that runs */
    uint64_t block; /* the block that it has been placed for */
};
/** Its memory in this block. */
void *shared_memory(shared_array &array);
/** The shared memory whose size the launch gave. */
void *dynamic_shared_memory();
/** The same by addresses that begin at 0, as PTX has them; a wrong one ends the process. */
uint32_t shared_address(const void *p);
void *shared_at(uint32_t address, size_t bytes);

/** Copy 16 bytes to shared memory, some time between now and the wait for its group. */
void copy_async(void *to, const void *from);
void copy_commit();
void copy_wait(int newest);

/** Order of memory for ThreadSanitizer: a fence, and what stands around an atomic operation. */
void fence();
void before_atomic(void *p);
void after_atomic(void *p);

/** The order in which the threads of a block run: each launch takes the next of the four, unless
 *  the environment variable WT_GPU_ORDER (forward, reverse, random or random:SEED, ahead) says one.
 *  ahead: one warp runs as far as it can before another begins. */
enum order { forward, reverse, random_order, ahead, orders };
void order_set(order o);

/** A kernel with its arguments. */
struct kernel_body {
    void (*run)(void *arguments);
    void *arguments;
};
/** Whether a launch is one that the runtime takes; `most_shared`: what the kernel was allowed. */
const size_t shared_without_leave = 48 << 10;
cudaError_t check_launch(dim3 grid, dim3 block, size_t shared, size_t most_shared);
/** Run all blocks of a grid now; how many ran. */
size_t run_grid(dim3 grid, dim3 block, size_t shared, const kernel_body &body);
/** Of later grids at most so many blocks run, spread over the grid; 0: all, -1: none. */
void run_few_blocks(int most);
/** What gpu.h calls in the host build: both of these, and how much shared memory a kernel may ask
 * for. */
cudaError_t allow_shared(const void *kernel, size_t bytes);
cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared,
                   const kernel_body &body);

/** End the process: the kernel did what CUDA forbids. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace engine
