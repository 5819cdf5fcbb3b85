/*
 * main.c: weft-gpu-check: does the library work on the GPUs of this machine, and as fast as its
 * documents say? One rank per GPU:
 *
 *     weft-gpu-check [--no-speed] [--json FILE]
 *     mpiexec -n 2 weft-gpu-check
 *
 * Exits 1 when a line fails, 2 when nothing could be checked.
 */
#include <stdio.h>
#include <string.h>

#include "base/settings/knob.h"
#include "comm/backend.h"
#include "comm/stream_ordered.h"
#include "device/device.h"
#include "gpu/check/check.h"
#include "gpu/check/report.h"
#include "mesh/mesh.h"

struct options {
    bool speed;
    const char *json;
};

static bool read_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){.speed = true};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--no-speed") == 0)
            options->speed = false;
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            options->json = argv[++i];
        else
            return false;
    return true;
}

/* What it was found with: without NCCL or cuBLASLt all of it works, more slowly. */
static void report_facts(weft_mesh *gpus)
{
    const struct wf_coll gather = {.kind = WEFT_COLL_ALL_GATHER};
    struct wf_comm *comm = wf_mesh_axis_comm(gpus, 0);
    char text[256];

    wf_device_driver->describe(text, sizeof text);
    report_fact("gpu", "%s; ranks: %d, GPUs of this machine: %d", text, weft_world_size(),
                weft_device_count(WEFT_CUDA));
    report_fact("collectives", "%s",
                comm->size == 1 ? "one rank" : wf_comm_device_backend(comm, &gather)->name);
    report_fact("products", "%s",
                wf_knobs.cublas ? "by cuBLASLt where it is found" : "by own kernels");
}

int main(int argc, char **argv)
{
    struct options options;
    weft_mesh *hosts, *gpus;
    int failures;

    WEFT_CHECK(weft_init(&argc, &argv));
    if (!read_options(&options, argc, argv)) {
        if (weft_world_rank() == 0)
            fprintf(stderr, "usage: weft-gpu-check [--no-speed] [--json FILE]\n");
        weft_finalize();
        return 2;
    }
    hosts = weft_mesh_new(WEFT_CPU, "rank=%d", weft_world_size());
    gpus = weft_mesh_new(WEFT_CUDA, "tp=%d", weft_world_size());
    if (!gpus) {
        fprintf(stderr, "%s\n", weft_error_message());
        weft_finalize();
        return 2;
    }
    report_begin(hosts);
    report_facts(gpus);
    check_rows();
    check_random();
    check_collectives(gpus);
    check_training(gpus);
    if (options.speed) check_speed();
    failures = report_end(options.json);
    weft_mesh_release(gpus);
    weft_mesh_release(hosts);
    return weft_finalize() || failures > 0;
}
