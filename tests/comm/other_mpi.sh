#!/usr/bin/env bash
# other_mpi.sh MPIEXEC PROGRAM LIBRARY: collectives are right, over shared memory where it can be had, whatever MPI says
# of nodes and wherever its windows begin. PROGRAM is test_comm_ranks; LIBRARY is other_mpi.c, which is preloaded.
set -u
mpiexec=$1 program=$2 library=$3
failed=0

# expect RANKS DIFFERENCES LEVEL BACKEND WORDS: the job passes on this backend and prints one line with WORDS, or no
# line of the log if WORDS is empty
expect() {
    local said lines
    if ! said=$("$mpiexec" -n "$1" env LD_PRELOAD="$library" WT_MPI="$2" WEFT_SHM="$3" "$program" "$4" 2>&1); then
        echo "FAILED: $2, WEFT_SHM=$3, $1 ranks: $said"
        failed=1
        return
    fi
    lines=$(grep -c "${5:-^weft }" <<<"$said")
    if [ "$lines" != "$([ -n "$5" ] && echo 1 || echo 0)" ]; then
        echo "FAILED: $2, WEFT_SHM=$3, $1 ranks: $lines lines with '${5:-weft}': $said"
        failed=1
    fi
}

expect 3 knows-nobody 3 shm ''
expect 2 knows-nobody 2 shm ''
expect 3 knows-nobody 1 shm ''
expect 3 unaligned 1 shm ''
expect 4 unaligned 1 shm ''
expect 2 'no-windows knows-nobody' 3 shm ''
expect 2 no-windows 1 mpi 'its 2 ranks communicate by plain MPI, which is slower (rank 0: MPI_Win_allocate_shared'
expect 2 knows-nobody 0 mpi ''
exit $failed
