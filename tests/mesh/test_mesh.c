/* test_mesh.c: grids of ranks, as text and on fake meshes. */
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"
#include "device/pool.h"
#include "mesh/mesh.h"
#include "support/mpi_check.h"

static void begin(void) { weft_error_clear(); }

WT_UNIT(mesh__one_rank_is_a_world)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());

    ck_assert_ptr_nonnull(mesh);
    ck_assert_int_eq(weft_mesh_ndim(mesh), 1);
    ck_assert_int_eq(weft_mesh_size(mesh), 1);
    ck_assert_int_eq(weft_mesh_coordinate(mesh, 0), 0);
    weft_mesh_release(mesh);
}

WT_UNIT(mesh__malformed_texts_are_refused)
{
    static const char *const texts[] = {"",          "tp",
                                        "tp=",       "=2",
                                        "tp=0",      "tp=-1",
                                        "tp=x",      "tp=1,",
                                        ",",         "tp=1;",
                                        "tp=1,tp=1", "t p=1",
                                        "tp=1 dp=1", "tp==1",
                                        "a-b=1",     "a=1,b=1,c=1,d=1,e=1,f=1,g=1",
                                        "tp=1.5",    "a_name_that_is_far_too_long_to_be_one=1"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weft_error_clear();
        ck_assert_ptr_null(weft_mesh_new(WEFT_CPU, "%s", texts[i]));
        ck_assert_int_eq(weft_error_status(), WEFT_ERR_ARG);
        ck_assert_ptr_nonnull(strstr(weft_error_message(), texts[i]));
    }
}

WT_UNIT(mesh__blanks_are_allowed)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, " dp = 1 , tp_0 = 1 ");

    ck_assert_ptr_nonnull(mesh);
    ck_assert_str_eq(weft_mesh_axis_name(mesh, 1), "tp_0");
    weft_mesh_release(mesh);
}

WT_UNIT(mesh__larger_than_the_world_is_refused)
{
    ck_assert_ptr_null(weft_mesh_new(WEFT_CPU, "dp=2,tp=4"));
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_COMM);
    ck_assert_ptr_nonnull(strstr(weft_error_message(), "the world has 1"));
    weft_error_clear();
    ck_assert_ptr_null(weft_mesh_new(WEFT_CPU, "a=2147483647,b=2147483647,c=2147483647"));
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_COMM);
}

/* MESH-07: equal meshes are the same pointer */
WT_UNIT(mesh__the_same_one_twice_is_one)
{
    weft_mesh *a = weft_mesh_new(WEFT_CPU, "tp=1"), *b = weft_mesh_new(WEFT_CPU, " tp=1"),
              *c = weft_mesh_new(WEFT_CPU, "dp=1");

    ck_assert_ptr_eq(a, b);
    ck_assert_ptr_ne(a, c);
    weft_mesh_release(a);
    ck_assert_int_eq(weft_mesh_size(b), 1);
    WT_RELEASE(weft_mesh_release, b, c, NULL);
}

WT_UNIT(mesh__of_any_size_can_be_pretended)
{
    static const int sizes[3] = {16, 8, 64}, coordinates[3] = {3, 0, 63};
    weft_mesh *mesh = wf_mesh_new_fake(sizes, coordinates, NULL, 3);
    char text[64];

    ck_assert_int_eq(weft_mesh_size(mesh), 8192);
    ck_assert_int_eq(weft_mesh_coordinate(mesh, 2), 63);
    ck_assert_int_eq(wf_mesh_sizes(mesh)[0], 16);
    ck_assert_int_eq(weft_mesh_format(mesh, text, sizeof text),
                     (int)strlen("(a0:16, a1:8, a2:64)"));
    ck_assert_str_eq(text, "(a0:16, a1:8, a2:64)");
    ck_assert_ptr_null(wf_mesh_axis_comm(mesh, 0));
    weft_mesh_release(mesh);
}

int main(void) { return wt_unit_main_with("mesh", begin, NULL); }
