#!/usr/bin/env bash
# left_names.sh MPIEXEC PROGRAM: names in /dev/shm. A run removes those of processes that were
# killed before they could, and nothing else. PROGRAM is test_comm_ranks.
# trial 3
set -u
mpiexec=$1 program=$2
if ! [ -w /dev/shm ]; then exit 77; fi
sh -c 'exit 0' &
dead=$!
wait $dead
left=/dev/shm/weft-$dead-0123456789abcdef young=/dev/shm/weft-$dead-fedcba9876543210
alive=/dev/shm/weft-$$-0123456789abcdef other=/dev/shm/weft-$dead
trap 'rm -f "$left" "$young" "$alive" "$other"' EXIT
touch "$young"
touch -d '1 hour ago' "$left" "$alive" "$other"
if ! said=$(WEFT_SHM=2 "$mpiexec" -n 2 "$program" shm 2>&1); then
    echo "FAILED: $said"
    exit 1
fi
failed=0
if [ -e "$left" ]; then echo "FAILED: the name of a dead process is still there" && failed=1; fi
for file in "$young" "$alive" "$other"; do
    if ! [ -e "$file" ]; then echo "FAILED: $file is gone" && failed=1; fi
done
exit $failed
