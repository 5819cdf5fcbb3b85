/* test_plan.c: plans of redistribution on simulated meshes, without data. */
#include <stdio.h>
#include <string.h>

#include "mesh/mesh.h"
#include "redistribute/program.h"
#include "support/fakes.h"
#include "support/greedy_planner.h"
#include "support/mpi_check.h"
#include "support/stderr_text.h"

struct mesh_size {
    struct wt_grid grid;
    const char *flat; /* axes that the user has flattened: "a,b" */
};

static const struct mesh_size one = {{1, {4}}, NULL}, square = {{2, {2, 2}}, NULL},
                              cube = {{3, {2, 2, 2}}, NULL};

/* The plan between two texts for the rank at the origin of a mesh, as text without bytes. */
static const char *plan_by(wf_redist_planner *planner, const struct mesh_size *size,
                           const char *from, const char *to)
{
    static char text[1024];
    static const int64_t shape[3] = {8, 9, 10};
    weft_mesh *mesh = wt_fake_mesh(&size->grid), *sub = NULL, *flat = NULL;
    struct wf_layout *source = wt_fake_layout(mesh, from, 3, shape),
                     *target = wt_fake_layout(mesh, to, 3, shape);
    struct wf_redist_plan *plan;

    if (size->flat) {
        sub = weft_mesh_sub(mesh, size->flat);
        flat = weft_mesh_flatten(sub, NULL);
        ck_assert_ptr_nonnull(flat);
    }
    plan = wf_redist_plan_with_planner(planner, source, target);
    for (int i = 0; i < plan->n_steps; i++) plan->steps[i].bytes = 0;
    ck_assert_int_eq(wf_redist_print(plan, text, sizeof text), (int)strlen(text));
    wf_redist_plan_free(plan);
    WT_RELEASE(wf_layout_release, source, target);
    WT_RELEASE(weft_mesh_release, flat, sub, mesh);
    return text;
}

static const char *plan_text(const struct mesh_size *size, const char *from, const char *to)
{
    return plan_by(wf_redist_find_steps, size, from, to);
}

/* RED-46 */
WT_UNIT(plan__one_axis_needs_one_step)
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
        {"P(max)", "P", "a: P(max)->R all-reduce; a: R->P embed"},
        {"P(masked)", "P", ""},
        {"P(norm 2)", "R", "a: P(norm 2)->R all-reduce"},
        {"SS(0,2)", "R", "a: SS(0,2)->R all-gather"},
        {"SS(0,2)", "S(0)", "a: SS(0,2)->S(0) all-to-all"},
        {"S(0)", "SS(0,3)", "a: S(0)->SS(0,3) all-to-all"},
        {"P", "SS(0,2)", "a: P->SS(0,2) reduce-scatter"},
        {"R", "S(1|2,1)", "a: R->S(1|2,1) chunk"},
        {"S(1)", "S(1,balanced)", "a: S(1)->S(1,balanced) all-to-all"},
        {"S(0)", "S(0,balanced)", ""},
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

/* RED-25 to RED-28, RED-49, PLC-32: never more collectives than the peer. Where the peer gathers to
 * make way for another axis, one all-to-all over both moves each element once. */
WT_UNIT(plan__several_axes_on_one_dim)
{
    static const char *const cases[][3] = {
        {"S(0),S(1)", "S(0),S(0)", "b: S(1)->S(0) all-to-all"},
        {"S(0),S(1)", "S(1),S(0)", "a_b: S(0),S(1)->S(1),S(0) all-to-all"},
        {"S(0),S(0)", "S(1),S(1)", "a_b: S(0),S(0)->S(1),S(1) all-to-all"},
        {"S(0),S(2)", "S(1),S(0)", "a_b: S(0),S(2)->S(1),S(0) all-to-all"},
        {"S(1),S(1)", "S(1),S(2)", "b: S(1)->S(2) all-to-all"},
        {"S(0),S(0)", "S(0),R", "b: S(0)->R all-gather"},
        {"R,S(0)", "S(0),S(0)", "a_b: R,S(0)->S(0),S(0) all-to-all"},
        {"S(0),S(0)", "R,S(0)", "a_b: S(0),S(0)->R,S(0) all-to-all"},
        {"S(0),R", "R,S(0)", "a_b: S(0),R->R,S(0) all-to-all"},
        {"R,S(0)", "S(0),R", "a_b: R,S(0)->S(0),R all-to-all"},
        {"S(0),S(0)", "S(0)[1],S(0)[0]", "a_b: S(0),S(0)->S(0)[1],S(0)[0] all-to-all"},
        {"S(0)[1],S(0)[0]", "R,S(0)", "a: S(0)[1]->R all-gather"},
        {"SS(0,2),S(0)", "S(0)[1],S(0)[0]", ""},
        {"S(0),S(0)", "R,R", "b: S(0)->R all-gather; a: S(0)->R all-gather"},
        {"S(0),S(1)", "R,R", "a: S(0)->R all-gather; b: S(1)->R all-gather"},
        {"R,R", "S(0),S(0)", "a: R->S(0) chunk; b: R->S(0) chunk"},
        {"P,S(0)", "S(1),S(0)", "a: P->S(1) reduce-scatter"},
        {"P,S(0)", "S(0),R",
         "a: P->S(0)[1] reduce-scatter; a_b: S(0)[1],S(0)[0]->S(0),R all-to-all"},
        {"P,R", "R,S(0)", "b: R->S(0) chunk; a: P->R all-reduce"},
        {"S(0),P", "R,R", "b: P->R all-reduce; a: S(0)->R all-gather"},
        {"P,P", "R,R", "a: P->R all-reduce; b: P->R all-reduce"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(plan_text(&square, cases[i][0], cases[i][1]), cases[i][2]);
}

/* RED-30: the gather of one axis, before the other is embedded */
WT_UNIT(plan__shards_become_a_partial_sum_without_communication)
{
    ck_assert_str_eq(plan_text(&square, "S(0),S(1)", "R,P"),
                     "a: S(0)->R all-gather; b: S(1)->P embed");
}

/* RED-35: the planner that takes one axis at a time */
WT_UNIT(plan__greedy_takes_one_axis_at_a_time)
{
    static const char *const cases[][3] = {
        {"S(0),S(1)", "S(1),S(0)",
         "b: S(1)->R all-gather; a: S(0)->S(1) all-to-all; b: R->S(0) chunk"},
        {"S(0),S(0)", "S(1),S(1)",
         "b: S(0)->R all-gather; a: S(0)->S(1) all-to-all; b: R->S(1) chunk"},
        {"R,S(0)", "S(0),R", "b: S(0)->R all-gather; a: R->S(0) chunk"},
        {"S(0),S(0)", "R,S(0)", "b: S(0)->R all-gather; a: S(0)->R all-gather; b: R->S(0) chunk"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(plan_by(wt_greedy_steps, &square, cases[i][0], cases[i][1]), cases[i][2]);
}

/* RED-34: what a rank lacks comes to it directly, instead of the peer's two gathers */
WT_UNIT(plan__shard_order)
{
    static const char *const cases[][3] = {
        {"S(0),S(0),S(0)", "R,S(0),S(0)", "a_b_c: S(0),S(0),S(0)->R,S(0),S(0) all-to-all"},
        {"S(0)[1],S(0)[0],S(0)[2]", "R,S(0),S(0)", "a_c: S(0)[1],S(0)[2]->R,S(0) all-to-all"},
        {"S(0)[1],S(0)[0],S(0)[2]", "S(0),S(0),R", ""},
        {"S(0),S(0),R", "R,S(1),S(0)", ""},
    };

    for (int i = 0; i < 2; i++)
        ck_assert_str_eq(plan_text(&cube, cases[i][0], cases[i][1]), cases[i][2]);
    for (int i = 2; i < 4; i++) ck_assert(plan_text(&cube, cases[i][0], cases[i][1])[0]);
}

/* RED-39, RED-41, RED-42, RED-44, RED-45: one collective over axes that the user has flattened */
WT_UNIT(plan__flattened_axes_are_one)
{
    static const struct mesh_size ab = {{3, {2, 2, 2}}, "a,b"}, abc = {{3, {2, 2, 2}}, "a,b,c"};
    static const char *const on_ab[][3] = {
        {"P,P,R", "R,R,R", "a_b: P,P->R,R all-reduce"},
        {"P,P,P", "R,R,R", "c: P->R all-reduce; a_b: P,P->R,R all-reduce"},
        {"P,P(avg),R", "R,R,R", "a_b: P,P(avg)->R,R all-reduce"},
        {"P,R,R", "R,R,R", "a: P->R all-reduce"},
        {"R,R,R", "R,R,R", ""},
        {"S(0),S(0),R", "R,R,R", "a_b: S(0),S(0)->R,R all-gather"},
        {"S(0),S(1),R", "R,R,R", "a: S(0)->R all-gather; b: S(1)->R all-gather"},
        {"P,S(0),R", "R,R,R", "a: P->R all-reduce; b: S(0)->R all-gather"},
        {"P,P,R", "S(0),S(0),R", "a_b: P,P->S(0),S(0) reduce-scatter"},
        {"P,P,R", "S(1),S(1),R", "a_b: P,P->S(1),S(1) reduce-scatter"},
        {"P,P,R", "S(0),S(1),R", "a: P->S(0) reduce-scatter; b: P->S(1) reduce-scatter"},
        {"P,P,S(0)", "S(0),S(0),S(0)", ""},
    };

    for (size_t i = 0; i < sizeof on_ab / sizeof on_ab[0] - 1; i++)
        ck_assert_str_eq(plan_text(&ab, on_ab[i][0], on_ab[i][1]), on_ab[i][2]);
    ck_assert_str_eq(plan_text(&abc, "P,P,P", "R,R,R"), "a_b_c: P,P,P->R,R,R all-reduce");
    ck_assert_str_eq(plan_text(&cube, "P,R,P", "R,R,R"), "a: P->R all-reduce; c: P->R all-reduce");
}

/* RED-23, RED-31 */
WT_UNIT(plan__axes_of_one_rank_have_no_steps)
{
    static const struct mesh_size flat = {{2, {4, 1}}, NULL};
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

/* RED-21 */
WT_UNIT(plan__a_tensor_without_elements_has_no_steps)
{
    static const int sizes[1] = {4}, origin[1] = {1};
    static const int64_t shape[2] = {0, 3};
    weft_mesh *mesh = wf_mesh_new_fake(sizes, origin, NULL, 1);
    weft_placement p[1] = {weft_shard(0)}, q[1] = {weft_replicate()};
    struct wf_layout *from = wf_layout_new(mesh, p, WEFT_F32, shape, NULL, 2);
    struct wf_layout *to = wf_layout_new(mesh, q, WEFT_F32, shape, NULL, 2);
    struct wf_redist_plan *plan = wf_redist_plan_new(from, to);

    ck_assert_int_eq(plan->n_steps, 0);
    ck_assert_int_eq(wf_redist_bytes_sent(plan), 0);
    wf_redist_plan_free(plan);
    WT_RELEASE(wf_layout_release, from, to);
    weft_mesh_release(mesh);
}

WT_UNIT(plan__reducing_bytes_is_refused)
{
    static const int sizes[1] = {2}, origin[1] = {0};
    static const int64_t shape[1] = {3};
    weft_mesh *mesh = wf_mesh_new_fake(sizes, origin, NULL, 1);
    weft_placement p[1] = {weft_partial(WEFT_SUM)}, q[1] = {weft_replicate()};
    struct wf_layout *from = wf_layout_new(mesh, p, WEFT_BOOL, shape, NULL, 1);
    struct wf_layout *to = wf_layout_new(mesh, q, WEFT_BOOL, shape, NULL, 1);

    weft_error_clear();
    ck_assert_ptr_null(wf_redist_plan_new(from, to));
    ck_assert_int_eq(weft_error_status(), WEFT_ERR_DTYPE);
    weft_error_clear();
    WT_RELEASE(wf_layout_release, from, to);
    weft_mesh_release(mesh);
    ck_assert_int_eq(wf_layout_live_count(), 0);
}

/* ---- any pair of layouts ---- */

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static int below(unsigned *state, int n) { return (int)(next_random(state) % (unsigned)n); }

static weft_placement random_placement(unsigned *state)
{
    switch (below(state, 9)) {
    case 0:
        return weft_replicate();
    case 1:
        return weft_strided_shard(below(state, 2), 1 + below(state, 3));
    case 2:
        return weft_shard_balanced(below(state, 2));
    case 3:
        return weft_partial(WEFT_SUM);
    case 4:
        return weft_partial(below(state, 2) ? WEFT_AVG : WEFT_MASKED);
    default:
        return weft_shard(below(state, 2));
    }
}

/* What a step begins with is what the one before it ended with, but for axes whose label changed
 * alone. */
static bool goes_on(const struct wf_redist_problem *p, const weft_placement *now,
                    const struct wf_redist_step *step)
{
    for (int a = 0; a < p->n_axes; a++) {
        weft_placement x = now[a], y = step->from[a];

        if (wf_is_shard_or_strided(x)) x.order = y.order = 0;
        if (p->sizes[a] > 1 && !weft_placement_equal(x, y) &&
            (wf_is_shard_or_strided(x) || !weft_is_partial(y)))
            return false;
    }
    return true;
}

/* Axes that shard one dim plainly, in another order. */
static void random_turns(weft_placement *p, unsigned *state, int n_axes)
{
    int axes[WEFT_MAX_AXES], n = wf_axes_sharding_dim(axes, below(state, 2), p, n_axes);

    for (int i = 0; i < n; i++)
        if (p[axes[i]].kind == WEFT_KIND_STRIDED) return;
    for (int i = 0; i < n; i++) {
        int other = below(state, i + 1), axis = axes[i];

        axes[i] = axes[other];
        axes[other] = axis;
    }
    for (int i = 0; i < n; i++) p[axes[i]].order = (uint8_t)i;
}

/* Sets of two axes or more. */
static uint64_t random_sets(unsigned *state)
{
    uint64_t sets = 0;

    for (int set = 3; set < 1 << WEFT_MAX_AXES; set++)
        if (set & (set - 1) && below(state, 2)) sets |= (uint64_t)1 << set;
    return sets;
}

static void random_problem(struct wf_redist_problem *p, unsigned *state, int *sizes,
                           weft_placement *from, weft_placement *to)
{
    static const int64_t shape[2] = {24, 30};
    weft_placement given[WEFT_MAX_AXES];

    *p = (struct wf_redist_problem){.ndim = 2, .global = shape, .element = 4, .sizes = sizes};
    p->n_axes = 1 + below(state, below(state, 2) ? 4 : WEFT_MAX_AXES);
    for (int a = 0; a < p->n_axes; a++) {
        sizes[a] = 1 + below(state, 4);
        p->links[a] = (struct wf_link){1 + below(state, 9), 100 * (1 + below(state, 90))};
    }
    p->flattened = below(state, 2) ? random_sets(state) : 0;
    for (int end = 0; end < 2; end++) {
        for (int a = 0; a < p->n_axes; a++) given[a] = random_placement(state);
        random_turns(given, state, p->n_axes);
        ck_assert_int_eq(wf_placements_normalize(end ? to : from, given, p->n_axes, 2, "test"),
                         WEFT_OK);
    }
    p->from = from;
    p->to = to;
}

/* Every axis that takes part holds what the target says. */
static bool arrived(const struct wf_redist_problem *p, const weft_placement *now)
{
    for (int a = 0; a < p->n_axes; a++) {
        weft_placement x = now[a], y = p->to[a];

        if (wf_is_shard_or_strided(x)) x.order = y.order = 0; /* counted without axes of one rank */
        if (p->sizes[a] > 1 && !weft_placement_equal(x, y) &&
            (wf_is_shard_or_strided(x) || wf_is_shard_or_strided(y)))
            return false;
    }
    return true;
}

/* trial 1.5: five and six axes, and orders that differ */
/* RED-35: and the cheapest plan is never dearer than the greedy one */
WT_UNIT(plan__leads_from_any_layout_to_any_other)
{
    unsigned state = 11;

    for (int round = 0; round < 20000; round++) {
        struct wf_redist_step steps[WF_REDIST_MAX_STEPS];
        weft_placement from[WEFT_MAX_AXES], to[WEFT_MAX_AXES], now[WEFT_MAX_AXES];
        int sizes[WEFT_MAX_AXES], count;
        struct wf_redist_problem p;
        double cheapest, greedy;

        random_problem(&p, &state, sizes, from, to);
        count = wf_redist_find_steps(steps, &p, &cheapest);
        memcpy(now, from, sizeof now);
        for (int i = 0; i < count; i++) {
            ck_assert(goes_on(&p, now, &steps[i]));
            memcpy(now, steps[i].to, sizeof now);
        }
        ck_assert(arrived(&p, now));
        count = wt_greedy_steps(steps, &p, &greedy);
        ck_assert_int_le(count, WF_REDIST_MAX_STEPS);
        ck_assert(cheapest <= greedy * (1 + 1e-12));
    }
}

/* The plan of n axes of two ranks that cut one dim, two of which change turns. */
static void swap_turns(int n, int first, int second)
{
    static const int64_t shape[1] = {64};
    weft_placement from[WEFT_MAX_AXES], to[WEFT_MAX_AXES];
    int sizes[WEFT_MAX_AXES];
    struct wf_redist_step steps[WF_REDIST_MAX_STEPS];
    struct wf_redist_problem p = {.n_axes = n, .ndim = 1, .global = shape, .element = 4};
    double cost;

    for (int a = 0; a < n; a++) {
        sizes[a] = 2;
        p.links[a] = (struct wf_link){1, 100};
        from[a] = to[a] = weft_shard(0);
        from[a].order = (uint8_t)a;
        to[a].order = (uint8_t)(a == first ? second : a == second ? first : a);
    }
    p.sizes = sizes;
    p.from = from;
    p.to = to;
    ck_assert_int_eq(wf_redist_find_steps(steps, &p, &cost), 1);
    ck_assert_int_eq(steps[0].kind, WF_REDIST_ALL_TO_ALL);
    for (int a = 0; a < n; a++) ck_assert(weft_placement_equal(steps[0].to[a], to[a]));
}

/* trial 1.5: the last axis of five has turn 4, of six turn 5 */
WT_UNIT(plan__any_two_axes_of_a_dim_change_turns)
{
    for (int n = 2; n <= WEFT_MAX_AXES; n++)
        for (int first = 0; first < n; first++)
            for (int second = first + 1; second < n; second++) swap_turns(n, first, second);
}

/* ---- packing ---- */

/* Copies of a plan on one mesh axis or two, before and behind its collective. */
static void count_copies(const int64_t *shape, const char *from, const char *to, int *before,
                         int *behind)
{
    weft_mesh *mesh = wt_fake_mesh(&square.grid);
    struct wf_layout *source = wt_fake_layout(mesh, from, 3, shape),
                     *target = wt_fake_layout(mesh, to, 3, shape);
    struct wf_redist_plan *plan = wf_redist_plan_new(source, target);
    bool sent = false;

    *before = *behind = 0;
    for (int i = 0; i < plan->program->n_actions; i++) {
        sent |= plan->program->actions[i].act == WF_ACT_COLL;
        if (plan->program->actions[i].act == WF_ACT_COPY) ++*(sent ? behind : before);
    }
    wf_redist_plan_free(plan);
    WT_RELEASE(wf_layout_release, source, target);
    weft_mesh_release(mesh);
}

/* RED-47: what lies in order is neither packed nor unpacked */
WT_UNIT(packing__at_most_once_per_side)
{
    static const struct {
        int64_t shape[3];
        const char *from, *to;
        int before, behind;
    } cases[] = {
        {{1, 64, 48}, "S(1),S(1)", "S(1),R", 0, 0}, {{4, 64, 48}, "S(1),S(1)", "S(1),R", 0, 1},
        {{1, 64, 48}, "S(2),S(2)", "S(2),R", 0, 1}, {{1, 61, 7}, "S(1),S(1)", "S(1),R", 0, 0},
        {{8, 6, 4}, "P,R", "S(0),R", 0, 0},         {{8, 6, 4}, "P,R", "S(1),R", 1, 0},
        {{8, 6, 4}, "R,S(0)", "R,S(1)", 1, 0},      {{8, 6, 4}, "R,S(1)", "R,S(0)", 0, 1},
        {{8, 6, 4}, "R,S(1)", "R,S(2)", 1, 1},      {{9, 5, 3}, "S(0),R", "R,S(0)", 0, 0},
        {{8, 6, 4}, "SS(0,2),R", "R,R", 0, 1},      {{8, 6, 4}, "S(0),S(1)", "S(1),S(0)", 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int before, behind;

        count_copies(cases[i].shape, cases[i].from, cases[i].to, &before, &behind);
        ck_assert_msg(before == cases[i].before && behind == cases[i].behind,
                      "case %zu: %d before, %d behind", i, before, behind);
    }
}

/* ---- the hint ---- */

static struct {
    const struct mesh_size *mesh;
    const char *from;
} planned;

static void plan_it(void) { plan_text(planned.mesh, planned.from, "R,R,R"); }

/* RED-42; of three axes once only */
WT_UNIT(hint__names_the_axes_that_could_be_one_once)
{
    static const struct mesh_size mesh = {{3, {2, 3, 2}}, NULL}, flat = {{3, {2, 3, 2}}, "a,b,c"};
    static const struct {
        const struct mesh_size *mesh;
        const char *from, *says[2]; /* NULL: nothing */
    } cases[] = {
        {&mesh,
         "P,P,P",
         {"3 sequential all-reduce operations", "\"a\", \"b\", \"c\" are suboptimal"}},
        {&mesh, "P,P,P", {NULL}},
        {&mesh, "P,R,P", {"2 sequential all-reduce operations", "\"a\", \"c\" are suboptimal"}},
        {&mesh, "S(0),P,R", {NULL}},
        {&flat, "S(0),S(0),S(0)", {NULL}},
        {&mesh, "S(0),S(1),R", {NULL}}, /* trial 4 (messages): nor of gathers of a whole tensor */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *heard;

        planned.mesh = cases[i].mesh;
        planned.from = cases[i].from;
        heard = wt_stderr_of(plan_it);
        for (int k = 0; k < 2; k++)
            ck_assert_msg(cases[i].says[k] ? strstr(heard, cases[i].says[k]) != NULL : !*heard || k,
                          "%zu, %s: \"%s\"", i, cases[i].from, heard);
    }
}

int main(void) { return wt_unit_main("plan"); }
