/*
 * test_flat.c: distributed tensors taken apart and put together again, in memory and as bytes, and
 * tensors made like others or seen by strides.
 */
/* mpi: 4 */
#include <stdlib.h>
#include <string.h>

#include "support/stderr_text.h"
#include "support/worlds.h"
#include "tensor/tensor.h"

/* ---- a local tensor and the rest ---- */

static weft_tensor *from_parts(struct wt_world *w, weft_tensor *local, int64_t rows,
                               bool requires_grad)
{
    weft_placement p = weft_shard(0);
    weft_dtensor_spec rest = {.dtype = weft_tensor_dtype(local), .requires_grad = requires_grad};

    if (weft_layout_make(&rest.layout, w->mesh, &p, 1, (int64_t[]){rows, 3}, 2) != WEFT_OK)
        return NULL;
    return weft_dtensor_wrap(local, &rest);
}

/* DT-01: 3 rows each, and uneven shards. */
WT_TEST_TIMES_IN_WORLD(flat__builds_a_tensor_from_its_shards, w, i, 3)
{
    const int64_t rows[] = {3 * wt_ranks(), 7, 1};
    int64_t mine = weft_chunk_size(rows[i], wt_ranks(), wt_rank());
    weft_tensor *local = wt_constant(mine, 3, 2), *t = from_parts(w, local, rows[i], true);

    WT_ALL(wt_has_shape(t, 2, rows[i], (int64_t)3) && weft_requires_grad(t) && !t->node);
    WT_ALL(weft_data(t) == weft_data(local) && wt_is_placed(t, "S(0)"));
    WT_ALL(weft_backward(weft_sum_all(t)) == WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(t), 1) && weft_grad(local) == NULL);
    wt_stderr_begin();
    t = from_parts(w, weft_set_requires_grad(local, true), rows[i], false);
    WT_ALL(wt_stderr_had("weft_from_local passes"));
    WT_ALL(t && !weft_requires_grad(t));
    if (wt_ranks() == 1) { /* beside others it ends the job: tests/traps/test_disagreement.c */
        WT_ALL(!from_parts(w, local, 4 * rows[i] + 4, true));
        WT_FAILED(WEFT_ERR_SHAPE, "dtensor_wrap");
    }
}

WT_TEST_TIMES_IN_WORLD(flat__gives_the_local_tensor_and_takes_it_back, w, i, 6)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "R", "P", "SS(0,2)", "S(0,balanced)"};
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F64, 0, 7, 4), layouts[i]), *local, *back;
    weft_dtensor_spec rest, again;

    WT_ALL(!weft_dtensor_unwrap(t, NULL)); /* trial 3 */
    WT_FAILED(WEFT_ERR_ARG, "dtensor_unwrap: no place");
    wt_moved(w, WEFT_COLL_COUNT);
    local = weft_dtensor_unwrap(t, &rest);
    WT_ALL(local && weft_tensor_mesh(local) == NULL && weft_data(local) == weft_data(t));
    back = weft_dtensor_wrap(local, &rest);
    WT_ALL(back->layout == t->layout && weft_data(back) == weft_data(t));
    WT_ALL(weft_dtensor_unwrap(back, &again) && weft_dtensor_spec_equal(&rest, &again));
    WT_STILL(w);
    WT_FAILS(weft_dtensor_unwrap(local, &again), WEFT_ERR_ARG, "plain");
    WT_FAILS(weft_dtensor_wrap(t, &rest), WEFT_ERR_ARG, "distributed already");
    rest.dtype = WEFT_F32;
    WT_FAILS(weft_dtensor_wrap(local, &rest), WEFT_ERR_DTYPE, "f64, not f32");
}

static weft_dtensor_spec flat_of(weft_tensor *t)
{
    weft_dtensor_spec rest = {0};

    weft_dtensor_unwrap(t, &rest);
    return rest;
}

/* DT-26: what it depends on, one by one, and that data and gradient are not in it. */
WT_TEST_TIMES_IN_WORLD(flat__equality_is_that_of_everything_but_data, w, i, 2)
{
    static const int64_t sizes[][2] = {{3, 3}, {8, 5}};
    weft_mesh *other = weft_mesh_new(WEFT_CPU, "other=%d", wt_ranks());
    weft_placement p = weft_shard(0);
    int64_t a = sizes[i][0], b = sizes[i][1];
    weft_tensor *one = wt_constant(a, b, 1);
    weft_dtensor_spec base = flat_of(wt_spread(w, one, "S(0)")), twin, differ[6];

    twin = flat_of(weft_set_requires_grad(wt_spread(w, wt_constant(a, b, 2), "S(0)"), true));
    differ[0] = flat_of(wt_spread(w, one, "R"));
    differ[1] = flat_of(weft_distribute_tensor(one, other, &p, -1));
    differ[2] = flat_of(wt_spread(w, wt_constant(a + 1, b, 1), "S(0)"));
    differ[3] = flat_of(wt_spread(w, weft_cast(one, WEFT_F64), "S(0)"));
    differ[4] = flat_of(weft_to_device(wt_spread(w, one, "S(0)"), WEFT_META));
    differ[5] = base;
    differ[5].layout.stride[0] = 1;
    differ[5].layout.stride[1] = a;
    WT_ALL(weft_dtensor_spec_equal(&base, &twin) &&
           weft_dtensor_spec_hash(&base) == weft_dtensor_spec_hash(&twin));
    for (int d = 0; d < 6; d++) {
        wt_note("difference %d", d);
        WT_ALL(!weft_dtensor_spec_equal(&base, &differ[d]));
        WT_ALL(weft_dtensor_spec_hash(&base) != weft_dtensor_spec_hash(&differ[d]));
    }
    weft_mesh_release(other);
}

/* ---- bytes ---- */

static weft_tensor *saved_and_loaded(weft_tensor *t)
{
    int64_t size = weft_shard_to_bytes(t, NULL, 0);
    char *bytes = malloc((size_t)size + 1);
    weft_tensor *back = NULL;

    if (weft_shard_to_bytes(t, bytes, size) == size) back = weft_shard_from_bytes(bytes, size);
    free(bytes);
    return back;
}

/* DT-27 */
WT_TEST_TIMES_IN_WORLD(save__and_load_give_each_rank_its_part_back, w, i, 18)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "R", "P", "SS(0,2)", "S(1,balanced)"};
    static const int64_t sizes[][2] = {{8, 3}, {5, 7}, {1, 2}};
    weft_tensor *whole =
        wt_whole(i % 2 ? WEFT_F32 : WEFT_BF16, 0, sizes[i / 6][0], sizes[i / 6][1]);
    weft_tensor *t = wt_spread(w, whole, layouts[i % 6]), *back;

    weft_set_requires_grad(t, true);
    wt_moved(w, WEFT_COLL_COUNT);
    back = saved_and_loaded(t);
    WT_ALL(back && back->layout == t->layout && weft_data(back) != weft_data(t));
    WT_ALL(weft_requires_grad(back) && !back->node);
    WT_STILL(w);
    WT_ALL(weft_local_numel(t) == 0 ||
           memcmp(weft_data(t), weft_data(back),
                  (size_t)weft_local_numel(t) * weft_dtype_size(weft_tensor_dtype(t))) == 0);
}

WT_TEST_IN(save__keeps_meshes_of_several_axes_and_plain_tensors, w,
           wt_world_open_mesh("dp=%d,tp=%d", wt_ranks() % 2 ? 1 : 2,
                              wt_ranks() % 2 ? wt_ranks() : wt_ranks() / 2))
{
    weft_tensor *plain = wt_whole(WEFT_F64, 0, 5, 6), *back;

    back = saved_and_loaded(wt_spread(w, plain, "S(1),S(0)"));
    WT_ALL(weft_tensor_mesh(back) == w->mesh && wt_near_tensors(back, plain, WT_EXACT));
    back = saved_and_loaded(weft_transpose(plain, 0, 1));
    WT_ALL(weft_tensor_mesh(back) == NULL);
    WT_ALL(wt_near_tensors(back, weft_transpose(plain, 0, 1), WT_EXACT));
    back = saved_and_loaded(weft_to_device(wt_spread(w, plain, "S(0),R"), WEFT_META));
    WT_ALL(weft_tensor_device(back) == WEFT_META && wt_is_placed(back, "S(0),R"));
}

/* Any cut and any flipped byte of the head is an error or a tensor, never a crash. */
WT_TEST(load__refuses_what_is_no_tensor)
{
    struct wt_world w;
    weft_tensor *t;
    int64_t size;
    char *bytes, *copy;
    bool refused = true;

    if (wt_ranks() > 1)
        return; /* beside other ranks, which have bytes of their own, it ends the job */
    w = wt_world_open();
    t = wt_spread(&w, wt_whole(WEFT_F32, 0, 6, 3), "S(0)");
    size = weft_shard_to_bytes(t, NULL, 0);
    bytes = malloc((size_t)size);
    copy = malloc((size_t)size);
    WT_ALL(weft_shard_to_bytes(t, bytes, size) == size);
    for (int64_t n = 0; n<size; n += n> 40 ? 37 : 1) {
        memcpy(copy, bytes, (size_t)n);
        refused &= !weft_shard_from_bytes(copy, n) && weft_error_status() == WEFT_ERR_IO;
        weft_error_clear();
    }
    WT_ALL(refused);
    for (int64_t at = 0; at < size; at++) {
        weft_scope *scope = weft_scope_open();

        memcpy(copy, bytes, (size_t)size);
        copy[at] = (char)(copy[at] ^ 0x41);
        weft_shard_from_bytes(copy, size);
        weft_error_clear();
        weft_scope_close(scope);
    }
    copy[0] = 'x';
    WT_FAILS(weft_shard_from_bytes(copy, size), WEFT_ERR_IO, "no saved tensor");
    WT_ALL(weft_shard_to_bytes(NULL, NULL, 0) == -1);
    WT_FAILED(WEFT_ERR_ARG, "no tensor");
    free(bytes);
    free(copy);
    wt_world_close(&w);
}

/* ---- made like others ---- */

/* DT-22: also column-major, another shape, and a partial one. */
WT_TEST_TIMES_IN_WORLD(new_empty__keeps_shape_stride_and_placements, w, i, 3)
{
    static const int64_t sizes[][2] = {{8, 8}, {6, 5}, {3, 1}};
    const int64_t *shape = sizes[i], rows[] = {shape[1], 1}, columns[] = {1, shape[0]},
                  other[] = {4, 2}, gap[] = {2 * shape[1], 1};
    weft_tensor *source = wt_spread(w, wt_constant(shape[0], shape[1], 2), "S(0)"), *t;
    bool even = shape[0] % weft_mesh_size(w->mesh) == 0;

    weft_set_requires_grad(source, true);
    t = weft_new_empty(source, shape, rows, 2);
    WT_ALL(wt_has_shape(t, 2, shape[0], shape[1]) && wt_is_placed(t, even ? "S(0)" : "R"));
    if (!even) WT_ALL(weft_local_size(t, 0) == shape[0] && weft_local_stride(t, 0) == shape[1]);
    if (!even) t = weft_new_empty(source, shape, NULL, 2);
    WT_ALL(weft_fill_(t, 1) == WEFT_OK && weft_set_requires_grad(t, true));
    WT_ALL(weft_backward(weft_sum_all(t)) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(t), "S(0)") && wt_is_all(weft_grad(t), 1));
    WT_ALL(weft_backward(weft_sum_all(weft_to_local(source, NULL))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(source), "S(0)") && wt_is_all(weft_grad(source), 1));
    t = weft_new_empty(source, shape, columns, 2);
    WT_ALL(wt_is_placed(t, even ? "S(0)" : "R"));
    WT_ALL(weft_local_numel(t) < 2 || weft_local_size(t, 0) < 2 || weft_local_stride(t, 0) == 1);
    WT_ALL(wt_is_placed(weft_new_empty(source, other, NULL, 2), "R"));
    t = wt_partial(w, wt_constant(shape[0], shape[1], 2), WEFT_SUM);
    WT_ALL(wt_is_placed(weft_new_empty(t, shape, NULL, 2), "R"));
    WT_ALL(shape[0] < 2 || !weft_new_empty(source, shape, gap, 2));
    if (shape[0] > 1) WT_FAILED(WEFT_ERR_ARG, "not those of a dense tensor");
}

/* DT-38: and permutations of its dims, with a gradient; nothing else. */
WT_TEST_TIMES_IN_WORLD(as_strided__shows_the_tensor_itself_or_its_dims_permuted, w, i, 3)
{
    static const int64_t sizes[][2] = {{8, 4}, {5, 7}, {1, 3}};
    const int64_t *shape = sizes[i], stride[] = {shape[1], 1}, turned[] = {shape[1], shape[0]},
                  back[] = {1, shape[1]}, wrong[] = {shape[1] + 1, 1};
    weft_tensor *whole = wt_whole(WEFT_F64, 0, shape[0], shape[1]),
                *t = wt_spread(w, whole, "S(0)"), *plain, *p;

    weft_set_requires_grad(t, true);
    WT_ALL(weft_as_strided(t, shape, stride, 2, 0) == t);
    WT_ALL(weft_as_strided(whole, shape, stride, 2, 0) == whole);
    WT_ALL(!weft_as_strided(whole, NULL, stride, 2, 0)); /* trial 3 */
    WT_FAILED(WEFT_ERR_ARG, "no shape or no strides");
    p = weft_as_strided(t, turned, back, 2, 0);
    plain = weft_as_strided(whole, turned, back, 2, 0);
    WT_ALL(weft_data(p) == weft_data(t) && wt_is_placed(p, "S(1)"));
    WT_ALL(weft_backward(weft_sum_all(weft_square(p))) == WEFT_OK);
    if (shape[0] % weft_mesh_size(w->mesh) == 0) WT_STILL(w);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(wt_near_tensors(p, plain, WT_EXACT));
    WT_ALL(wt_near_tensors(weft_grad(t), weft_mul_scalar(whole, 2), WT_WITHIN(1e-15)));
    WT_FAILS(weft_as_strided(t, shape, stride, 2, 1), WEFT_ERR_ARG, "as_strided");
    if (shape[0] > 1) WT_FAILS(weft_as_strided(t, shape, wrong, 2, 0), WEFT_ERR_ARG, "as_strided");
    WT_ALL(!weft_as_strided(t, (int64_t[]){shape[0] * shape[1]}, (int64_t[]){1}, 1, 0));
    WT_FAILED(WEFT_ERR_ARG, "as_strided");
}

/* Ranks with one row or none do not know the order of the dims themselves; the first has more. */
WT_TEST_TIMES_IN_WORLD(as_strided__has_one_answer_on_ranks_with_little, w, i, 3)
{
    const int64_t rows = wt_ranks() + 1, cols = i == 0 ? 4 : i == 1 ? rows : 2;
    weft_tensor *whole = wt_whole(WEFT_F32, 0, rows, cols),
                *t = weft_transpose(wt_spread(w, whole, "S(0)"), 0, 1), *back;

    WT_ALL(weft_as_strided(t, (int64_t[]){cols, rows}, (int64_t[]){1, cols}, 2, 0) == t);
    back = weft_as_strided(t, (int64_t[]){rows, cols}, (int64_t[]){cols, 1}, 2, 0);
    WT_ALL(back && wt_is_placed(back, "S(0)") && wt_near_tensors(back, whole, WT_EXACT));
    WT_FAILS(weft_as_strided(t, (int64_t[]){rows, cols}, (int64_t[]){cols, 2}, 2, 0), WEFT_ERR_ARG,
             "as_strided");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "flat"); }
