# WeftTest.cmake: tests as one line each. Include it after the targets of the library exist.
#
#   weft_internal_test(NAME sources... [LABELS l...] [TIMEOUT s])
#       a check-based program without ranks; its CTest test is NAME (label `unit` unless LABELS say else)
#   weft_rank_test(NAME sources... RANKS n... [LABELS l...] [TIMEOUT s])
#       a program of cases (tests/support/mpi_check.h); CTest tests NAME.n1, NAME.n2, ... run it with
#       that many threads of one process as ranks (labels `ranks`, `local`)
#   weft_mpi_test(NAME RANKS n... [SHM s...] [OWN_MAIN] [TIMEOUT s])
#       the program NAME again, under mpiexec, a test per number of ranks and value of WEFT_SHM (3 and
#       0 unless told): NAME.shm.nN, NAME.shm2.nN, NAME.shm1.nN, and NAME.mpi.nN for 0 (labels `ranks`,
#       `mpi`). A program that has no wt_main (OWN_MAIN) is given the backend it must find
#   weft_script_test(NAME command... [LABELS l...] [TIMEOUT s])
#       a script
#
# WT_SOURCE_DIR is the project's folder, for tests that read files kept beside them.
# The targets weft_tests_unit and weft_tests_local build all programs of the first and the second kind;
# a sanitizer build needs no more than those.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check>=0.15)

set(WEFT_TEST_TIMEOUT 120 CACHE STRING "seconds a test may take unless it says otherwise")
set(WEFT_TEST_PATIENCE 1) # how many times longer
if(WEFT_SANITIZE)
    set(WEFT_TEST_PATIENCE 3)
endif()
add_custom_target(weft_tests_unit)
add_custom_target(weft_tests_local)

add_library(weft_test_support STATIC)
foreach(part fakes given golden greedy_planner mpi_check near near_modules owned scratch stderr_text worlds)
    target_sources(weft_test_support PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/${part}.c)
endforeach()
target_include_directories(weft_test_support PUBLIC
    ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(weft_test_support PUBLIC WT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_link_libraries(weft_test_support PUBLIC weft_internal PkgConfig::CHECK m PRIVATE weft_flags)

# One program that sees the tests' support, the internal headers and every layer.
function(weft_test_program name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE weft_flags weft_test_support)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

# glibc fills what malloc gives and what free takes back, so that nobody reads it unnoticed.
# Under MPICH's UCX, libucm patches madvise to its own, which crashes ThreadSanitizer when a thread ends.
set(WEFT_TEST_ENVIRONMENT OMP_NUM_THREADS=1 MALLOC_PERTURB_=165)
if(WEFT_SANITIZE)
    list(APPEND WEFT_TEST_ENVIRONMENT UCX_MEM_MMAP_HOOK_MODE=none)
endif()

# The library's own time-out comes first, then the program's alarm (mpi_check.h), then CTest's.
function(weft_add_test name labels timeout)
    math(EXPR timeout "${timeout} * ${WEFT_TEST_PATIENCE}")
    math(EXPR patience "${timeout} / 2")
    math(EXPR alarm "${timeout} * 9 / 10")
    list(REMOVE_DUPLICATES labels)
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout}
        ENVIRONMENT "${WEFT_TEST_ENVIRONMENT};WEFT_TIMEOUT=${patience};WT_ALARM=${alarm}")
endfunction()

macro(weft_test_arguments)
    cmake_parse_arguments(ARG "OWN_MAIN" "TIMEOUT" "RANKS;SHM;LABELS" ${ARGN})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT ${WEFT_TEST_TIMEOUT})
    endif()
endmacro()

function(weft_internal_test name)
    weft_test_arguments(${ARGN})
    if(NOT ARG_LABELS)
        set(ARG_LABELS unit)
    endif()
    weft_test_program(${name} ${ARG_UNPARSED_ARGUMENTS})
    add_dependencies(weft_tests_unit ${name})
    weft_add_test(${name} "${ARG_LABELS}" ${ARG_TIMEOUT} ${name})
endfunction()

function(weft_rank_test name)
    weft_test_arguments(${ARGN})
    weft_test_program(${name} ${ARG_UNPARSED_ARGUMENTS})
    add_dependencies(weft_tests_local ${name})
    foreach(n ${ARG_RANKS})
        weft_add_test(${name}.n${n} "ranks;local;${ARG_LABELS}" ${ARG_TIMEOUT} ${name} --ranks ${n})
    endforeach()
endfunction()

# One value of WEFT_SHM: the part of the test's name, and the backend that the world then has.
function(weft_shm_names shm name backend)
    set(${name} shm${shm} PARENT_SCOPE)
    set(${backend} shm PARENT_SCOPE)
    if(shm EQUAL 3)
        set(${name} shm PARENT_SCOPE)
    elseif(shm EQUAL 0)
        set(${name} mpi PARENT_SCOPE)
        set(${backend} mpi PARENT_SCOPE)
    endif()
endfunction()

function(weft_mpi_test name)
    weft_test_arguments(${ARGN})
    if(NOT ARG_SHM)
        set(ARG_SHM 3 0)
    endif()
    foreach(shm ${ARG_SHM})
        weft_shm_names(${shm} kind backend)
        if(NOT ARG_OWN_MAIN)
            set(backend)
        endif()
        foreach(n ${ARG_RANKS})
            set(test ${name}.${kind}.n${n})
            weft_add_test(${test} "ranks;mpi;${ARG_LABELS}" ${ARG_TIMEOUT}
                ${WEFT_MPIEXEC} -n ${n} $<TARGET_FILE:${name}> ${backend})
            set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT WEFT_SHM=${shm})
            set_tests_properties(${test} PROPERTIES PROCESSORS 2)
        endforeach()
    endforeach()
endfunction()

function(weft_script_test name)
    weft_test_arguments(${ARGN})
    weft_add_test(${name} "script;${ARG_LABELS}" ${ARG_TIMEOUT} ${ARG_UNPARSED_ARGUMENTS})
endfunction()
