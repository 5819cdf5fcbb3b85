/* test_mesh.c: grids of ranks, as text, on fake meshes and on ranks that are threads. */
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"
#include "device/pool.h"
#include "mesh/mesh.h"
#include "support/mpi_check.h"

static void begin(void) { weft_error_clear(); }

/* A condition on a rank thread: libcheck is not thread-safe, the rank's error is reported instead.
 */
#define NEED(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) return (int)WF_FAIL(WEFT_ERR_STATE, "rank %d: %s", weft_world_rank(), #cond); \
    } while (0)

static void run(int ranks, int (*body)(void *))
{
    int status = wf_comm_run_rank_threads(ranks, body, NULL);

    ck_assert_msg(status == 0, "%s", weft_error_message());
}

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
    weft_mesh_release(b);
    weft_mesh_release(c);
    weft_mesh_release(NULL);
}

WT_UNIT(mesh__of_any_size_can_be_pretended)
{
    static const int sizes[3] = {16, 8, 64}, coordinates[3] = {3, 0, 63};
    weft_mesh *mesh = wf_mesh_new_fake(3, sizes, coordinates, NULL);
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

/* MESH-06, MESH-16: coordinates count with the last axis fastest */
static int three_axes(void *payload)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=2,pp=2,tp=2");
    int rank = weft_world_rank();

    (void)payload;
    NEED(weft_mesh_coordinate(mesh, weft_mesh_axis(mesh, "tp")) == rank % 2);
    NEED(weft_mesh_coordinate(mesh, weft_mesh_axis(mesh, "pp")) == rank / 2 % 2);
    NEED(weft_mesh_coordinate(mesh, weft_mesh_axis(mesh, "dp")) == rank / 4);
    NEED(weft_mesh_axis(mesh, "cp") == -1);
    weft_mesh_release(mesh);
    return 0;
}

WT_UNIT(mesh__coordinates_count_with_the_last_axis_fastest) { run(8, three_axes); }

static int sum_over(struct wf_comm *comm, int value)
{
    int32_t mine = value, all = 0;
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = comm,
                           .dtype = WEFT_I32,
                           .count = 1,
                           .send = &mine,
                           .recv = &all};

    wf_comm_run(&coll);
    return all;
}

/* MESH-01, MESH-02: the ranks of a line are those that share the other coordinates */
static int lines(void *payload)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=2,tp=4");
    int rank = weft_world_rank();
    struct wf_comm *dp = wf_mesh_axis_comm(mesh, 0), *tp = wf_mesh_axis_comm(mesh, 1);

    (void)payload;
    NEED(wf_comm_size(dp) == 2 && wf_comm_rank(dp) == rank / 4);
    NEED(wf_comm_size(tp) == 4 && wf_comm_rank(tp) == rank % 4);
    NEED(strcmp(wf_comm_label(tp), "tp") == 0);
    NEED(sum_over(dp, rank) == 2 * (rank % 4) + 4);
    NEED(sum_over(tp, rank) == (rank < 4 ? 6 : 22));
    NEED(wf_mesh_axis_comm(mesh, 1) == tp);
    weft_mesh_release(mesh);
    return 0;
}

WT_UNIT(mesh__a_line_holds_the_ranks_that_share_the_other_coordinates) { run(8, lines); }

/* MESH-14, MESH-19 */
static int slices(void *payload)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=2,tp=4"), *tp = weft_mesh_sub(mesh, "tp"), *again;
    struct wf_comm *comm = wf_mesh_axis_comm(tp, 0);
    int made = wf_comm_created_count();

    (void)payload;
    NEED(weft_mesh_ndim(tp) == 1 && weft_mesh_size(tp) == 4);
    NEED(weft_mesh_coordinate(tp, 0) == weft_world_rank() % 4);
    NEED(sum_over(comm, weft_world_rank()) == (weft_world_rank() < 4 ? 6 : 22));
    again = weft_mesh_sub(mesh, "tp");
    NEED(again == tp);
    NEED(wf_mesh_axis_comm(mesh, 1) == comm);
    NEED(wf_comm_created_count() == made);
    weft_mesh_release(again);
    weft_mesh_release(tp);
    weft_mesh_release(mesh);
    mesh = weft_mesh_new(WEFT_CPU, "dp=2,tp=4"); /* the communicators outlive the meshes */
    NEED(wf_mesh_axis_comm(mesh, 1) == comm);
    NEED(strcmp(wf_comm_label(comm), "tp") == 0);
    weft_mesh_release(mesh);
    return 0;
}

WT_UNIT(mesh__a_slice_shares_its_communicator) { run(8, slices); }

/* MESH-15 */
static int slice_of_one_axis(void *payload)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=3"), *sub = weft_mesh_sub(mesh, "dp");

    (void)payload;
    NEED(sub == mesh);
    NEED(!weft_mesh_sub(mesh, "tp"));
    NEED(weft_error_status() == WEFT_ERR_NOT_FOUND);
    weft_error_clear();
    NEED(!weft_mesh_sub(NULL, "tp") && weft_error_status() == WEFT_OK);
    weft_mesh_release(sub);
    weft_mesh_release(mesh);
    return 0;
}

WT_UNIT(mesh__a_slice_of_the_only_axis_is_the_mesh) { run(3, slice_of_one_axis); }

static int smaller(void *payload)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=1,tp=2"), *tp = weft_mesh_sub(mesh, "tp");
    bool inside = weft_world_rank() < 2;

    (void)payload;
    NEED(weft_mesh_coordinate(mesh, 0) == (inside ? 0 : -1));
    NEED(weft_mesh_coordinate(tp, 0) == (inside ? weft_world_rank() : -1));
    NEED((wf_mesh_axis_comm(mesh, 1) != NULL) == inside);
    if (inside) NEED(sum_over(wf_mesh_axis_comm(tp, 0), 1) == 2);
    weft_mesh_release(tp);
    weft_mesh_release(mesh);
    return 0;
}

WT_UNIT(mesh__smaller_than_the_world_leaves_ranks_outside) { run(3, smaller); }

int main(void) { return wt_unit_main_with("mesh", begin, NULL); }
