# engine_faults(NAME PROGRAM LABEL): a test per fault that check_engine.cu plants, and the message that it is noticed by.
function(engine_faults name program label)
    set(wrong "wrong result")
    set(faults)
    if(WEFT_SANITIZE MATCHES thread)
        set(wrong "wrong result|data race")
        set(faults "fence=data race" "two_blocks=data race")
    elseif(WEFT_SANITIZE MATCHES address)
        set(faults "global_bounds=heap-buffer-overflow" "vector_aligned=misaligned address")
    elseif(label STREQUAL gpu_ptx)
        set(faults "global_bounds=beyond an allocation|written behind" "vector_aligned=16 bytes at the address")
    endif()
    list(APPEND faults "barrier=${wrong}" "buffer_reuse=${wrong}" "warp_order=${wrong}" "copy_wait=${wrong}"
        "unwritten=${wrong}"
        "shared_bounds=written behind the 512 bytes of|index 128 out of bounds|belong to no array"
        "divergent_barrier=threads have returned while others wait|no thread can go on"
        "two_barriers=wait in different __syncthreads"
        "early_return=no thread can go on"
        "copy_aligned=an asynchronous copy at addresses that 16 does not divide|16 bytes at the address"
        "part_of_mask=no thread can go on"
        "left_out=whose mask 0000ffff leaves it out"
        "empty_grid=refused launch: error 9"
        "shared_size=refused launch: error 1")
    foreach(fault ${faults})
        string(REGEX MATCH "^([a-z_]*)=(.*)$" fault "${fault}")
        weft_add_test(${name}.${CMAKE_MATCH_1} ${label} 60 ${program} ${CMAKE_MATCH_1})
        set_tests_properties(${name}.${CMAKE_MATCH_1} PROPERTIES PASS_REGULAR_EXPRESSION "${CMAKE_MATCH_2}")
    endforeach()
endfunction()
