#!/usr/bin/env bash
# hosts.sh: several hosts on one machine, for tests of ranks on different nodes.
#
#   hosts.sh run N RANKS PROGRAM...   RANKS ranks on N hosts, in equal blocks; the hosts are made
#                                     before and removed after, whatever happens
#
# A host is a network namespace on a bridge; MPI takes namespaces for machines. Names carry the
# process id, so that several runs do not meet. Needs root and iproute2: exit 77 (skip) without.
# MPIEXEC names the launcher (mpiexec).
set -u

tag=$(printf '%05d' $(($$ % 100000)))
net=10.$((64 + $$ % 64)).$(($$ / 64 % 250))

skip() {
    echo "skipped: $1"
    exit 77
}

up() {
    ip link add "wb$tag" type bridge && ip addr add "$net.254/24" dev "wb$tag" && ip link set "wb$tag" up || return 1
    for i in $(seq "$1"); do
        ip netns add "wf$tag-$i" &&
            ip link add "wv$tag-$i" type veth peer name eth0 netns "wf$tag-$i" &&
            ip link set "wv$tag-$i" master "wb$tag" up &&
            ip -n "wf$tag-$i" addr add "$net.$i/24" dev eth0 &&
            ip -n "wf$tag-$i" link set eth0 up &&
            ip -n "wf$tag-$i" link set lo up || return 1
    done
}

down() {
    [ -z "${job:-}" ] || kill -9 "$job" 2>/dev/null
    for name in $(ip netns list 2>/dev/null | awk '{print $1}' | grep "^wf$tag-"); do ip netns del "$name"; done
    ip link del "wb$tag" 2>/dev/null
    rm -f "$launcher" "${said:-}"
}

# What mpiexec calls in place of ssh: LAUNCHER [options] ADDRESS COMMAND...
write_launcher() {
    launcher=$(mktemp)
    cat >"$launcher" <<EOF
#!/usr/bin/env bash
while [[ \${1:-} == -* ]]; do shift; done
host=\$1
shift
exec ip netns exec "wf$tag-\${host##*.}" bash -c "\$*"
EOF
    chmod +x "$launcher"
}

if [ "${1:-}" != run ] || [ $# -lt 4 ]; then
    sed -n '2,8p' "$0" >&2
    exit 2
fi
hosts=$2 ranks=$3
shift 3
[ "$(id -u)" = 0 ] || skip "making hosts needs root"
command -v ip >/dev/null || skip "making hosts needs ip (iproute2)"
write_launcher
trap down EXIT
trap 'exit 1' INT TERM
up "$hosts" 2>/dev/null || skip "network namespaces cannot be made here"

# start PROGRAM...: the job on these hosts. Open MPI takes hosts with the ranks of each, and subnets.
start() {
    local each=$((ranks / hosts)) list
    if "$mpiexec" --version 2>&1 | grep -qE 'Open MPI|OpenRTE|PRTE'; then
        list=$(for i in $(seq "$hosts"); do echo "$net.$i:$each"; done | paste -sd,)
        exec "$mpiexec" --mca plm_rsh_agent "$launcher" --host "$list" -n "$ranks" \
            --mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24" --mca btl self,tcp --mca pml ob1 "$@"
    fi
    list=$(for i in $(seq "$hosts"); do echo "$net.$i"; done | paste -sd,)
    exec "$mpiexec" -launcher ssh -launcher-exec "$launcher" -hosts "$list" -iface "wb$tag" \
        -n "$ranks" -ppn "$each" -genv UCX_TLS tcp,self,posix -genv UCX_NET_DEVICES eth0 "$@"
}

mpiexec=${MPIEXEC:-mpiexec}
said=$(mktemp)
start "$@" >"$said" 2>&1 &
job=$!

# MPI_Finalize of MPICH 4.0.2 over UCX and TCP hangs now and then, with any program: a rank waits for
# a peer to close a connection, the peer waits in a barrier of the launcher (mpich pull request 6596).
# So programs say "verdict: pass" or "verdict: fail" for all ranks before they finalize, and ten
# seconds later that counts.
patience=0
while kill -0 "$job" 2>/dev/null && [ $patience -lt 50 ]; do
    sleep 0.2
    if grep -q '^verdict: ' "$said"; then patience=$((patience + 1)); fi
done
if kill -0 "$job" 2>/dev/null; then
    echo "MPI_Finalize did not return" >>"$said"
    grep -q '^verdict: pass' "$said"
else
    wait "$job"
fi
status=$?
cat "$said"
exit "$status"
