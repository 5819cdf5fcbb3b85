/* test_collectives.c: collectives on plain tensors along an axis of a mesh. */
/* ranks: 1 2 3 4 8 */
/* mpi: 3 8 */
#include "support/worlds.h"

/* The largest three-axis mesh of this world, and 2x2x2 at 8 ranks. */
static struct wt_world open_cube(void)
{
    int n = wt_ranks(), a = n % 2 ? 1 : 2, b = n % 4 ? 1 : 2;

    return wt_world_open_mesh("a=%d,b=%d,c=%d", a, b, n / a / b);
}

/* MESH-29: and from the last rank, at a root of choice */
WT_TEST_IN_WORLD(collectives__broadcast_the_roots_elements, w)
{
    weft_tensor *t = wt_constant(3, 3, wt_rank());

    WT_ALL(weft_mesh_broadcast(t, w->mesh, 0, 0) == WEFT_OK && wt_local_is_all(t, 0));
    t = wt_constant(5, 1, wt_rank());
    WT_ALL(weft_mesh_broadcast(t, w->mesh, 0, wt_ranks() - 1) == WEFT_OK);
    WT_ALL(wt_local_is_all(t, wt_ranks() - 1));
}

/* MESH-30: chunks along dims 0, 1 and 2; those of later dims are not contiguous */
WT_TEST_IN_WORLD(collectives__scatter_chunks_of_any_dim, w)
{
    static const int64_t shapes[3][3] = {{3, 3, 3}, {24, 3, 3}, {24, 24, 3}};
    int n = wt_ranks();

    for (int dim = 0; dim < 3; dim++) {
        int64_t whole_shape[3], sizes[8];
        weft_tensor *whole, *parts[8], *mine;

        for (int d = 0; d < 3; d++) whole_shape[d] = shapes[dim][d] * (d == dim ? n : 1);
        whole = wt_whole3(WEFT_F32, dim, whole_shape[0], whole_shape[1], whole_shape[2]);
        for (int r = 0; r < n; r++) sizes[r] = shapes[dim][dim];
        WT_ALL(weft_split(parts, whole, dim, sizes, n) == WEFT_OK);
        mine = weft_full(WEFT_F32, shapes[dim], 3, -1);
        WT_ALL(weft_mesh_scatter(mine, wt_rank() == 0 ? parts : NULL, w->mesh, 0, 0) == WEFT_OK);
        WT_ALL(wt_near_tensors(mine, parts[wt_rank()], WT_EXACT));
    }
}

/* Cut back to the size that the chunk rule gives to a rank. */
static weft_tensor *unpadded(weft_tensor *padded, int dim, int64_t at, int64_t size)
{
    return weft_slice(padded, dim, at, at + size);
}

/* MESH-32: padded chunks as the case has them, and chunks as they are */
WT_TEST_IN_WORLD(collectives__all_gather_chunks_of_any_size, w)
{
    int n = wt_ranks();

    for (int dim = 0; dim < 2; dim++) {
        int64_t whole_size = dim ? 9 : 11, room = weft_chunk_size(whole_size, n, 0), sizes[8];
        weft_tensor *whole = wt_whole(WEFT_F32, dim, 11, 9), *pieces[8], *own, *padded, *all;

        for (int r = 0; r < n; r++) sizes[r] = weft_chunk_size(whole_size, n, r);
        WT_ALL(weft_split(pieces, whole, dim, sizes, n) == WEFT_OK);
        own = pieces[wt_rank()];
        padded = dim ? wt_constant(11, room - sizes[wt_rank()], 0)
                     : wt_constant(room - sizes[wt_rank()], 9, 0);
        padded = weft_cat((weft_tensor *[]){own, padded}, 2, dim);
        all = weft_mesh_all_gather(padded, dim, NULL, w->mesh, 0);
        WT_ALL(weft_size(all, dim) == room * n);
        for (int r = 0; r < n; r++) pieces[r] = unpadded(all, dim, room * r, sizes[r]);
        WT_ALL(wt_near_tensors(weft_cat(pieces, n, dim), whole, WT_EXACT));
        all = weft_mesh_all_gather(own, dim, sizes, w->mesh, 0);
        WT_ALL(wt_near_tensors(all, whole, WT_EXACT));
        all = weft_mesh_gather(own, dim, sizes, w->mesh, 0, n - 1);
        WT_ALL(wt_rank() == n - 1 ? weft_size(all, dim) == whole_size : weft_size(all, dim) == 0);
        WT_ALL(wt_near_tensors(wt_rank() == n - 1 ? all : whole, whole, WT_EXACT));
    }
}

/* MESH-35 */
WT_TEST_TIMES_IN(collectives__broadcast_along_each_axis, w, axis, 3, open_cube())
{
    weft_tensor *t = wt_constant(3, 3, wt_rank());
    int ranks[8];

    weft_mesh_group_ranks(w->mesh, axis, ranks, 8);
    WT_ALL(weft_mesh_broadcast(t, w->mesh, axis, 0) == WEFT_OK && wt_local_is_all(t, ranks[0]));
}

/* MESH-36 */
WT_TEST_TIMES_IN(collectives__scatter_along_each_axis, w, axis, 3, open_cube())
{
    weft_tensor *t = wt_constant(3, 3, -1), *parts[8];
    int ranks[8], count = weft_mesh_group_ranks(w->mesh, axis, ranks, 8);

    for (int i = 0; i < count; i++) parts[i] = wt_constant(3, 3, ranks[i]);
    WT_ALL(weft_mesh_scatter(t, parts, w->mesh, axis, count - 1) == WEFT_OK);
    WT_ALL(wt_local_is_all(t, wt_rank()));
}

WT_TEST_IN_WORLD(collectives__reduce_to_all_one_and_shards, w)
{
    int n = wt_ranks(), rank = wt_rank();
    weft_tensor *mine = weft_add_scalar(wt_whole(WEFT_F64, 1, 5, 7), rank), *sum, *part;
    double total = n * (n - 1) / 2.0;

    sum = weft_add_scalar(weft_mul_scalar(wt_whole(WEFT_F64, 1, 5, 7), n), total);
    WT_ALL(
        wt_near_tensors(weft_mesh_all_reduce(mine, WEFT_SUM, w->mesh, 0), sum, WT_WITHIN(1e-12)));
    WT_ALL(wt_local_is_all(weft_mesh_all_reduce(wt_constant(2, 2, rank), WEFT_MAX, w->mesh, 0),
                           n - 1));
    WT_ALL(wt_local_is_all(weft_mesh_all_reduce(wt_constant(0, 2, rank), WEFT_MIN, w->mesh, 0), 0));
    part = weft_mesh_reduce(mine, WEFT_SUM, w->mesh, 0, 0);
    WT_ALL(rank ? weft_numel(part) == 0 : weft_numel(part) == 35);
    WT_ALL(wt_near_tensors(rank ? sum : part, sum, WT_WITHIN(1e-12)));
    for (int dim = 0; dim < 2; dim++) {
        int64_t size = dim ? 7 : 5, at = weft_chunk_offset(size, n, rank);

        part = weft_mesh_reduce_scatter(mine, dim, WEFT_SUM, w->mesh, 0);
        WT_ALL(weft_size(part, dim) == weft_chunk_size(size, n, rank));
        WT_ALL(wt_near_tensors(part, weft_slice(sum, dim, at, at + weft_chunk_size(size, n, rank)),
                               WT_WITHIN(1e-12)));
    }
}

/* Rows to columns and back, uneven both ways. */
WT_TEST_IN_WORLD(collectives__exchange_chunks, w)
{
    int n = wt_ranks(), rank = wt_rank();
    weft_tensor *whole = wt_whole(WEFT_F32, 2, 11, 9), *rows, *columns;
    int64_t row_sizes[8], column_sizes[8], at;

    for (int r = 0; r < n; r++) {
        row_sizes[r] = weft_chunk_size(11, n, r);
        column_sizes[r] = weft_chunk_size(9, n, r);
    }
    at = weft_chunk_offset(11, n, rank);
    rows = weft_slice(whole, 0, at, at + row_sizes[rank]);
    columns = weft_mesh_all_to_all(rows, 1, 0, row_sizes, w->mesh, 0);
    at = weft_chunk_offset(9, n, rank);
    WT_ALL(wt_near_tensors(columns, weft_slice(whole, 1, at, at + column_sizes[rank]), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_mesh_all_to_all(columns, 0, 1, column_sizes, w->mesh, 0), rows,
                           WT_EXACT));
    columns = weft_mesh_all_to_all(wt_constant(n, 2, rank), 0, 0, NULL, w->mesh, 0);
    WT_ALL(wt_has_shape(columns, 2, n, 2));
    for (int r = 0; r < n; r++)
        WT_ALL(wt_local_is_all(weft_contiguous(weft_slice(columns, 0, r, r + 1)), r));
}

/* COMM-03: each counts once under its own name; the default mesh serves */
WT_TEST_IN_WORLD(collectives__are_counted_under_their_names, w)
{
    static const weft_coll kinds[] = {
        WEFT_COLL_BROADCAST,  WEFT_COLL_SCATTER, WEFT_COLL_ALL_GATHER,     WEFT_COLL_GATHER,
        WEFT_COLL_ALL_REDUCE, WEFT_COLL_REDUCE,  WEFT_COLL_REDUCE_SCATTER, WEFT_COLL_ALL_TO_ALL};
    weft_tensor *t = wt_constant(8, 3, 1), *parts[8];

    for (int r = 0; r < wt_ranks(); r++) parts[r] = t;
    weft_default_mesh_open(w->mesh);
    weft_mesh_broadcast(wt_constant(8, 3, 1), NULL, 0, 0);
    weft_mesh_scatter(wt_constant(8, 3, 1), parts, NULL, 0, 0);
    weft_mesh_all_gather(t, 0, NULL, NULL, 0);
    weft_mesh_gather(t, 0, NULL, NULL, 0, 0);
    weft_mesh_all_reduce(t, WEFT_SUM, NULL, 0);
    weft_mesh_reduce(t, WEFT_SUM, NULL, 0, 0);
    weft_mesh_reduce_scatter(t, 0, WEFT_SUM, NULL, 0);
    weft_mesh_all_to_all(t, 0, 0, NULL, NULL, 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        WT_EQ(weft_ledger_count(w->ledger, kinds[i], WEFT_DIRECTION_ANY, NULL), 1);
    weft_default_mesh_close(w->mesh);
}

/* One rank's tensor may lie in another order in memory than the others'. */
WT_TEST_TIMES_IN_WORLD(broadcast_and_scatter__write_to_views, w, turned, 2)
{
    weft_tensor *rows = wt_whole(WEFT_F32, 0, 3, 2), *list[8];
    weft_tensor *t =
        wt_rank() % 2 == turned ? weft_transpose(wt_constant(2, 3, 9), 0, 1) : wt_constant(3, 2, 9);

    for (int r = 0; r < wt_ranks(); r++) list[r] = weft_mul_scalar(rows, r + 1);
    WT_ALL(weft_mesh_scatter(t, list, w->mesh, 0, 0) == WEFT_OK);
    WT_ALL(wt_near_tensors(t, list[wt_rank()], WT_EXACT));
    WT_ALL(weft_mesh_broadcast(t, w->mesh, 0, wt_ranks() - 1) == WEFT_OK);
    WT_ALL(wt_near_tensors(t, list[wt_ranks() - 1], WT_EXACT));
}

WT_TEST_IN_WORLD(collectives__refuse_what_does_not_fit, w)
{
    weft_tensor *t = wt_constant(2, 2, 1);
    weft_placement whole = weft_replicate();
    int64_t sizes[8] = {5, 5, 5, 5, 5, 5, 5, 5};

    WT_FAILS(weft_mesh_broadcast(t, w->mesh, 1, 0), WEFT_ERR_ARG, "has no axis 1");
    WT_FAILS(weft_mesh_broadcast(t, w->mesh, 0, wt_ranks()), WEFT_ERR_ARG, "on axis 0 of");
    WT_FAILS(weft_mesh_all_gather(t, 2, NULL, w->mesh, 0), WEFT_ERR_ARG, "mesh_all_gather: dim 2");
    if (wt_ranks() == 1) { /* beside others it ends the job: tests/traps/test_disagreement.c */
        WT_ALL(!weft_mesh_all_gather(t, 0, sizes, w->mesh, 0));
        WT_FAILED(WEFT_ERR_SHAPE, "has the size 2 here, not 5");
    }
    WT_ALL(!weft_mesh_all_reduce(t, WEFT_AVG, w->mesh, 0));
    WT_FAILED(WEFT_ERR_ARG, "only sum, product, max and min");
    WT_ALL(!weft_mesh_all_reduce(weft_full(WEFT_BOOL, NULL, 0, 1), WEFT_SUM, w->mesh, 0));
    WT_FAILED(WEFT_ERR_DTYPE, "bool cannot be reduced");
    WT_ALL(!weft_mesh_all_reduce(weft_distribute_tensor(t, w->mesh, &whole, -1), WEFT_SUM, w->mesh,
                                 0));
    WT_FAILED(WEFT_ERR_ARG, "is distributed");
}

/* All ranks alike, where comm itself would end the job. */
WT_TEST_IN_WORLD(collectives__only_add_up_complex_numbers, w)
{
    static const weft_reduce others[] = {WEFT_PRODUCT, WEFT_MAX, WEFT_MIN};
    weft_tensor *t = weft_full(WEFT_C64, (int64_t[]){8}, 1, 2), *sum;

    for (int i = 0; i < 3; i++) {
        WT_ALL(!weft_mesh_all_reduce(t, others[i], w->mesh, 0));
        WT_FAILED(WEFT_ERR_DTYPE, "mesh_all_reduce: c64 cannot be reduced but by a sum");
        WT_ALL(!weft_mesh_reduce(t, others[i], w->mesh, 0, 0));
        WT_FAILED(WEFT_ERR_DTYPE, "c64 cannot be reduced but by a sum");
        WT_ALL(!weft_mesh_reduce_scatter(t, 0, others[i], w->mesh, 0));
        WT_FAILED(WEFT_ERR_DTYPE, "c64 cannot be reduced but by a sum");
    }
    sum = weft_mesh_all_reduce(t, WEFT_SUM, w->mesh, 0);
    t = weft_full(WEFT_C64, (int64_t[]){8}, 1, 2 * wt_ranks());
    WT_ALL(wt_near_tensors(weft_view_as_real(sum), weft_view_as_real(t), WT_EXACT));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "collectives"); }
