# lib.sh: what the tests of the examples share. Source it: makes the folder $work, sets $failed.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the scripts that source this end with $failed

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refused NAME PART COMMAND...: ends with an error, and says PART in one line, or one of each rank that saw it.
refused() {
    local name=$1 part=$2
    shift 2
    if timeout 100 "$@" > "$work/out" 2> "$work/err" < /dev/null; then
        echo "$name: was not refused"
        failed=1
    elif [ "$(grep -- "$part" "$work/err" | sort | uniq -c | awk '$1 > 1' | wc -l)" -ne 0 ] ||
        [ "$(grep -- "$part" "$work/err" | sed 's/rank [0-9]*:/rank:/' | sort -u | wc -l)" -ne 1 ]; then
        echo "$name: '$part' is not said once:"
        cat "$work/err"
        failed=1
    fi
}

# helped COMMAND...: --help is no failure, and is printed once.
helped() {
    if ! timeout 100 "$@" --help > "$work/out" 2> "$work/err" < /dev/null || [ -s "$work/err" ] ||
        [ "$(grep -c '^Usage: ' "$work/out")" -ne 1 ]; then
        echo "$* --help:"
        cat "$work/out" "$work/err"
        failed=1
    fi
}
