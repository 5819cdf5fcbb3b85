/* trace_hooks.h: where the stand-in tells access_trace.cc what a launch does, while ptx_tracing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "translated.h"

#include <cuda_runtime_api.h>

extern "C" bool ptx_tracing;

namespace access_trace
{

void begin_launch(const stand_in::translated_kernel *kernel, dim3 grid, dim3 block, size_t shared);
void end_launch(size_t blocks);
void note_global(uint64_t address, size_t bytes, int number);
void note_shared(uint64_t address, size_t bytes, int number);
/** A lane takes part in a product of fragments. */
void note_product();

} // namespace access_trace
