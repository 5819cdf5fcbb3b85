# WeftMpi.cmake: which MPI the library is built for, and the launcher that belongs to it.
#
#   WEFT_MPI        mpich or openmpi, also from the environment; empty: the MPI whose mpicc is first in PATH
#   WEFT_MPIEXEC    the launcher that tests and scripts use: a script in the build folder. It runs the mpiexec of the
#                   same MPI with the flags that tests need. These flags are listed here and nowhere else.
set(WEFT_MPI "$ENV{WEFT_MPI}" CACHE STRING "the MPI to build for: mpich, openmpi, or empty for the first in PATH")
set_property(CACHE WEFT_MPI PROPERTY STRINGS "" mpich openmpi)
if(NOT WEFT_MPI MATCHES "^(mpich|openmpi)?$")
    message(FATAL_ERROR "WEFT_MPI is \"${WEFT_MPI}\"; it is mpich, openmpi, or empty for the MPI that is first in PATH")
endif()

# A build folder that was configured for another MPI, or before there was a choice, forgets what it found.
if(DEFINED CACHE{MPI_C_LIB_NAMES} AND NOT WEFT_MPI STREQUAL "${WEFT_MPI_CONFIGURED}")
    get_cmake_property(cached CACHE_VARIABLES)
    list(FILTER cached INCLUDE REGEX "^MPI_|^MPIEXEC_|^WEFT_MPI_IS_")
    foreach(variable ${cached})
        unset(${variable} CACHE)
    endforeach()
endif()
# Debian installs every MPI as mpicc.NAME; Fedora has a folder for each.
if(WEFT_MPI)
    find_program(MPI_C_COMPILER NAMES mpicc.${WEFT_MPI} mpicc NAMES_PER_DIR HINTS /usr/lib64/${WEFT_MPI}/bin)
endif()
find_package(MPI REQUIRED COMPONENTS C)

# weft_mpi_kind(variable): openmpi, mpich (with its relatives: Intel MPI, MVAPICH), or other.
include(CheckSymbolExists)
function(weft_mpi_kind variable)
    set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
    set(CMAKE_REQUIRED_QUIET ON)
    check_symbol_exists(OPEN_MPI mpi.h WEFT_MPI_IS_OPENMPI)
    check_symbol_exists(MPICH_VERSION mpi.h WEFT_MPI_IS_MPICH)
    check_symbol_exists(I_MPI_VERSION mpi.h WEFT_MPI_IS_INTEL)
    set(kind other)
    if(WEFT_MPI_IS_OPENMPI)
        set(kind openmpi)
    elseif(WEFT_MPI_IS_MPICH OR WEFT_MPI_IS_INTEL)
        set(kind mpich)
    endif()
    set(${variable} ${kind} PARENT_SCOPE)
endfunction()
weft_mpi_kind(WEFT_MPI_KIND)
if(WEFT_MPI AND NOT WEFT_MPI STREQUAL WEFT_MPI_KIND)
    set(found "${MPI_C_COMPILER}")
    unset(MPI_C_COMPILER CACHE) # the next try looks again
    set(WEFT_MPI_CONFIGURED none CACHE INTERNAL "")
    message(FATAL_ERROR "WEFT_MPI is ${WEFT_MPI}, but ${found} compiles for another MPI (${WEFT_MPI_KIND}); install ${WEFT_MPI}")
endif()
set(WEFT_MPI_CONFIGURED "${WEFT_MPI}" CACHE INTERNAL "the value of WEFT_MPI that the MPI_ variables were found for")

# weft_is_launcher_of(variable program): whether this mpiexec belongs to the MPI that mpi.h is from. The launchers of
# Open MPI name it in their version, the others do not. A program of one MPI under the launcher of another runs as
# several worlds of one rank.
function(weft_is_launcher_of variable program)
    set(fits FALSE)
    if(EXISTS "${program}")
        execute_process(COMMAND "${program}" --version OUTPUT_VARIABLE said ERROR_VARIABLE said)
        set(kind mpich)
        if(said MATCHES "Open MPI|OpenRTE|PRTE")
            set(kind openmpi)
        endif()
        if(WEFT_MPI_KIND STREQUAL kind OR (WEFT_MPI_KIND STREQUAL other AND kind STREQUAL mpich))
            set(fits TRUE)
        endif()
    endif()
    set(${variable} ${fits} PARENT_SCOPE)
endfunction()

# mpicc and mpiexec in PATH may be of two MPIs; then the launcher beside mpicc is taken.
function(weft_find_launcher)
    get_filename_component(folder "${MPI_C_COMPILER}" DIRECTORY)
    get_filename_component(compiler "${MPI_C_COMPILER}" NAME)
    string(REPLACE mpicc mpiexec beside "${compiler}")
    foreach(candidate ${MPIEXEC_EXECUTABLE} ${folder}/${beside} ${folder}/mpiexec.${WEFT_MPI_KIND} ${folder}/mpiexec.hydra)
        weft_is_launcher_of(fits "${candidate}")
        if(fits)
            set(MPIEXEC_EXECUTABLE "${candidate}" CACHE FILEPATH "the launcher of the MPI that is built for" FORCE)
            return()
        endif()
    endforeach()
    message(WARNING "there is no mpiexec for the MPI of ${MPI_C_COMPILER} (${WEFT_MPI_KIND}): tests of several processes will "
        "fail. Set MPIEXEC_EXECUTABLE, or choose an MPI by WEFT_MPI=mpich or WEFT_MPI=openmpi")
endfunction()
weft_find_launcher()

# Tests run more ranks than there are cores, several jobs at a time, and as root in containers. Open MPI allows none of
# this by itself: it counts slots, binds the first ranks of every job to the same cores, and refuses to run as root.
set(WEFT_MPIEXEC_FLAGS)
if(WEFT_MPI_KIND STREQUAL openmpi)
    set(WEFT_MPIEXEC_FLAGS "--allow-run-as-root --map-by :OVERSUBSCRIBE --bind-to none")
endif()
set(WEFT_MPIEXEC ${PROJECT_BINARY_DIR}/mpi/mpiexec)
configure_file(${PROJECT_SOURCE_DIR}/cmake/mpiexec.in ${WEFT_MPIEXEC} @ONLY)
message(STATUS "MPI: ${WEFT_MPI_KIND}, ${MPI_C_COMPILER}, ${MPIEXEC_EXECUTABLE} ${WEFT_MPIEXEC_FLAGS}")
