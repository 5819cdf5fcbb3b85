# gpu_kernel_programs(KIND LIBRARY TARGET): the programs of tests/kernels a second time, with the kernels of LIBRARY: a header
# replaces each wf_cpu_NAME for which the library has a wf_cuda_NAME. And the programs of tests/gpu/kernels, which call the
# kernels of both devices. They are called gpu.KIND.SUBJECT; TARGET builds them.
# gpu_kernel_tests(KIND LABEL): tests of the same names.

# Those whose kernels are there.
set(subjects
    attention
    attention_bias
    attention_scores
    convolution
    driver_kernels
    embedding
    epilogue
    grouped_mm
    indexing
    launch_parts
    like_cpu
    matmul
    moves
    norm
    optimizer_step
    pointwise
    pooling
    random
    reduce
    along_dims
    rotary_swiglu
    scan
    softmax
    ternary
    topk
    vmath
    xent)

function(gpu_kernel_programs kind library target)
    set(names ${CMAKE_CURRENT_BINARY_DIR}/cuda_names.h)
    add_custom_command(OUTPUT ${names} DEPENDS ${library} VERBATIM
        COMMAND ${PROJECT_SOURCE_DIR}/tests/gpu/cuda_names ${CMAKE_NM} $<TARGET_FILE:${library}> ${names})
    add_custom_target(gpu_${kind}_names DEPENDS ${names})
    foreach(subject ${subjects})
        set(name gpu.${kind}.${subject})
        set(both ${PROJECT_SOURCE_DIR}/tests/gpu/kernels/test_${subject}.c)
        if(EXISTS ${both})
            weft_test_program(${name} ${both})
        else()
            weft_test_program(${name} ${PROJECT_SOURCE_DIR}/tests/kernels/test_${subject}.c)
            target_compile_options(${name} PRIVATE -include ${names})
        endif()
        target_link_libraries(${name} PRIVATE ${library} weft_internal)
        get_target_property(left_out ${library} EXCLUDE_FROM_ALL)
        set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX EXCLUDE_FROM_ALL ${left_out})
        add_dependencies(${name} gpu_${kind}_names)
        add_dependencies(${target} ${name})
    endforeach()
endfunction()

function(gpu_kernel_tests kind label)
    foreach(subject ${subjects})
        weft_add_test(gpu.${kind}.${subject} ${label} 600 gpu.${kind}.${subject})
    endforeach()
endfunction()
