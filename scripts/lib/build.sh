# build.sh: configuring and building. Source it after packages.sh, from the top of the tree.
# shellcheck shell=bash
# shellcheck source=scripts/lib/progress.sh
. "$(dirname "${BASH_SOURCE[0]}")/progress.sh"

JOBS=${WEFT_JOBS:-$(nproc)}

# describe_build LINE: for show_progress, of Ninja's lines "[12/848] ...".
describe_build() {
    if [[ $1 =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
        progress="Building $folder: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} files, $(
            time_left "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" $((SECONDS - started)))"
    fi
}

# build_tree FOLDER [CMAKE-ARGUMENTS... [-- TARGETS...]]: configure and build; the tools' output only when it fails.
# With WEFT_WERROR=1 in the environment (.ci/run) a warning ends the build.
build_tree() {
    local folder=$1 configure=() targets=() log started=$SECONDS
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        configure+=("$1")
        shift
    done
    [ $# -gt 0 ] && shift && targets=(--target "$@")

    mkdir -p "$folder"
    log=$folder/build.log
    echo "Building $folder"
    if ! { cmake -S . -B "$folder" -G Ninja -DWEFT_MPI="${WEFT_MPI:-}" -DWEFT_WERROR="${WEFT_WERROR:-OFF}" "${configure[@]}" &&
        cmake --build "$folder" --parallel "$JOBS" "${targets[@]}"; } 2>&1 | show_progress "$log" describe_build; then
        tail -n 60 "$log"
        echo "The build of $folder failed; its log is $log" >&2
        exit 1
    fi
}
