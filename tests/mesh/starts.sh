#!/usr/bin/env bash
# starts.sh MPIEXEC PROGRAM: each way for a world to begin, with and without shared memory.
set -euo pipefail
mpiexec=$1 program=$2
for way in first-mesh part communicators; do
    for shm in 3 0; do
        WEFT_SHM=$shm "$mpiexec" -n 3 "$program" "$way" || { echo "$way, WEFT_SHM=$shm"; exit 1; }
    done
done
