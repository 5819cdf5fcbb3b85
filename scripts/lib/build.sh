# build.sh: configuring and building. Source it after packages.sh, from the top of the tree.
# shellcheck shell=bash

JOBS=${WEFT_JOBS:-$(nproc)}

# build_tree FOLDER [CMAKE-ARGUMENTS... [-- TARGETS...]]: configure and build; output only when it fails.
build_tree() {
    local folder=$1 configure=() targets=() log
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        configure+=("$1")
        shift
    done
    [ $# -gt 0 ] && shift && targets=(--target "$@")

    mkdir -p "$folder"
    log=$folder/build.log
    echo "Building $folder"
    if ! { cmake -S . -B "$folder" -G Ninja "${configure[@]}" &&
        cmake --build "$folder" --parallel "$JOBS" "${targets[@]}"; } > "$log" 2>&1; then
        tail -n 60 "$log"
        echo "The build of $folder failed; its log is $log" >&2
        exit 1
    fi
}
