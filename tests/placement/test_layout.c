/* test_layout.c: interned layouts and what they say of a rank. */
#include <string.h>

#include "mesh/mesh.h"
#include "placement/layout.h"
#include "support/mpi_check.h"

static weft_mesh *mesh_of(int dp, int tp, int my_dp, int my_tp)
{
    static const char *const names[2] = {"dp", "tp"};
    int sizes[2] = {dp, tp}, coordinates[2] = {my_dp, my_tp};

    return wf_mesh_new_fake(sizes, coordinates, names, 2);
}

static void nothing_is_left(void) { ck_assert_int_eq(wf_layout_live_count(), 0); }

WT_UNIT(layout__equal_ones_are_the_same_pointer)
{
    weft_mesh *mesh = mesh_of(2, 4, 0, 1);
    weft_placement p[2] = {weft_replicate(), weft_shard(1)},
                   q[2] = {weft_replicate(), weft_shard(0)};
    int64_t shape[2] = {8, 16};
    struct wf_layout *a = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 2),
                     *b = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 2);
    struct wf_layout *others[4] = {wf_layout_new(mesh, q, WEFT_F32, shape, NULL, 2),
                                   wf_layout_new(mesh, p, WEFT_F64, shape, NULL, 2),
                                   wf_layout_new(mesh, p, WEFT_F32, shape + 1, NULL, 1),
                                   wf_layout_new(NULL, NULL, WEFT_F32, shape, NULL, 2)};

    ck_assert_ptr_eq(a, b);
    ck_assert_int_eq(wf_layout_live_count(), 5);
    for (int i = 0; i < 4; i++) {
        ck_assert_ptr_ne(a, others[i]);
        wf_layout_release(others[i]);
    }
    wf_layout_release(b);
    ck_assert_int_eq(wf_layout_live_count(), 1);
    wf_layout_release(a);
    weft_mesh_release(mesh);
}

/* PLC-37: as the library holds them; layouts that differ in one field of a placement are others. */
WT_UNIT(layout__placements_are_told_apart_by_every_field)
{
    static const char *const texts[] = {
        "S(0),S(0)",    "S(0)[1],S(0)[0]", "S(0,balanced),S(0)", "S(0|2,1),S(0)",  "S(0|1,2),S(0)",
        "SS(0,2),S(0)", "SS(0,1),S(0)",    "S(0),SS(0,2)",       "S(1),S(0)",      "R,S(0)",
        "P,S(0)",       "P(masked),S(0)",  "P(norm 2),S(0)",     "P(norm 3),S(0)", "S(0|2,1),R"};
    enum { COUNT = sizeof texts / sizeof texts[0] };
    weft_mesh *mesh = mesh_of(2, 2, 1, 0);
    struct wf_layout *l[COUNT];
    int64_t shape[2] = {6, 5};

    for (int i = 0; i < COUNT; i++) {
        weft_placement p[2];

        ck_assert_int_eq(weft_placements_parse(p, 2, texts[i]), 2);
        l[i] = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 2);
        for (int j = 0; j < i; j++) ck_assert(l[i] != l[j] && l[i]->hash != l[j]->hash);
    }
    ck_assert(l[0]->boxes && l[1]->boxes && l[2]->boxes && !l[3]->boxes && !l[5]->boxes);
    ck_assert_ptr_null(l[1]->desc.runs);
    ck_assert_int_eq(l[14]->desc.runs->count[0], 2); /* the second half of 4, and of 2 */
    for (int i = 0; i < COUNT; i++) wf_layout_release(l[i]);
    weft_mesh_release(mesh);
}

WT_UNIT(layout__holds_its_mesh)
{
    weft_mesh *mesh = mesh_of(2, 2, 0, 0);
    weft_placement p[2] = {weft_replicate(), weft_replicate()};
    int64_t shape[1] = {3};
    struct wf_layout *l = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 1);

    weft_mesh_release(mesh);
    ck_assert_int_eq(weft_mesh_axis_size(l->mesh, 1), 2);
    wf_layout_release(l);
}

WT_UNIT(layout__describes_this_ranks_box)
{
    weft_mesh *mesh = mesh_of(2, 4, 1, 2);
    weft_placement p[2] = {weft_shard(0), weft_shard(1)};
    int64_t shape[2] = {7, 5};
    struct wf_layout *l = wf_layout_new(mesh, p, WEFT_BF16, shape, NULL, 2);

    ck_assert_int_eq(l->numel, 35);
    ck_assert_int_eq(l->desc.dtype, WEFT_BF16);
    ck_assert_int_eq(l->desc.shape[0], 3);
    ck_assert_int_eq(l->desc.offset[0], 4);
    ck_assert_int_eq(l->desc.shape[1], 1);
    ck_assert_int_eq(l->desc.offset[1], 4);
    ck_assert_int_eq(l->desc.numel, 3);
    ck_assert_int_eq(l->desc.stride[0], 1);
    ck_assert(l->desc.contiguous && !l->partial);
    wf_layout_release(l);
    weft_mesh_release(mesh);
}

WT_UNIT(layout__of_a_rank_outside_the_mesh_has_no_elements)
{
    weft_mesh *mesh = mesh_of(2, 2, -1, -1);
    weft_placement p[2] = {weft_replicate(), weft_replicate()};
    int64_t shape[1] = {3};
    struct wf_layout *l = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 1),
                     *scalar = wf_layout_new(mesh, p, WEFT_F32, NULL, NULL, 0);

    ck_assert_int_eq(l->desc.numel, 0);
    ck_assert_int_eq(l->numel, 3);
    ck_assert_int_eq(scalar->desc.numel, 0);
    WT_RELEASE(wf_layout_release, l, scalar);
    weft_mesh_release(mesh);
}

WT_UNIT(layout__the_first_term_is_at_the_origin_of_all_partial_axes)
{
    weft_placement both[2] = {weft_partial(WEFT_SUM), weft_partial(WEFT_SUM)},
                   one[2] = {weft_partial(WEFT_SUM), weft_shard(0)};
    int64_t shape[1] = {4};

    for (int rank = 0; rank < 4; rank++) {
        weft_mesh *mesh = mesh_of(2, 2, rank / 2, rank % 2);
        struct wf_layout *a = wf_layout_new(mesh, both, WEFT_F32, shape, NULL, 1),
                         *b = wf_layout_new(mesh, one, WEFT_F32, shape, NULL, 1);

        ck_assert(a->partial && b->partial);
        ck_assert_int_eq(a->desc.first_term, rank == 0);
        ck_assert_int_eq(b->desc.first_term, rank < 2);
        WT_RELEASE(wf_layout_release, a, b);
        weft_mesh_release(mesh);
    }
}

WT_UNIT(layout__strides_that_walk_row_major_are_row_major)
{
    int64_t shape[3] = {4, 1, 6}, same[3] = {6, 99, 1}, transposed[3] = {1, 4, 4};
    int64_t none[2] = {0, 6}, any[2] = {17, 3};
    struct wf_layout *plain = wf_layout_new(NULL, NULL, WEFT_F32, shape, NULL, 3);
    struct wf_layout *a = wf_layout_new(NULL, NULL, WEFT_F32, shape, same, 3),
                     *b = wf_layout_new(NULL, NULL, WEFT_F32, shape, transposed, 3);
    struct wf_layout *c = wf_layout_new(NULL, NULL, WEFT_F32, none, any, 2);

    ck_assert_ptr_eq(a, plain);
    ck_assert_ptr_ne(b, plain);
    ck_assert(!b->desc.contiguous);
    ck_assert_int_eq(b->desc.stride[2], 4);
    ck_assert(c->desc.contiguous);
    WT_RELEASE(wf_layout_release, plain, a, b, c);
}

WT_UNIT(layout__variations_keep_the_rest)
{
    weft_mesh *mesh = mesh_of(1, 2, 0, 1);
    weft_placement p[2] = {weft_replicate(), weft_shard(0)},
                   q[2] = {weft_replicate(), weft_replicate()};
    int64_t shape[2] = {5, 3}, strides[2] = {1, 2};
    struct wf_layout *l = wf_layout_new(mesh, p, WEFT_F32, shape, strides, 2),
                     *whole = wf_layout_with_placements(l, q);
    struct wf_layout *wide = wf_layout_with_dtype(l, WEFT_F64), *local = wf_layout_local(l);

    ck_assert_int_eq(whole->desc.shape[0], 5);
    ck_assert(whole->desc.contiguous && whole->mesh == mesh);
    ck_assert_int_eq(wide->desc.dtype, WEFT_F64);
    ck_assert_int_eq(wide->desc.shape[0], 2);
    ck_assert_ptr_null(local->mesh);
    ck_assert_int_eq(local->numel, 6);
    ck_assert_int_eq(local->desc.stride[1], 2);
    ck_assert(!local->desc.contiguous);
    WT_RELEASE(wf_layout_release, l, whole, wide, local);
    weft_mesh_release(mesh);
}

WT_UNIT(layout__the_table_grows_and_forgets)
{
    enum { COUNT = 3000 };
    static struct wf_layout *l[COUNT];

    for (int64_t i = 0; i < COUNT; i++) l[i] = wf_layout_new(NULL, NULL, WEFT_F32, &i, NULL, 1);
    ck_assert_int_eq(wf_layout_live_count(), COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        struct wf_layout *again = wf_layout_new(NULL, NULL, WEFT_F32, &i, NULL, 1);

        ck_assert_ptr_eq(again, l[i]);
        wf_layout_release(again);
    }
    for (int i = 0; i < COUNT; i++) wf_layout_release(l[(i * 7) % COUNT]);
}

WT_UNIT(layout__prints_dtype_shape_placements_and_mesh)
{
    weft_mesh *mesh = mesh_of(2, 4, 0, 0);
    weft_placement p[2] = {weft_shard(0), weft_replicate()};
    int64_t shape[2] = {8, 16};
    struct wf_layout *l = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 2),
                     *scalar = wf_layout_new(NULL, NULL, WEFT_I64, NULL, NULL, 0);
    char text[128];

    ck_assert_int_eq(wf_layout_print(l, text, sizeof text),
                     (int)strlen("f32[8,16] [S(0),R] on (dp:2, tp:4)"));
    ck_assert_str_eq(text, "f32[8,16] [S(0),R] on (dp:2, tp:4)");
    wf_layout_print(scalar, text, sizeof text);
    ck_assert_str_eq(text, "i64[]");
    WT_RELEASE(wf_layout_release, l, scalar);
    weft_mesh_release(mesh);
}

int main(void) { return wt_unit_main_with("layout", NULL, nothing_is_left); }
