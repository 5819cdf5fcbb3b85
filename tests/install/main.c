/* A program that an installed Weft must serve: one column-wise product on two rank threads. */
#include <stdio.h>

#include <weft/weft.h>

static int body(void *payload)
{
    const int64_t shape[2] = {4, 4};
    const weft_placement columns[1] = {weft_shard(1)};
    weft_scope *scope = weft_scope_open();
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_tensor *x = weft_distribute_tensor(weft_full(WEFT_F32, shape, 2, 0.5), mesh, columns, -1);
    double sum = weft_item(weft_full_tensor(weft_sum_all(weft_matmul(x, x))));

    (void)payload;
    weft_mesh_release(mesh);
    weft_scope_close(scope);
    return sum == 16.0 ? 0 : 1;
}

int main(void)
{
    int failed = weft_run(2, body, NULL);

    printf("%s\n", failed ? weft_error_message() : "ok");
    return failed;
}
