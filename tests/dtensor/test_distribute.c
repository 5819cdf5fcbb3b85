/*
 * test_distribute.c: spreading a tensor from one rank or from everybody's own copy: where elements
 * land for every kind of placement, what is sent, what is refused.
 */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 4 8 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/mesh.h"
#include "placement/shard_overlap.h"
#include "support/worlds.h"
#include "tensor/tensor.h"

static weft_tensor *spread_from(struct wt_world *w, weft_tensor *t, const char *text, int source)
{
    weft_placement p[WEFT_MAX_AXES] = {{0}};

    if (weft_placements_on(p, w->mesh, text) != WEFT_OK) return NULL;
    return weft_distribute_tensor(t, w->mesh, p, source);
}

/* API-01, API-02: one scatter, and what wants a gradient goes on wanting it. */
WT_TEST_TIMES_IN_WORLD(distribute__scatters_shards_from_the_source, w, i, 5)
{
    static const int64_t sizes[] = {12, 13, 5, 1, 0};
    weft_tensor *rows = wt_constant(sizes[i], 3, wt_rank()),
                *columns = wt_constant(3, sizes[i], 10 + wt_rank()), *t;
    int64_t mine = weft_chunk_size(sizes[i], wt_ranks(), wt_rank());

    weft_set_requires_grad(rows, true);
    t = spread_from(w, rows, "S(0)", 0);
    WT_ALL(wt_has_shape(t, 2, sizes[i], (int64_t)3) && weft_requires_grad(t) && !t->node);
    WT_EQ(weft_local_size(t, 0), mine);
    WT_ALL(wt_local_is_all(t, 0));
    WT_MOVED(w, WEFT_COLL_SCATTER, 1);
    t = spread_from(w, columns, "S(-1)", wt_ranks() - 1);
    WT_ALL(wt_is_placed(t, "S(1)") && wt_local_is_all(t, 9 + wt_ranks()));
    WT_EQ(weft_local_size(t, 1), mine);
    WT_ALL(!weft_requires_grad(t));
    WT_MOVED(w, WEFT_COLL_SCATTER, 1);
    WT_ALL(wt_local_is_all(rows, wt_rank()) && wt_local_is_all(columns, 10 + wt_rank()));
}

/* The element of a sharded tensor is on one rank: none reads it, and all hear so. */
WT_TEST_IN_WORLD(item__of_a_sharded_tensor_is_refused_on_every_rank, w)
{
    weft_tensor *one = weft_full(WEFT_F64, (int64_t[]){1}, 1, 7);

    WT_ALL(weft_item(spread_from(w, one, "R", 0)) == 7);
    if (wt_ranks() == 1) return;
    WT_ALL(isnan(weft_item(spread_from(w, one, "S(0)", 0))));
    WT_FAILED(WEFT_ERR_SHAPE, "needs one element that every rank holds");
    WT_FAILS(spread_from(w, one, "R", -2), WEFT_ERR_ARG, "source rank -2");
}

/* API-04 */
WT_TEST_TIMES_IN_WORLD(distribute__without_source_each_keeps_its_own, w, i, 9)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "R"};
    static const int64_t sizes[] = {3, 4, 1};
    int64_t n = sizes[i / 3];
    weft_tensor *mine = wt_constant(i % 3 == 0 ? n * wt_ranks() : n,
                                    i % 3 == 1 ? n * wt_ranks() : n, wt_rank()),
                *t = spread_from(w, mine, layouts[i % 3], -1);

    WT_EQ(weft_local_size(t, 0), n);
    WT_EQ(weft_local_size(t, 1), n);
    WT_ALL(wt_local_is_all(t, wt_rank()));
    WT_STILL(w);
}

/* DT-28: the source is unchanged. */
WT_TEST_IN_WORLD(distribute__gives_rank_r_row_or_column_r, w)
{
    int64_t n = wt_ranks();
    double data[64];
    weft_tensor *t, *rows, *columns;

    for (int64_t i = 0; i < n * n; i++) data[i] = (double)i;
    t = weft_from_data(WEFT_F64, (int64_t[]){n, n}, 2, data);
    rows = spread_from(w, t, "S(0)", -1);
    columns = spread_from(w, t, "S(1)", -1);
    WT_EQ(weft_local_numel(rows), n);
    WT_EQ(weft_local_numel(columns), n);
    for (int64_t i = 0; i < n; i++) {
        WT_ALL(((double *)weft_data(rows))[i] == (double)(wt_rank() * n + i));
        WT_ALL(((double *)weft_data(columns))[i] == (double)(i * n + wt_rank()));
    }
    WT_ALL(memcmp(weft_data(t), data, (size_t)(n * n) * sizeof *data) == 0);
    WT_STILL(w);
}

/* ---- every kind of placement, on meshes of one to three axes ---- */

struct spread_case {
    const char *placements;
    int shards, others; /* axes */
};

static const struct spread_case cases_1[] = {
    {"S(0)", 1, 0},    {"S(1)", 1, 0},    {"S(1,balanced)", 1, 0},     {"S(2|2,1)", 1, 0},
    {"SS(0,2)", 1, 0}, {"SS(1,3)", 1, 0}, {"S(2,balanced|1,2)", 1, 0}, {"R", 0, 1},
};
static const struct spread_case cases_2[] = {
    {"S(0),S(1)", 2, 0},    {"S(0),S(0)", 2, 0},  {"S(1),S(0)", 2, 0},
    {"S(0),R", 1, 1},       {"R,S(2)", 1, 1},     {"S(0)[1],S(0)", 2, 0},
    {"SS(1,2),S(1)", 2, 0}, {"S(2|1,2),R", 1, 1}, {"S(1),S(1,balanced)", 2, 0},
};
static const struct spread_case cases_3[] = {
    {"S(0)[2],S(0),S(0)[1]", 3, 0},
    {"S(0),R,S(0)", 2, 1},
    {"S(1),S(0),S(1)", 3, 0},
};

/* This rank's elements, straight from the definition of parts. */
static bool holds_its_shard(weft_tensor *t, weft_tensor *whole)
{
    const struct wf_layout *layout = t->layout;
    struct wf_shard parts[3];
    const double *got = weft_data(t), *all = weft_data(whole);
    int64_t at = 0;

    for (int d = 0; d < 3; d++)
        wf_shard_init(&parts[d], d, layout->desc.global[d], wf_mesh_sizes(layout->mesh),
                      wf_mesh_coordinates(layout->mesh), layout->placements, layout->n_axes);
    for (int64_t i = 0; i < parts[0].size; i++)
        for (int64_t j = 0; j < parts[1].size; j++)
            for (int64_t k = 0; k < parts[2].size; k++, at++) {
                int64_t from = (wf_shard_to_global(&parts[0], i) * weft_size(t, 1) +
                                wf_shard_to_global(&parts[1], j)) *
                                   weft_size(t, 2) +
                               wf_shard_to_global(&parts[2], k);

                if (got[at] != all[from]) return false;
            }
    return at == weft_local_numel(t);
}

static void check_case(const char *mesh, const struct spread_case *c, const int64_t *shape)
{
    struct wt_world w = wt_world_open_mesh("%s", mesh);
    int64_t numel = shape[0] * shape[1] * shape[2], many = 0, scatters = 0;
    int source = 0;
    weft_tensor *whole = wt_whole3(WEFT_F64, 0, shape[0], shape[1], shape[2]), *own, *sent;
    weft_tensor *other = weft_full(WEFT_F64, shape, 3, -7);
    bool member = weft_mesh_is_member(w.mesh);
    bool truth = true; /* this rank is at place `source` of every axis */

    for (int a = 0; a < weft_mesh_ndim(w.mesh); a++) {
        truth &= weft_mesh_coordinate(w.mesh, a) == source;
        many += weft_mesh_axis_size(w.mesh, a) > 1;
    }
    own = spread_from(&w, whole, c->placements, -1);
    WT_ALL(!member || holds_its_shard(own, whole));
    WT_EQ(wt_moved(&w, WEFT_COLL_COUNT), 0);
    sent = spread_from(&w, truth ? whole : other, c->placements, source);
    WT_ALL(!member || holds_its_shard(sent, whole));
    scatters = weft_ledger_count(w.ledger, WEFT_COLL_SCATTER, WEFT_DIRECTION_ANY, NULL);
    WT_ALL(scatters <= c->shards);
    WT_EQ(wt_moved(&w, WEFT_COLL_COUNT), member ? many : 0);
    WT_ALL(member || weft_local_numel(sent) == 0);
    WT_ALL(truth || numel == 0 || ((double *)weft_data(other))[0] == -7);
    wt_world_close(&w);
}

static const int64_t shapes[][3] = {{8, 9, 6}, {13, 5, 3}, {2, 1, 9}, {5, 4, 0}};

WT_TEST(distribute__places_every_kind_on_one_axis)
{
    char mesh[32];

    snprintf(mesh, sizeof mesh, "tp=%d", wt_ranks());
    for (int i = 0; i < (int)(sizeof cases_1 / sizeof *cases_1); i++)
        for (int s = 0; s < 4; s++) check_case(mesh, &cases_1[i], shapes[s]);
}

/* DT-28 */
WT_TEST(distribute__places_every_kind_on_two_axes)
{
    char mesh[32];

    if (wt_ranks() < 4) return; /* on 6 and on 8 ranks some meshes leave ranks outside */
    for (int i = 0; i < (int)(sizeof cases_2 / sizeof *cases_2); i++)
        for (int s = 0; s < 4; s++) {
            snprintf(mesh, sizeof mesh, "dp=%d,tp=%d", s % 2 ? 2 : wt_ranks() / 2,
                     s % 2 ? wt_ranks() / 2 : 2);
            check_case(mesh, &cases_2[i], shapes[s]);
        }
}

WT_TEST(distribute__places_every_kind_on_three_axes)
{
    if (wt_ranks() < 4) return;
    for (int i = 0; i < (int)(sizeof cases_3 / sizeof *cases_3); i++)
        for (int s = 0; s < 4; s++) {
            check_case(wt_ranks() == 8 ? "a=2,b=2,c=2" : "a=2,b=1,c=2", &cases_3[i], shapes[s]);
            check_case("a=1,b=2,c=2", &cases_3[i], shapes[s]);
        }
}

/* A partial target: the value is what the source has, exactly, integers too. */
WT_TEST_TIMES_IN_WORLD(distribute__may_start_as_a_partial_reduction, w, i, 5)
{
    static const char *const targets[] = {"P", "P(avg)", "P(max)", "P(min)", "P(product)"};
    int64_t data[] = {5, -7, 0, 1234567};
    weft_tensor *whole = weft_from_data(WEFT_I64, (int64_t[]){4}, 1, data), *t, *full;
    weft_tensor *real = wt_whole(WEFT_F64, 0, 3, 5);

    if (i != 1) {
        t = spread_from(w, whole, targets[i], 0);
        full = weft_full_tensor(t);
        WT_ALL(wt_is_placed(t, targets[i]));
        WT_ALL(full && memcmp(weft_data(full), data, sizeof data) == 0);
    }
    t = spread_from(w, real, targets[i], -1);
    WT_ALL(wt_near_tensors(t, real, WT_WITHIN(1e-15)));
}

/* ---- refusals ---- */

/* API-05; a text of another length, and options of another length */
WT_TEST(distribute__counts_placements)
{
    struct wt_world w;
    weft_placement p[WEFT_MAX_AXES];
    weft_tensor *t = wt_constant(4, 4, 1);

    w = wt_world_open_mesh("dp=%d,tp=1", wt_ranks());
    WT_FAILS(weft_placements_on(p, w.mesh, "S(0)"), WEFT_ERR_ARG, "must have the same length");
    WT_FAILS(weft_placements_on(p, w.mesh, "S(0),R,R"), WEFT_ERR_ARG, "must have the same length");
    WT_ALL(weft_placements_on(p, w.mesh, "S(0),R") == WEFT_OK);
    WT_ALL(!weft_from_local_with(t, w.mesh, p, (weft_from_local_options){.n_placements = 1}));
    WT_FAILED(WEFT_ERR_ARG, "must have the same length");
    WT_ALL(weft_from_local_with(t, w.mesh, p, (weft_from_local_options){.n_placements = 2}));
    WT_STILL(&w);
    wt_world_close(&w);
}

/* API-06; and spreading again (trap 30): the same is the same tensor, another way is an error. */
WT_TEST_IN_WORLD(distribute__refuses_what_is_no_leaf_and_what_is_spread, w)
{
    weft_mesh *other = weft_mesh_new(WEFT_CPU, "other=%d", wt_ranks());
    weft_tensor *leaf = weft_set_requires_grad(wt_constant(12, 3, 1), true), *t;
    weft_placement rows = weft_shard(0), columns = weft_shard(1);

    WT_ALL(!weft_distribute_tensor(weft_mul_scalar(leaf, 2), w->mesh, &rows, 0));
    WT_FAILED(WEFT_ERR_ARG, "only leaf tensors can be distributed");
    t = weft_distribute_tensor(leaf, w->mesh, &rows, -1);
    WT_ALL(t && weft_distribute_tensor(t, w->mesh, &rows, 0) == t);
    WT_ALL(spread_from(w, t, "S(-2)", -1) == t);
    WT_ALL(!weft_distribute_tensor(t, w->mesh, &columns, -1));
    WT_FAILED(WEFT_ERR_ARG, "weft_redistribute");
    WT_FAILS(weft_distribute_tensor(t, other, &rows, -1), WEFT_ERR_ARG, "another mesh");
    WT_STILL(w);
    weft_mesh_release(other);
}

/* Without ranks behind the mesh there is nobody to send or to compare. */
WT_TEST_IN_WORLD(distribute__on_a_mesh_without_ranks_keeps_its_own, w)
{
    weft_mesh *fake = weft_mesh_new_fake(1, "tp=3");
    weft_placement rows = weft_shard(0);
    weft_tensor *whole = wt_whole(WEFT_F64, 0, 7, 2), *t;
    double want[6];

    t = weft_distribute_tensor(whole, fake, &rows, -1);
    for (int i = 0; i < 6; i++) want[i] = wt_element(0, 6 + i);
    WT_ALL(t && weft_local_numel(t) == 6 && memcmp(weft_data(t), want, sizeof want) == 0);
    WT_ALL(!weft_distribute_tensor(whole, fake, &rows, 0));
    WT_FAILED(WEFT_ERR_COMM, "a fake mesh has no ranks");
    WT_ALL(!weft_from_local_with(whole, fake, &rows, (weft_from_local_options){.run_check = true}));
    WT_FAILED(WEFT_ERR_COMM, "a fake mesh has no ranks");
    WT_ALL(weft_distribute_tensor(weft_to_device(whole, WEFT_META), fake, &rows, 0));
    WT_STILL(w);
    weft_mesh_release(fake);
}

/* ---- ranks outside ---- */

/* DT-32: also other members, an uneven size, and a gradient through it. */
WT_TEST_IN_WORLD(mesh__of_some_ranks_leaves_the_others_alone, w)
{
    int ranks[] = {0, wt_ranks() - 1}, sizes[] = {2};
    weft_mesh *some;
    weft_placement rows = weft_shard(0);
    weft_tensor *leaf, *t;
    bool member = wt_rank() == ranks[0] || wt_rank() == ranks[1];

    if (wt_ranks() >= 3) {
        some = weft_mesh_from_ranks(WEFT_CPU, sizes, 1, "tp", ranks);
        leaf = weft_set_requires_grad(wt_constant(4, 3, 1), true);
        t = weft_from_local(leaf, some, &rows, NULL);
        WT_ALL(wt_has_shape(t, 2, (int64_t)8, (int64_t)3));
        t = wt_to(t, "R");
        WT_EQ(wt_moved(w, WEFT_COLL_COUNT), member);
        WT_EQ(weft_local_numel(t), member ? 24 : 0);
        WT_ALL(wt_local_is_all(t, 1));
        t = wt_to(t, "S(0)");
        WT_EQ(weft_local_numel(t), member ? 12 : 0);
        WT_ALL(wt_local_is_all(t, 1));
        WT_ALL(weft_backward(weft_sum_all(weft_mul_scalar(t, 2))) == WEFT_OK);
        WT_ALL(wt_local_is_all(weft_grad(leaf), member ? 2 : 0));
        t = weft_distribute_tensor(wt_constant(5, 3, wt_rank()), some, &rows, 1);
        WT_EQ(weft_local_numel(t), member ? (wt_rank() == 0 ? 9 : 6) : 0);
        WT_ALL(wt_local_is_all(t, ranks[1]));
        WT_ALL(weft_numel(weft_to_local(t, NULL)) == weft_local_numel(t));
        weft_mesh_release(some);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "distribute"); }
