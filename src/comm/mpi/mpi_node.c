/*
 * mpi_node.c: which ranks run on one node. MPI_COMM_TYPE_SHARED does not decide it: Debian's
 * MPICH 5.0.2 takes each rank for a node of its own, and then no two ranks would share memory. Here
 * a node is a kernel, a host name and a network namespace; a container with a network of its own is
 * a node. comm/shm/comm_node.c finds out whether the ranks of a node do share memory: it maps it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/hash.h"
#include "base/mem.h"
#include "comm/mpi/mpi_comm.h"

/* A number per start of a kernel; two machines never have the same. */
static void read_boot_id(char *text, size_t bytes)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

    text[0] = '\0';
    if (!file) return;
    if (!fgets(text, (int)bytes, file)) text[0] = '\0';
    fclose(file);
}

static uint64_t hash_of_node(void)
{
    char boot[64], text[256];
    struct utsname system = {.nodename = ""};
    struct stat network = {.st_ino = 0};
    int length;

    read_boot_id(boot, sizeof boot);
    (void)uname(&system);
    (void)stat("/proc/self/ns/net", &network);
    length = snprintf(text, sizeof text, "%s %s %llu", boot, system.nodename,
                      (unsigned long long)network.st_ino);
    return wf_hash_bytes(text, (size_t)length);
}

MPI_Comm wf_mpi_comm_of_node(MPI_Comm world)
{
    uint64_t mine = hash_of_node(), *nodes;
    int me, size, first = 0;
    MPI_Comm here;

    WF_MPI(MPI_Comm_rank(world, &me));
    WF_MPI(MPI_Comm_size(world, &size));
    nodes = wf_malloc((size_t)size * sizeof *nodes);
    wf_mpi_allgather_bytes(world, &mine, nodes, sizeof mine);
    while (nodes[first] != mine) first++;
    wf_free(nodes);
    WF_MPI(MPI_Comm_split(world, first, me, &here));
    return here;
}
