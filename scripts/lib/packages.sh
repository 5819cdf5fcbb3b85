# packages.sh: Debian packages that scripts need. Source it; it defines functions and a list.
# shellcheck shell=bash

# mpi_packages: the packages of the MPI that the build will use (cmake/WeftMpi.cmake): the one that WEFT_MPI names, or
# none if an MPI is there already.
mpi_packages() {
    case ${WEFT_MPI:-} in
    mpich) echo mpich libmpich-dev ;;
    openmpi) echo openmpi-bin libopenmpi-dev ;;
    *) if ! command -v mpicc > /dev/null || ! command -v mpiexec > /dev/null; then echo mpich libmpich-dev; fi ;;
    esac
}

read -ra BUILD_PACKAGES <<< "build-essential cmake ninja-build pkg-config $(mpi_packages) libdnnl-dev libxxhash-dev check"

# as_root COMMAND...: run it as root, directly or through sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo > /dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

# missing_packages PACKAGE...: the ones that are not installed, one per line.
missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || echo "$package"
    done
}

# need_packages PACKAGE...: install what is missing, or say what is missing and end the script.
need_packages() {
    local missing
    if ! command -v dpkg-query > /dev/null; then
        echo "This is no Debian: the following must be here already: $*" >&2
        return 0
    fi
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -eq 0 ] && return 0

    echo "Installing: ${missing[*]}"
    if as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null; then
        return 0
    fi
    mapfile -t missing < <(missing_packages "$@")
    echo "Missing, and could not be installed (it takes root or sudo): ${missing[*]}" >&2
    exit 1
}
