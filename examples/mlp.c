/*
 * mlp.c: an MLP trained over all ranks of the program.
 *
 *     ./mlp                    one process
 *     mpiexec -n 4 ./mlp       the same losses on four
 *
 * The model is written as for one device; the plan alone says how it is split.
 */
#include <math.h>
#include <stdio.h>

#include <weft/weft.h>

enum { ROWS = 16, IN = 1024, OUT = 1024, STEPS = 100 };

/* Smooth data with something to learn: every rank makes the same. */
static weft_tensor *input(int step)
{
    static float x[ROWS * IN];
    int64_t shape[] = {ROWS, IN};

    for (int i = 0; i < ROWS * IN; i++) x[i] = sinf(0.37f * (float)i + (float)(step % 10));
    return weft_from_data(WEFT_F32, shape, 2, x);
}

static weft_tensor *target(int step)
{
    static float y[ROWS * OUT];
    int64_t shape[] = {ROWS, OUT};

    for (int i = 0; i < ROWS * OUT; i++) y[i] = cosf(0.37f * (float)i + (float)(step % 10));
    return weft_from_data(WEFT_F32, shape, 2, y);
}

int main(int argc, char **argv)
{
    WEFT_CHECK(weft_init(&argc, &argv));
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_module *mlp =
        weft_mlp((weft_mlp_config){.in = IN, .hidden = 4096, .out = OUT, .act = WEFT_GELU});
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};
    WEFT_CHECK(weft_parallelize_module_strict(mlp, mesh, plan));
    weft_optim *adam = weft_adamw(mlp, (weft_adamw_config){.lr = 3e-4});

    for (int step = 0; step < STEPS; step++) {
        weft_scope *s = weft_scope_open();
        weft_tensor *loss = weft_mse(weft_call(mlp, input(step)), target(step));
        WEFT_CHECK(weft_backward(loss));
        WEFT_CHECK(weft_step(adam));
        if (weft_world_rank() == 0 && step % 10 == 0)
            printf("step %3d  loss %.6f\n", step, weft_item(loss));
        weft_scope_close(s);
    }

    weft_optim_release(adam);
    weft_module_release(mlp);
    weft_mesh_release(mesh);
    return weft_finalize();
}
