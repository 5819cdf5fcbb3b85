/*
 * test_cost.c: what planning takes redistributions to cost, on simulated meshes: closed forms of
 * bytes, and times by latency and bandwidth.
 */
#include <math.h>
#include <string.h>

#include "mesh/mesh.h"
#include "redistribute/redistribute.h"
#include "redistribute/shapes.h"
#include "support/fakes.h"
#include "support/mpi_check.h"

static const struct wt_grid one = {1, {4}}, square = {2, {2, 2}}, cube = {3, {2, 2, 2}},
                            wide = {2, {2, 4}};

WT_UNIT(cost__follows_the_closed_forms)
{
    static const int64_t shape[2] = {16, 32};
    weft_mesh *mesh = wt_fake_mesh(&wide);
    weft_placement p[2] = {weft_shard(0), weft_shard(1)}, s = weft_shard(0), r = weft_replicate(),
                   sum = weft_partial(WEFT_SUM), masked = weft_partial(WEFT_MASKED);
    struct wf_layout *l = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 2);
    int64_t bytes = 16 * 32 * 4 / 2; /* as axis 0 leaves it */

    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, s, r), bytes * 3 / 4);
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, sum, r), bytes * 6 / 4);
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, sum, s), bytes * 3 / 4);
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, s, weft_shard(1)), bytes * 3 / 16);
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, r, s), 0);
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, r, sum), 0);
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, s, s), 0);
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, s, sum), WF_REDIST_NEVER);
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, masked, sum), 0); /* another name */
    ck_assert_int_eq(wf_redist_axis_bytes(l, 1, sum, masked), bytes * 6 / 4);
    wf_layout_release(l);
    weft_mesh_release(mesh);
}

WT_UNIT(bytes__of_a_plan_are_those_of_its_steps)
{
    static const int64_t shape[2] = {16, 32};
    weft_mesh *mesh = wt_fake_mesh(&wide);
    struct wf_layout *from = wt_fake_layout(mesh, "S(0),P", 2, shape),
                     *to = wt_fake_layout(mesh, "R,S(1)", 2, shape);
    struct wf_redist_plan *plan = wf_redist_plan_new(from, to);
    int64_t scattered = 8 * 32 * 4 * 3 / 4, gathered = 8 * 8 * 4;
    char text[256];

    ck_assert_int_eq(plan->n_steps, 2);
    ck_assert_int_eq(wf_redist_bytes_sent(plan), scattered + gathered);
    wf_redist_print(plan, text, sizeof text);
    ck_assert_str_eq(text, "b: P->S(1) reduce-scatter 768 B; a: S(0)->R all-gather 256 B");
    ck_assert_int_eq(wf_redist_print(plan, text, 5), 60);
    ck_assert_str_eq(text, "b: P");
    wf_redist_plan_free(plan);
    WT_RELEASE(wf_layout_release, from, to);
    weft_mesh_release(mesh);
}

static double time_of(const struct wt_grid *size, const int64_t *shape, const char *from,
                      const char *to)
{
    weft_mesh *mesh = wt_fake_mesh(size);
    struct wf_layout *source = wt_fake_layout(mesh, from, 2, shape),
                     *target = wt_fake_layout(mesh, to, 2, shape);
    double time = wf_redist_estimated_time(source, target->placements);

    WT_RELEASE(wf_layout_release, source, target);
    weft_mesh_release(mesh);
    return time;
}

/* COST-01, COST-04 */
WT_UNIT(time__of_one_axis)
{
    static const int64_t shapes[][2] = {{10, 10}, {1000, 3}};

    for (int i = 0; i < 2; i++) {
        const int64_t *s = shapes[i];
        double gather = time_of(&one, s, "S(0)", "R"), scatter = time_of(&one, s, "P", "S(0)");

        ck_assert(time_of(&one, s, "S(0)", "S(0)") == 0 && time_of(&one, s, "R", "R") == 0 &&
                  time_of(&one, s, "P", "P") == 0);
        ck_assert(gather > 0 && gather == scatter);
        ck_assert(time_of(&one, s, "P", "R") + 1 < gather + scatter);
        ck_assert(isinf(time_of(&one, s, "S(0)", "P")));
        ck_assert(isinf(time_of(&one, s, "P", "P(avg)")));
        ck_assert(isfinite(time_of(&one, s, "R", "P")));
    }
}

/* COST-02 */
WT_UNIT(time__of_two_axes)
{
    static const int64_t shapes[][2] = {{8, 8}, {512, 1024}};

    for (int i = 0; i < 2; i++) {
        double reduce = time_of(&square, shapes[i], "P,P", "R,R");

        ck_assert(reduce > time_of(&square, shapes[i], "S(0),S(0)", "R,R"));
        ck_assert(reduce > time_of(&square, shapes[i], "P,P", "S(0),S(0)"));
    }
}

/* RED-36: so many orders there are. RED-38: no detour is cheaper than the way found. */
WT_UNIT(time__no_detour_pays)
{
    static const struct {
        int ndim, orders;
        int64_t shape[4];
    } cases[] = {
        {2, 24, {16, 8}}, {3, 60, {13, 2, 13}}, {2, 24, {5, 1000}}, {4, 120, {9, 7, 5, 3}}};
    static double time[SHAPE_MOST_ORDERS][SHAPE_MOST_ORDERS];
    static weft_placement orders[SHAPE_MOST_ORDERS][WEFT_MAX_AXES];

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        weft_mesh *mesh = wt_fake_mesh(&cube);
        int n = shape_orders(orders, cases[c].ndim);

        ck_assert_int_eq(n, cases[c].orders);
        for (int i = 0; i < n; i++) {
            struct wf_layout *from =
                wf_layout_new(mesh, orders[i], WEFT_F32, cases[c].shape, NULL, cases[c].ndim);

            for (int j = 0; j < n; j++) time[i][j] = wf_redist_estimated_time(from, orders[j]);
            wf_layout_release(from);
        }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                for (int k = 0; k < n; k++)
                    if (time[i][k] > time[i][j] + time[j][k] + 1e-9)
                        ck_abort_msg("%d dims, orders %d, %d, %d: %g, %g, together %g",
                                     cases[c].ndim, i, j, k, time[i][j], time[j][k], time[i][k]);
        weft_mesh_release(mesh);
    }
}

int main(void) { return wt_unit_main("redistribution cost"); }
