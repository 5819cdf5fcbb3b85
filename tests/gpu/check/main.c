/*
 * main.c: weft-gpu-check: does the library work on the GPUs of this machine, and as fast as its
 * documents say? One rank per GPU:
 *
 *     weft-gpu-check [--no-speed] [--json FILE]
 *     mpiexec -n 2 weft-gpu-check
 *
 * Exits 1 when a line fails.
 */
#include <stdio.h>
#include <string.h>

#include "gpu/check/check.h"
#include "gpu/check/report.h"

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

int main(int argc, char **argv)
{
    struct options options;
    weft_mesh *hosts, *gpus;
    int failures;

    WEFT_CHECK(weft_init(&argc, &argv));
    if (!read_options(&options, argc, argv)) {
        if (weft_world_rank() == 0)
            fprintf(stderr, "usage: weft-gpu-check [--no-speed] [--json FILE]\n");
        return weft_finalize() || 2;
    }
    hosts = weft_mesh_new(WEFT_CPU, "rank=%d", weft_world_size());
    gpus = weft_mesh_new(WEFT_CUDA, "tp=%d", weft_world_size());
    if (!gpus) {
        fprintf(stderr, "%s\n", weft_error_message());
        return weft_finalize() || 2;
    }
    report_begin(hosts);
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
