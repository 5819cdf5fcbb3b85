/* after_finalize.c: what a program may still do with a step graph after weft_finalize, and what
 * not. */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

static weft_tensor *step(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    (void)payload;
    return weft_add(in[0], in[0]);
}

/* The graph has left the device with the rank: its handle is released, and not launched. */
int main(int argc, char **argv)
{
    weft_step_graph *graph;
    weft_mesh *mesh;
    weft_tensor *x;
    bool launched, refused;

    WEFT_CHECK(weft_init(&argc, &argv));
    mesh = weft_mesh_new(WEFT_CUDA, "tp=%d", weft_world_size());
    x = weft_full(WEFT_F32, (int64_t[]){8}, 1, 1);
    graph = weft_step_graph_new(mesh, step, NULL);
    for (int i = 0; i < 4; i++) (void)weft_step_graph_run(graph, &x, 1);
    launched = weft_step_graph_launch_count(graph) == 2;
    if (weft_finalize()) return 1;
    refused = !weft_step_graph_run(graph, &x, 1) && weft_error_status() == WEFT_ERR_STATE &&
              strstr(weft_error_message(), "captured before weft_finalize");
    printf("launched: %d, refused: %d\n", launched, refused);
    weft_step_graph_release(graph);
    return !launched || !refused;
}
