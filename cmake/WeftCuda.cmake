# WeftCuda.cmake: the CUDA part. WEFT_CUDA says whether libweft-cuda.so is built:
#
#   ON      with everything else, and installed; without nvcc, configuring fails
#   AUTO    where nvcc is found, when it is asked for: nvcc takes minutes. The kernels are tested by the host compiler
#   OFF     nothing of it
#
#   weft_cuda            libweft-cuda.so
#   weft_cuda_kernels    the objects of src/kernels/cuda
#
# WEFT_CUDA_EXACT are the sources whose numbers must have the CPU's bits: no product is contracted with a sum, neither on the
# GPU nor in what the host computes for it.
set(WEFT_CUDA AUTO CACHE STRING "build libweft-cuda.so: ON, AUTO (when it is asked for) or OFF")
option(WEFT_CUDA_LONG_TESTS "tests of the CUDA part that take minutes to build (tests/gpu)" OFF)
option(WEFT_GPU_TESTS "tests on a GPU of this machine (tests/gpu)" OFF)
set(WEFT_CUDA_PTX 100) # the architecture whose PTX is kept, for GPUs that are newer
set(WEFT_CUDA_ARCHITECTURES "80-real;90-real;${WEFT_CUDA_PTX}" CACHE STRING "as CMAKE_CUDA_ARCHITECTURES")

set(WEFT_CUDA_FOUND OFF)
if(WEFT_CUDA)
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_NVCC_EXECUTABLE)
        include(CheckLanguage)
        check_language(CXX)
    endif()
    if(CUDAToolkit_NVCC_EXECUTABLE AND CMAKE_CXX_COMPILER)
        set(WEFT_CUDA_FOUND ON)
    endif()
endif()
if(NOT WEFT_CUDA_FOUND)
    if(WEFT_CUDA AND NOT WEFT_CUDA STREQUAL "AUTO")
        message(FATAL_ERROR "WEFT_CUDA is ${WEFT_CUDA}, and there is no nvcc or no C++ compiler")
    endif()
    message(STATUS "The CUDA part is not built: no nvcc, or WEFT_CUDA is OFF")
    return()
endif()

file(GLOB_RECURSE WEFT_CUDA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cuda/*.cu)
set(WEFT_CUDA_EXACT ${WEFT_CUDA_KERNELS})
list(FILTER WEFT_CUDA_EXACT INCLUDE REGEX "cuda/random/|moves/fill_by_index")
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Builds with sanitizers have the kernels for the host alone (tests/gpu/host); with ThreadSanitizer the tests that take long
# want nvcc too, for the order of streams (tests/gpu/runtime).
if(WEFT_SANITIZE AND NOT (WEFT_SANITIZE MATCHES thread AND WEFT_CUDA_LONG_TESTS))
    return()
endif()

set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
set(CMAKE_CUDA_ARCHITECTURES ${WEFT_CUDA_ARCHITECTURES})
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
# Kernels of many types are alike: they take a quarter of the room. Drivers unpack that since 550, as all that run CUDA 13 do.
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
    string(APPEND CMAKE_CUDA_FLAGS_RELEASE " --compress-mode=size")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
foreach(source ${WEFT_CUDA_EXACT})
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-fmad=false;-Xcompiler=-ffp-contract=off")
endforeach()

if(WEFT_CUDA_KERNELS)
    add_library(weft_cuda_kernels OBJECT EXCLUDE_FROM_ALL ${WEFT_CUDA_KERNELS})
    target_include_directories(weft_cuda_kernels PRIVATE include src)
    # nvcc warns of a kernel that spills registers or uses local memory; WEFT_WERROR refuses such a kernel.
    set(spill_warnings "SHELL:-Xptxas -warn-spills,-warn-lmem-usage")
    if(WEFT_WERROR)
        set(spill_warnings "SHELL:-Werror all-warnings" "${spill_warnings},-Werror")
    endif()
    target_compile_options(weft_cuda_kernels PRIVATE ${spill_warnings}
        "SHELL:-Xcompiler -Wall,-Wextra,-fvisibility=hidden")
endif()

if(WEFT_CUDA_KERNELS)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS $ENV{NCCL_HOME}/include ${CUDAToolkit_INCLUDE_DIRS})
    if(NOT NCCL_INCLUDE_DIR AND NOT WEFT_CUDA STREQUAL "AUTO")
        message(FATAL_ERROR "the CUDA part needs NCCL's header nccl.h: install it, or set NCCL_HOME")
    endif()
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/*.c ${PROJECT_SOURCE_DIR}/src/comm/nccl/*.c)
    add_library(weft_cuda SHARED ${sources} src/weft_cuda.c $<TARGET_OBJECTS:weft_cuda_kernels>
        # of the library, without state: it has them too
        src/base/elements/dtype.c src/base/elements/strided_copy.c
        src/base/elements/transposed_copy.c src/base/load_once.c src/kernels/operands/loop_nest.c src/kernels/operands/random_bounds.c
        src/kernels/operands/rotary_frequency.c src/kernels/operands/cat_copies.c src/kernels/operands/operand_checks.c
        src/kernels/operands/matrix_view.c src/kernels/operands/attention_operands.c
        src/kernels/operands/index_walk.c src/kernels/operands/index_operands.c)
    set_target_properties(weft_cuda PROPERTIES OUTPUT_NAME weft-cuda LINKER_LANGUAGE CUDA)
    target_include_directories(weft_cuda PRIVATE include src)
    target_include_directories(weft_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
        $<$<BOOL:${NCCL_INCLUDE_DIR}>:${NCCL_INCLUDE_DIR}>)
    target_link_libraries(weft_cuda PRIVATE $<$<COMPILE_LANGUAGE:C>:weft_flags> CUDA::cudart ${CMAKE_DL_LIBS})
    # It is loaded late, when there may be no room left for thread-local variables at fixed places.
    target_compile_options(weft_cuda PRIVATE $<$<COMPILE_LANGUAGE:C>:-ftls-model=global-dynamic>)
    set(exports ${PROJECT_SOURCE_DIR}/src/weft_cuda.map)
    target_link_options(weft_cuda PRIVATE "LINKER:-z,defs" "LINKER:--version-script=${exports}")
    set_target_properties(weft_cuda PROPERTIES LINK_DEPENDS ${exports})
    if(WEFT_CUDA STREQUAL "AUTO")
        set_target_properties(weft_cuda PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
endif()
