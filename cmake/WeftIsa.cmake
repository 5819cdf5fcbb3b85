# weft_isa_sources(layer FILES...): compile each file once per instruction set, with WF_ISA set to
# its suffix (v2, v3, v4: the x86-64 levels); src/kernels/cpu/isa.h picks one at run time.
#
# -fno-trapping-math and -fno-signed-zeros let selects become blends; nothing here lets the compiler
# reorder sums (that is asked for loop by loop, `omp simd reduction`). -fwrapv: integer kernels wrap.
# A file can forbid contraction for itself by COMPILE_OPTIONS, which come last.
function(weft_isa_sources layer)
    foreach(isa v2 v3 v4)
        add_library(weft_${layer}_${isa} OBJECT ${ARGN})
        target_link_libraries(weft_${layer}_${isa} PRIVATE weft_flags)
        target_compile_definitions(weft_${layer}_${isa} PRIVATE WF_ISA=${isa})
        target_compile_options(weft_${layer}_${isa} PRIVATE -O3 -fno-trapping-math -fno-signed-zeros
            -ffp-contract=fast -fopenmp-simd -fwrapv)
        if(CMAKE_C_COMPILER_ID MATCHES "Clang")
            # Asking for a vector loop where the machine has none is no fault of the source.
            target_compile_options(weft_${layer}_${isa} PRIVATE -Wno-pass-failed)
        endif()
        target_include_directories(weft_${layer}_${isa} PRIVATE ${WEFT_LAYER_ROOT}/${layer}/src
            ${WEFT_LAYER_ROOT}/base/src ${WEFT_LAYER_ROOT}/base/include)
        set(WEFT_ISA_OBJECTS ${WEFT_ISA_OBJECTS} weft_${layer}_${isa})
    endforeach()
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        target_compile_options(weft_${layer}_v2 PRIVATE -march=x86-64-v2)
        target_compile_options(weft_${layer}_v3 PRIVATE -march=x86-64-v3)
        target_compile_options(weft_${layer}_v4 PRIVATE -march=x86-64-v4 -mprefer-vector-width=512)
    endif()
    set(WEFT_ISA_OBJECTS ${WEFT_ISA_OBJECTS} PARENT_SCOPE)
endfunction()

# weft_amx_sources(layer FILES...): compile each file once, for AVX-512 and AMX tiles. Where the
# compiler or the machine has none, the file says so in its table.
include(CheckCCompilerFlag)
check_c_compiler_flag("-mamx-tile -mamx-bf16 -mavx512bf16" WEFT_HAS_AMX)
function(weft_amx_sources layer)
    add_library(weft_${layer}_amx OBJECT ${ARGN})
    target_link_libraries(weft_${layer}_amx PRIVATE weft_flags)
    target_compile_options(weft_${layer}_amx PRIVATE -O3)
    target_include_directories(weft_${layer}_amx PRIVATE ${WEFT_LAYER_ROOT}/${layer}/src
        ${WEFT_LAYER_ROOT}/base/src ${WEFT_LAYER_ROOT}/base/include)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND WEFT_HAS_AMX)
        target_compile_options(weft_${layer}_amx PRIVATE -march=x86-64-v4
            -mprefer-vector-width=512 -mamx-tile -mamx-bf16 -mavx512bf16)
        target_compile_definitions(weft_${layer}_amx PRIVATE WF_AMX)
    endif()
    set(WEFT_ISA_OBJECTS ${WEFT_ISA_OBJECTS} weft_${layer}_amx PARENT_SCOPE)
endfunction()
