# weft_translated_kernels(NAME source.cu... [ARCHITECTURE a] [INCLUDE folder]): the kernels of these sources as a shared object for the stand-in
# of the CUDA runtime (tests/gpu/runtime): nvcc's own PTX, made with the flags of libweft-cuda.so, translated to C
# (tests/gpu/ptx). The architecture is that of the kept PTX unless told; its PTX is in NAME.dir.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(POLICY CMP0116)
    cmake_policy(SET CMP0116 NEW) # paths in dependency files are found from the build folder
endif()

function(weft_translated_kernels name)
    set(folder ${PROJECT_SOURCE_DIR}/tests/gpu/ptx)
    set(texts "")
    cmake_parse_arguments(ARG "" "ARCHITECTURE;INCLUDE" "" ${ARGN})
    if(NOT ARG_ARCHITECTURE)
        set(ARG_ARCHITECTURE ${WEFT_CUDA_PTX})
    endif()
    foreach(source ${ARG_UNPARSED_ARGUMENTS})
        get_filename_component(base ${source} NAME_WE)
        get_filename_component(source ${source} ABSOLUTE)
        set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.dir/${base})
        set(options -std=c++17 -O3 -DNDEBUG -arch=compute_${ARG_ARCHITECTURE}
            -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src)
        if(ARG_INCLUDE)
            list(APPEND options -I${ARG_INCLUDE})
        endif()
        set(exact "")
        if(source IN_LIST WEFT_CUDA_EXACT)
            list(APPEND options -fmad=false)
            set(exact --exact)
        endif()
        add_custom_command(OUTPUT ${out}.c VERBATIM COMMENT "Translating the PTX of ${base}.cu"
            COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/${name}.dir
            COMMAND ${CMAKE_CUDA_COMPILER} ${options} -ptx ${source} -o ${out}.ptx -MD -MF ${out}.d -MT ${out}.c
            COMMAND ${Python3_EXECUTABLE} ${folder}/translate ${exact} ${out}.c ${out}.ptx
            DEPENDS ${source} ${folder}/translate ${folder}/instructions.py ${folder}/reader.py
            DEPFILE ${out}.d)
        list(APPEND texts ${out}.c)
    endforeach()
    add_library(${name} SHARED EXCLUDE_FROM_ALL ${texts})
    target_include_directories(${name} PRIVATE ${folder})
    set_target_properties(${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
    # Shared arrays are thread-local, and the object is loaded late.
    target_compile_options(${name} PRIVATE -O1 -ffp-contract=off -fno-math-errno -Wall -Werror -Wno-unused
        -Wframe-larger-than=32768 -ftls-model=global-dynamic)
    target_link_libraries(${name} PRIVATE gpu_cudart m)
endfunction()

# gpu_ptx_environment(KERNELS test...): tests of programs that nvcc compiled, on translated kernels.
function(gpu_ptx_environment kernels)
    foreach(test ${ARGN})
        set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/gpu/cudart
            WT_CUDA_KERNELS=$<TARGET_FILE:${kernels}>)
    endforeach()
endfunction()
