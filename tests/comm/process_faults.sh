#!/usr/bin/env bash
# process_faults.sh MPIEXEC PROGRAM: faults of processes end the job with a sentence and leave
# nothing behind, for every way of sharing memory.
set -u
mpiexec=$1 program=$2
failed=0

in_shm() { find /dev/shm -name 'weft-*' | sort; }
there=$(in_shm)

complain() {
    echo "FAILED: $1"
    failed=1
}

# run FAULT SHM [CHECK]: prints what the job said; it must not succeed
run() {
    if WEFT_TIMEOUT=2 WEFT_CHECK=${3:-2} WEFT_SHM=$2 timeout 60 "$mpiexec" -n 3 "$program" "$1" 2>&1; then
        echo "the job succeeded"
    fi
}

for shm in 3 2 1 0; do
    said=$(run late $shm)
    grep -q 'all-gather of [0-9]* u8.*not arrived: rank 1 after.*WEFT_TIMEOUT' <<<"$said" ||
        complain "WEFT_SHM=$shm: a late rank is not named: $said"
    said=$(run differ $shm)
    grep -q 'different collectives: .*all-reduce sum of 300000 f32.*all-reduce sum of 299999 f32' <<<"$said" ||
        grep -q 'different collectives: .*all-reduce sum of 299999 f32.*all-reduce sum of 300000 f32' <<<"$said" ||
        complain "WEFT_SHM=$shm: a mismatch is not named: $said"
    # trial 2: numbers would be wrong, so counts are compared without being asked to, over MPI too
    for fault in differ small gather exchange scatter broadcast; do
        said=$(run $fault $shm 1)
        grep -q 'ranks do different collectives: ' <<<"$said" || complain "WEFT_SHM=$shm: $fault: $said"
    done
    # trial 2: what a user sees under plain mpiexec says rank, module and the last collective
    said=$(run exit $shm)
    grep -q 'rank 1: the program exits before weft_finalize, in module model.head, after all-reduce' <<<"$said" ||
        complain "WEFT_SHM=$shm: a rank that exits says nothing: $said"
    said=$(run killed $shm)
    grep -q 'the job succeeded' <<<"$said" && complain "WEFT_SHM=$shm: a killed rank went unnoticed"
    left=$(comm -13 <(echo "$there") <(in_shm))
    [ -z "$left" ] || complain "WEFT_SHM=$shm: left in /dev/shm: $left"
done
exit $failed
