/*
 * kernels.cc: kernels by name. What nvcc compiled into a program registers each kernel's host
 * function with its name; translated kernels (translated.h) come from the shared object
 * WT_CUDA_KERNELS.
 */
#include <dlfcn.h>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>

#include "engine.h"
#include "stand_in.h"
#include "trace_hooks.h"
#include "translated.h"

namespace stand_in
{

static translated_kernel *first_kernel;
static std::map<std::string, translated_kernel *> &translated()
{
    static std::map<std::string, translated_kernel *> kernels;

    return kernels;
}

/* By host function: the name of the kernel. */
static std::map<const void *, std::string> &names()
{
    static std::map<const void *, std::string> functions;

    return functions;
}

static std::map<std::pair<const void *, int>, size_t> allowed_shared;

void add_kernel(translated_kernel *kernel)
{
    kernel->next = first_kernel;
    first_kernel = kernel;
}

/* nvcc puts a hash of its command line into the names of anonymous namespaces; what it compiled and
 * the PTX that it printed need not have the same. */
static std::string name_without_hash(std::string name)
{
    const std::string before = "_GLOBAL__N__";
    const size_t digits = 8;

    for (size_t at = 0; (at = name.find(before, at)) != std::string::npos;) {
        at += before.size();
        if (name.find_first_not_of("0123456789abcdef", at) >= at + digits) name.erase(at, digits);
    }
    return name;
}

static void load_kernels()
{
    static bool loaded;
    const char *file = getenv("WT_CUDA_KERNELS");

    if (loaded) return;
    loaded = true;
    if (file && !dlopen(file, RTLD_NOW | RTLD_LOCAL)) refuse("WT_CUDA_KERNELS: %s", dlerror());
    for (auto k = first_kernel; k; k = k->next) translated()[name_without_hash(k->name)] = k;
}

static const translated_kernel *find(const std::string &name)
{
    load_kernels();
    auto found = translated().find(name_without_hash(name));

    if (found == translated().end())
        refuse("kernel %s was not translated (WT_CUDA_KERNELS)", name.c_str());
    return found->second;
}

/* The arguments as they were at the launch. */
typedef std::vector<std::vector<char>> arguments_copy;

static void run_kernel(const translated_kernel *kernel, dim3 grid, dim3 block, size_t shared,
                       const arguments_copy &arguments)
{
    std::vector<void *> pointers;
    auto run = [&] { kernel->run(pointers.data()); };
    engine::kernel_body body = {[](void *r) { (*static_cast<decltype(run) *>(r))(); }, &run};

    for (auto &bytes : arguments) pointers.push_back(const_cast<char *>(bytes.data()));
    if (ptx_tracing) access_trace::begin_launch(kernel, grid, block, shared);
    size_t blocks = engine::run_grid(grid, block, shared, body);
    if (ptx_tracing) access_trace::end_launch(blocks);
}

static cudaError_t check(const void *function, const translated_kernel *kernel, dim3 grid,
                         dim3 block, size_t shared)
{
    auto allowed = allowed_shared.find({function, current_device});
    size_t most = allowed == allowed_shared.end() ? engine::shared_without_leave : allowed->second;
    cudaError_t error = engine::check_launch(grid, block, shared, most);

    if (error == cudaSuccess && kernel->most_threads &&
        block.x * block.y * block.z > kernel->most_threads)
        error = cudaErrorLaunchOutOfResources;
    return error;
}

cudaError_t make_launch(const void *function, dim3 grid, dim3 block, void **arguments,
                        size_t shared, operation &made)
{
    auto name = names().find(function);
    const translated_kernel *kernel;
    auto copy = std::make_shared<arguments_copy>();
    cudaError_t error;

    if (name == names().end()) return cudaErrorInvalidDeviceFunction;
    kernel = find(name->second);
    error = check(function, kernel, grid, block, shared);
    if (error != cudaSuccess) return error;
    for (int i = 0; i < kernel->parameters; i++) {
        const char *argument = static_cast<char *>(arguments[i]);

        copy->emplace_back(argument, argument + kernel->bytes[i]);
    }
    made = {kernel->name, [=] { run_kernel(kernel, grid, block, shared, *copy); }};
    made.is_kernel = true;
    return cudaSuccess;
}

cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                   CUstream_st *stream, locked &lock)
{
    operation made("a kernel", nullptr);
    cudaError_t error = check_stream(stream, "cudaLaunchKernel");

    if (error == cudaSuccess) error = make_launch(function, grid, block, arguments, shared, made);
    if (error == cudaSuccess && stream->device != current_device)
        error = cudaErrorInvalidResourceHandle;
    return error == cudaSuccess ? enqueue(stream, std::move(made), lock) : error;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    static const bool nothing = setting("WT_CUDA_LAUNCH_NOTHING", 0);

    if (nothing) return cudaSuccess; /* what the host pays besides is measured (bench/gpu.c) */
    return api_call("cudaLaunchKernel", [&](locked &lock) {
        return launch(function, grid, block, arguments, shared, stream, lock);
    });
}

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value)
{
    return api_call(__func__, [&](locked &) {
        if (!names().count(function)) return cudaErrorInvalidDeviceFunction;
        if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
        if (value < 0 || static_cast<size_t>(value) > most_shared_bytes())
            return cudaErrorInvalidValue;
        allowed_shared[{function, current_device}] = static_cast<size_t>(value);
        return cudaSuccess;
    });
}

/* What nvcc's host code calls, when it is loaded and for <<<>>>. */

void **__cudaRegisterFatBinary(void *)
{
    static void *handle;

    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
char __cudaInitModule(void **) { return 1; }

void __cudaRegisterFunction(void **, const char *function, char *, const char *name, int, void *,
                            void *, void *, void *, int *)
{
    names()[function] = name;
}

void __cudaRegisterVar(void **, char *, char *, const char *name, int, size_t, int, int)
{
    refuse("a kernel has the global variable %s", name);
}

struct call_configuration {
    dim3 grid, block;
    size_t shared;
    void *stream;
};
static thread_local call_configuration pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    pushed = {grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *static_cast<void **>(stream) = pushed.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(function));
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream)
{
    return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, arguments, shared,
                            stream);
}
}
