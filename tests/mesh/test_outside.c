/* test_outside.c: tensors over meshes that leave ranks of the world out. */
/* ranks: 3 4 8 */
/* mpi: 8 */
#include "support/worlds.h"

/* Ranks 0, 2, 4, ... */
static weft_mesh *even_ranks(int count)
{
    int ranks[4];

    for (int i = 0; i < count; i++) ranks[i] = 2 * i;
    return weft_mesh_from_ranks(WEFT_CPU, &count, 1, "tp", ranks);
}

/* DT-32: ranks 0 and 2; at 8 ranks also 0, 2, 4, 6 */
WT_TEST(outside__a_mesh_ranks_hold_nothing)
{
    weft_placement sharded = weft_shard(0), whole = weft_replicate();

    for (int count = 2; 2 * count - 1 <= wt_ranks(); count += 2) {
        weft_mesh *mesh = even_ranks(count);
        bool inside = weft_mesh_is_member(mesh);
        weft_tensor *t, *local;

        WT_ALL(inside == (wt_rank() % 2 == 0 && wt_rank() < 2 * count));
        t = weft_from_local(weft_full(WEFT_F32, (int64_t[]){4, 3}, 2, 1), mesh, &sharded, NULL);
        t = weft_redistribute(t, &whole);
        local = weft_to_local(t, NULL);
        WT_ALL(inside ? wt_has_shape(local, 2, 4 * count, 3) : weft_numel(local) == 0);
        WT_ALL(wt_local_is_all(t, 1) && weft_size(t, 0) == 4 * count);
        t = weft_redistribute(t, &sharded);
        local = weft_to_local(t, NULL);
        WT_ALL(inside ? wt_has_shape(local, 2, 4, 3) : weft_numel(local) == 0);
        WT_ALL(wt_local_is_all(t, 1));
        weft_mesh_release(mesh);
    }
}

/* Everything can be called there harmlessly: ops, gradients, reductions */
WT_TEST(outside__ranks_call_everything_harmlessly)
{
    weft_mesh *mesh = even_ranks(2);
    weft_placement sharded = weft_shard(0), whole = weft_replicate();
    weft_tensor *x, *w, *y, *loss;
    bool inside = weft_mesh_is_member(mesh);

    x = weft_distribute_tensor(wt_whole(WEFT_F32, 1, 6, 4), mesh, &sharded, 0);
    w = weft_distribute_tensor(wt_whole(WEFT_F32, 2, 4, 5), mesh, &whole, 0);
    weft_set_requires_grad(w, true);
    y = weft_matmul(weft_relu(x), w);
    loss = weft_sum_all(weft_square(y));
    WT_ALL(weft_backward(loss) == WEFT_OK);
    WT_ALL(weft_local_numel(weft_grad(w)) == (inside ? 20 : 0));
    WT_ALL(weft_local_numel(weft_full_tensor(y)) == (inside ? 30 : 0));
    weft_mesh_release(mesh);
}

/* Two halves of the world work on tensors of their own at the same time. */
WT_TEST(outside__each_other_two_meshes_work_side_by_side)
{
    int n = wt_ranks(), half = n / 2, ranks[8], mine = wt_rank() < half ? 0 : 1;
    weft_mesh *mesh;
    weft_placement sharded = weft_shard(0);
    weft_tensor *t;

    if (n % 2) return;
    for (int i = 0; i < half; i++) ranks[i] = half - 1 - i + mine * half;
    mesh = weft_mesh_from_ranks(WEFT_CPU, &half, 1, "tp", ranks);
    t = weft_from_local(weft_full(WEFT_F64, (int64_t[]){3}, 1, wt_rank()), mesh, &sharded, NULL);
    t = weft_full_tensor(weft_sum_all(t));
    WT_ALL(weft_item(t) ==
           3.0 * (mine ? half * half + half * (half - 1) / 2 : half * (half - 1) / 2));
    weft_mesh_release(mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "outside"); }
