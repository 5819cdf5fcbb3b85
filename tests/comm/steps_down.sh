#!/usr/bin/env bash
# steps_down.sh MPIEXEC PROGRAM: where a rank cannot share memory in the best way, all ranks of the
# node take the next one, say so once, and the collectives are right. PROGRAM is test_comm_ranks.
set -u
mpiexec=$1 program=$2
failed=0

# expect WORDS COUNT COMMAND...: the command succeeds and prints COUNT lines with WORDS
expect() {
    local words=$1 count=$2 said
    shift 2
    if ! said=$("$@" 2>&1); then
        echo "FAILED: $*: $said"
        failed=1
    elif [ "$(grep -c "$words" <<<"$said")" != "$count" ]; then
        echo "FAILED: $*: not $count times '$words': $said"
        failed=1
    fi
}

# For a shell with the arguments RANK COMMAND...: more address space than there is, on this rank only. Launchers name the
# rank in different variables. A command line of several programs (:) ends the launcher of Open MPI 5.0.7 with SIGSEGV.
# shellcheck disable=SC2016 # the rank's shell expands
on_rank='if [ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = "$0" ]; then export WEFT_ARENA_MIB=4000000000; fi; exec "$@"'

words='memfd is refused on this node; trying shm_open'
expect "$words (rank 0: mapping 4000000000 MiB (WEFT_ARENA_MIB): " 1 "$mpiexec" -n 2 env WEFT_ARENA_MIB=4000000000 "$program" shm
expect "$words (rank 0: mapping " 1 "$mpiexec" -n 3 sh -c "$on_rank" 0 "$program" shm
expect "$words (rank 1: mapping " 1 "$mpiexec" -n 3 sh -c "$on_rank" 1 "$program" shm
expect 'refused' 0 "$mpiexec" -n 2 "$program" shm
exit $failed
