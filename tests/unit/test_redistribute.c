/* test_redistribute.c: plans of redistribution on pretended meshes, without data. */
#include <string.h>

#include "dtensor/redistribute.h"
#include "mesh/mesh.h"
#include "support/mpi_check.h"

struct mesh_size {
    int n_axes, sizes[WEFT_MAX_AXES];
};

static const struct mesh_size one = {1, {4}}, square = {2, {2, 2}}, cube = {3, {2, 2, 2}},
                              wide = {2, {2, 4}};

/* The plan between two texts for the rank at the origin of a mesh, as text. */
static const char *plan_text(const struct mesh_size *size, const char *from, const char *to)
{
    static char text[512];
    static const char *const names[WEFT_MAX_AXES] = {"a", "b", "c", "d"};
    static const int64_t shape[3] = {8, 9, 10};
    static const int origin[WEFT_MAX_AXES];
    weft_mesh *mesh = wf_mesh_fake(size->n_axes, size->sizes, origin, names);
    weft_placement p[WEFT_MAX_AXES], q[WEFT_MAX_AXES];
    struct wf_layout *source, *target;
    struct wf_redist_plan *plan;

    ck_assert_int_eq(weft_placements_parse(p, WEFT_MAX_AXES, from), size->n_axes);
    ck_assert_int_eq(weft_placements_parse(q, WEFT_MAX_AXES, to), size->n_axes);
    source = wf_layout_new(mesh, p, WEFT_F32, 3, shape, NULL);
    target = wf_layout_new(mesh, q, WEFT_F32, 3, shape, NULL);
    plan = wf_redist_plan_new(source, target);
    ck_assert_int_eq(wf_redist_print(plan, text, sizeof text), (int)strlen(text));
    wf_redist_plan_free(plan);
    wf_layout_release(source);
    wf_layout_release(target);
    weft_mesh_release(mesh);
    return text;
}

/* RED-46 */
START_TEST(plan__one_axis_needs_one_step)
{
    static const char *const cases[][3] = {
        {"S(0)", "R", "a: S(0)->R all-gather"},
        {"P", "R", "a: P->R all-reduce"},
        {"P(max)", "R", "a: P(max)->R all-reduce"},
        {"R", "S(1)", "a: R->S(1) chunk"},
        {"P(avg)", "S(2)", "a: P(avg)->S(2) reduce-scatter"},
        {"S(0)", "S(1)", "a: S(0)->S(1) all-to-all"},
        {"R", "P", "a: R->P embed"},
        {"R", "P(product)", "a: R->P(product) embed"},
        {"S(1)", "P", "a: S(1)->P embed"},
        {"S(1)", "P(max)", "a: S(1)->P(max) embed"},
        {"P", "P(max)", "a: P->R all-reduce"},
        {"P(max)", "P", "a: P(max)->R all-reduce, a: R->P embed"},
        {"S(1)", "P(avg)", "a: S(1)->R all-gather"},
        {"R", "P(avg)", ""},
        {"R", "P(max)", ""},
        {"R", "P(min)", ""},
        {"R", "R", ""},
        {"P", "P", ""},
        {"S(2)", "S(2)", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(plan_text(&one, cases[i][0], cases[i][1]), cases[i][2]);
}
END_TEST

/* RED-25 to RED-28, PLC-32, RED-49: never more collectives than the peer */
START_TEST(plan__several_axes_on_one_dim_are_taken_in_order)
{
    static const char *const cases[][3] = {
        {"S(0),S(1)", "S(0),S(0)", "b: S(1)->S(0) all-to-all"},
        {"S(0),S(1)", "S(1),S(0)",
         "b: S(1)->R all-gather, a: S(0)->S(1) all-to-all, b: R->S(0) chunk"},
        {"S(0),S(0)", "S(1),S(1)",
         "b: S(0)->R all-gather, a: S(0)->S(1) all-to-all, b: R->S(1) chunk"},
        {"S(0),S(2)", "S(1),S(0)", "a: S(0)->S(1) all-to-all, b: S(2)->S(0) all-to-all"},
        {"S(1),S(1)", "S(1),S(2)", "b: S(1)->S(2) all-to-all"},
        {"R,S(0)", "S(0),S(0)", "b: S(0)->R all-gather, a: R->S(0) chunk, b: R->S(0) chunk"},
        {"S(0),S(0)", "R,S(0)", "b: S(0)->R all-gather, a: S(0)->R all-gather, b: R->S(0) chunk"},
        {"S(0),S(0)", "R,R", "b: S(0)->R all-gather, a: S(0)->R all-gather"},
        {"R,R", "S(0),S(0)", "a: R->S(0) chunk, b: R->S(0) chunk"},
        {"R,S(0)", "S(0),R", "b: S(0)->R all-gather, a: R->S(0) chunk"},
        {"P,S(0)", "S(1),S(0)", "a: P->S(1) reduce-scatter"},
        {"P,R", "R,S(0)", "b: R->S(0) chunk, a: P->R all-reduce"},
        {"S(0),P", "R,R", "b: P->R all-reduce, a: S(0)->R all-gather"},
        {"P,P", "R,R", "a: P->R all-reduce, b: P->R all-reduce"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(plan_text(&square, cases[i][0], cases[i][1]), cases[i][2]);
}
END_TEST

/* RED-44 */
START_TEST(plan__pending_sums_on_three_axes)
{
    ck_assert_str_eq(plan_text(&cube, "P,P,R", "S(0),S(1),R"),
                     "a: P->S(0) reduce-scatter, b: P->S(1) reduce-scatter");
    ck_assert_str_eq(plan_text(&cube, "P,P,S(0)", "S(0),S(0),S(0)"),
                     "c: S(0)->R all-gather, a: P->S(0) reduce-scatter, b: P->S(0) reduce-scatter, "
                     "c: R->S(0) chunk");
}
END_TEST

/* RED-23, RED-31 */
START_TEST(plan__axes_of_one_rank_have_no_steps)
{
    static const struct mesh_size flat = {2, {4, 1}};
    static const char *const kinds[] = {"S(0)", "S(1)", "R", "P", "P(max)"};

    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            char from[32], to[32];

            snprintf(from, sizeof from, "S(0),%s", kinds[i]);
            snprintf(to, sizeof to, "S(0),%s", kinds[j]);
            ck_assert_str_eq(plan_text(&flat, from, to), "");
        }
    ck_assert_str_eq(plan_text(&flat, "S(0),S(0)", "R,S(0)"), "a: S(0)->R all-gather");
}
END_TEST

/* RED-21 */
START_TEST(plan__a_tensor_without_elements_has_no_steps)
{
    static const int sizes[1] = {4}, origin[1] = {1};
    static const int64_t shape[2] = {0, 3};
    weft_mesh *mesh = wf_mesh_fake(1, sizes, origin, NULL);
    weft_placement p[1] = {weft_shard(0)}, q[1] = {weft_replicate()};
    struct wf_layout *from = wf_layout_new(mesh, p, WEFT_F32, 2, shape, NULL);
    struct wf_layout *to = wf_layout_new(mesh, q, WEFT_F32, 2, shape, NULL);
    struct wf_redist_plan *plan = wf_redist_plan_new(from, to);

    ck_assert_int_eq(plan->n_steps, 0);
    ck_assert_int_eq(wf_redist_bytes(plan), 0);
    wf_redist_plan_free(plan);
    wf_layout_release(from);
    wf_layout_release(to);
    weft_mesh_release(mesh);
}
END_TEST

START_TEST(plan__reducing_bytes_is_refused)
{
    static const int sizes[1] = {2}, origin[1] = {0};
    static const int64_t shape[1] = {3};
    weft_mesh *mesh = wf_mesh_fake(1, sizes, origin, NULL);
    weft_placement p[1] = {weft_partial(WEFT_SUM)}, q[1] = {weft_replicate()};
    struct wf_layout *from = wf_layout_new(mesh, p, WEFT_BOOL, 1, shape, NULL);
    struct wf_layout *to = wf_layout_new(mesh, q, WEFT_BOOL, 1, shape, NULL);

    weft_error_clear();
    ck_assert_ptr_null(wf_redist_plan_new(from, to));
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_DTYPE);
    weft_error_clear();
    wf_layout_release(from);
    wf_layout_release(to);
    weft_mesh_release(mesh);
    ck_assert_int_eq(wf_layout_count(), 0);
}
END_TEST

/* ---- any pair of layouts ---- */

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static weft_placement random_placement(unsigned *state)
{
    unsigned pick = next_random(state) % 6;

    if (pick < 3) return weft_shard((int)(next_random(state) % 2));
    return pick == 3 ? weft_replicate() : weft_partial(pick == 4 ? WEFT_SUM : WEFT_MAX);
}

/* The piece that an axis cuts or puts together is whole: no axis after it holds chunks of it. A
 * step taken too early, on a piece that an axis before it cuts anew, shows when that axis has its
 * turn. */
static bool step_is_sound(const struct mesh_size *size, const weft_placement *now,
                          const struct wf_redist_step *step)
{
    for (int a = step->axis + 1; a < size->n_axes; a++) {
        if (size->sizes[a] == 1 || now[a].kind != WEFT_KIND_SHARD) continue;
        if (step->from.kind == WEFT_KIND_SHARD && now[a].dim == step->from.dim) return false;
        if (step->to.kind == WEFT_KIND_SHARD && now[a].dim == step->to.dim) return false;
    }
    return weft_placement_equal(now[step->axis], step->from);
}

static bool may_differ(const struct mesh_size *size, int axis, weft_placement now,
                       weft_placement to)
{
    return size->sizes[axis] == 1 || weft_placement_equal(now, to) ||
           (now.kind == WEFT_KIND_REPLICATE && to.kind == WEFT_KIND_PARTIAL &&
            to.reduce == WEFT_MAX);
}

START_TEST(plan__leads_from_any_layout_to_any_other_by_sound_steps)
{
    unsigned state = 11;

    for (int round = 0; round < 20000; round++) {
        struct mesh_size size = {1 + (int)(next_random(&state) % 4), {0}};
        weft_placement now[WEFT_MAX_AXES], to[WEFT_MAX_AXES];
        struct wf_redist_step steps[WF_REDIST_MAX_STEPS];
        int count;

        for (int a = 0; a < size.n_axes; a++) {
            size.sizes[a] = 1 + (int)(next_random(&state) % 4);
            now[a] = random_placement(&state);
            to[a] = random_placement(&state);
        }
        count = wf_redist_steps(steps, size.n_axes, size.sizes, now, to);
        ck_assert_int_le(count, WF_REDIST_MAX_STEPS);
        for (int i = 0; i < count; i++) {
            ck_assert(step_is_sound(&size, now, &steps[i]));
            now[steps[i].axis] = steps[i].to;
        }
        for (int a = 0; a < size.n_axes; a++) ck_assert(may_differ(&size, a, now[a], to[a]));
    }
}
END_TEST

/* ---- cost ---- */

START_TEST(cost__follows_the_closed_forms)
{
    static const int origin[2];
    static const int64_t shape[2] = {16, 32};
    weft_mesh *mesh = wf_mesh_fake(2, wide.sizes, origin, NULL);
    weft_placement p[2] = {weft_shard(0), weft_shard(1)}, s = weft_shard(0), r = weft_replicate(),
                   sum = weft_partial(WEFT_SUM);
    struct wf_layout *l = wf_layout_new(mesh, p, WEFT_F32, 2, shape, NULL);
    int64_t bytes = 16 * 32 * 4 / 2; /* as axis 0 leaves it */

    ck_assert_int_eq(wf_redist_cost(l, 1, s, r), bytes * 3 / 4);
    ck_assert_int_eq(wf_redist_cost(l, 1, sum, r), bytes * 6 / 4);
    ck_assert_int_eq(wf_redist_cost(l, 1, sum, s), bytes * 3 / 4);
    ck_assert_int_eq(wf_redist_cost(l, 1, s, weft_shard(1)), bytes * 3 / 16);
    ck_assert_int_eq(wf_redist_cost(l, 1, r, s), 0);
    ck_assert_int_eq(wf_redist_cost(l, 1, r, sum), 0);
    ck_assert_int_eq(wf_redist_cost(l, 1, s, s), 0);
    wf_layout_release(l);
    weft_mesh_release(mesh);
}
END_TEST

START_TEST(bytes__of_a_plan_are_those_of_its_steps)
{
    static const int origin[2];
    static const int64_t shape[2] = {16, 32};
    weft_mesh *mesh = wf_mesh_fake(2, wide.sizes, origin, NULL);
    weft_placement p[2] = {weft_shard(0), weft_partial(WEFT_SUM)},
                   q[2] = {weft_replicate(), weft_shard(1)};
    struct wf_layout *from = wf_layout_new(mesh, p, WEFT_F32, 2, shape, NULL),
                     *to = wf_layout_new(mesh, q, WEFT_F32, 2, shape, NULL);
    struct wf_redist_plan *plan = wf_redist_plan_new(from, to);
    int64_t scattered = 8 * 32 * 4 * 3 / 4, gathered = 8 * 8 * 4;

    ck_assert_int_eq(plan->n_steps, 2);
    ck_assert_int_eq(wf_redist_bytes(plan), scattered + gathered);
    wf_redist_plan_free(plan);
    wf_layout_release(from);
    wf_layout_release(to);
    weft_mesh_release(mesh);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redistribute");
    TCase *tc = tcase_create("redistribute");

    tcase_add_test(tc, plan__one_axis_needs_one_step);
    tcase_add_test(tc, plan__several_axes_on_one_dim_are_taken_in_order);
    tcase_add_test(tc, plan__pending_sums_on_three_axes);
    tcase_add_test(tc, plan__axes_of_one_rank_have_no_steps);
    tcase_add_test(tc, plan__a_tensor_without_elements_has_no_steps);
    tcase_add_test(tc, plan__reducing_bytes_is_refused);
    tcase_add_test(tc, plan__leads_from_any_layout_to_any_other_by_sound_steps);
    tcase_add_test(tc, cost__follows_the_closed_forms);
    tcase_add_test(tc, bytes__of_a_plan_are_those_of_its_steps);
    suite_add_tcase(suite, tc);
    return wt_unit_main(suite);
}
