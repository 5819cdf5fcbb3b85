# WeftSanitize.cmake: what WEFT_SANITIZE=address,undefined or =thread adds to every compilation.
#
# ASan's stack for use after return is off if this compiler misplaces vectors on it (asan_stack.c). The compiler is asked, not
# its version: the program is built and run.
# -g1: a report names lines and needs no more of -g.
add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
add_link_options(-fsanitize=${WEFT_SANITIZE})

function(weft_check_asan_stack)
    set(flags -O3 -fsanitize=address)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        list(APPEND flags -march=x86-64-v4 -mprefer-vector-width=512)
    endif()
    try_run(status built ${PROJECT_BINARY_DIR}/asan_stack ${PROJECT_SOURCE_DIR}/cmake/asan_stack.c
        COMPILE_DEFINITIONS ${flags} LINK_OPTIONS -fsanitize=address)
    set(WEFT_ASAN_STACK_IS_ALIGNED ON)
    if(built AND NOT status EQUAL 0)
        set(WEFT_ASAN_STACK_IS_ALIGNED OFF)
    endif()
    set(WEFT_ASAN_STACK_IS_ALIGNED ${WEFT_ASAN_STACK_IS_ALIGNED} CACHE INTERNAL "what cmake/asan_stack.c found")
endfunction()

if(WEFT_SANITIZE MATCHES address)
    if(NOT DEFINED CACHE{WEFT_ASAN_STACK_IS_ALIGNED})
        weft_check_asan_stack()
    endif()
    if(NOT WEFT_ASAN_STACK_IS_ALIGNED)
        message(STATUS "ASan of this compiler misplaces vectors (cmake/asan_stack.c): its stack for use after return is off")
        if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
            add_compile_options(--param=asan-use-after-return=0)
        else()
            add_compile_options(-fsanitize-address-use-after-return=never)
        endif()
    endif()
endif()
