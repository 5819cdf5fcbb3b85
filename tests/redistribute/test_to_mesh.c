/*
 * test_to_mesh.c: redistribution from one mesh to another, against the elements that each rank
 * should hold, one by one. Who has what is worked out here with a table of all elements and ranks.
 */
/* ranks: 3 4 6 8 */
/* mpi: 4 8 */
#include <stdlib.h>
#include <string.h>

#include "mesh/mesh.h"
#include "placement/shard.h"
#include "support/worlds.h"
#include "tensor/tensor.h"

enum { MOST = 8, ROUNDS = 60 };

/* ---- random meshes and placements, the same on all ranks ---- */

static unsigned pick(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* Some ranks in some order, as a grid of up to three axes. */
static weft_mesh *pick_mesh(unsigned *state)
{
    int ranks[MOST], sizes[3] = {1, 1, 1}, n = wt_ranks(), used = 1;

    for (int i = 0; i < n; i++) ranks[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)pick(state, (unsigned)i + 1), r = ranks[i];

        ranks[i] = ranks[j];
        ranks[j] = r;
    }
    for (int a = 0; a < 3; a++) {
        sizes[a] = 1 + (int)pick(state, (unsigned)(n / used));
        used *= sizes[a];
    }
    return weft_mesh_from_ranks(wt_device(), sizes, 1 + (int)pick(state, 3), NULL, ranks);
}

/* A dim has one strided shard or any number of plain ones. */
static void pick_placements(unsigned *state, const weft_mesh *mesh, int ndim, weft_placement *out)
{
    bool strided[WEFT_MAX_DIMS] = {false}, plain[WEFT_MAX_DIMS] = {false};

    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        int dim = ndim ? (int)pick(state, (unsigned)ndim) : 0;
        unsigned kind = ndim && !strided[dim] ? pick(state, 5) : 0;

        out[a] = weft_replicate();
        if (kind == 1 || kind == 2) out[a] = weft_shard(dim);
        if (kind == 3) out[a] = weft_shard_balanced(dim);
        if (kind == 4 && !plain[dim]) out[a] = weft_strided_shard(dim, 1 + (int)pick(state, 3));
        if (kind == 4 && !plain[dim]) strided[dim] = true;
        if (kind >= 1 && kind <= 3) plain[dim] = true;
    }
}

/* ---- who holds which element ---- */

static int64_t elements_of(const int64_t *shape, int ndim)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    return n;
}

/* holds[element] for one rank of the world; the global indices in local order into `order`. */
static int64_t list_elements(bool *holds, int64_t *order, int rank, const weft_mesh *mesh,
                             const weft_placement *placements, int ndim, const int64_t *shape)
{
    int coordinates[WEFT_MAX_AXES];
    int64_t count = 0, n = elements_of(shape, ndim);

    memset(holds, 0, (size_t)n * sizeof *holds);
    if (!weft_mesh_find(mesh, rank, coordinates)) return 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        bool mine = true;

        for (int d = ndim - 1; d >= 0; d--) {
            struct wf_shard part;

            wf_shard_init(&part, d, shape[d], wf_mesh_sizes(mesh), coordinates, placements,
                          weft_mesh_ndim(mesh));
            mine = mine && wf_shard_to_local(&part, rest % shape[d]) >= 0;
            rest /= shape[d];
        }
        holds[i] = mine;
        if (mine) order[count++] = i;
    }
    return count;
}

struct move {
    weft_mesh *from, *to;
    weft_placement have[WEFT_MAX_AXES], want[WEFT_MAX_AXES];
    int ndim;
    int64_t shape[3];
};

/* Elements that ranks lack, all ranks together: what must travel, and no more. */
static int64_t lacking(const struct move *m)
{
    int64_t n = elements_of(m->shape, m->ndim), lack = 0, *order;
    bool *before = malloc((size_t)n + 1), *after = malloc((size_t)n + 1);

    order = malloc((size_t)(n + 1) * sizeof *order);
    for (int rank = 0; rank < wt_ranks(); rank++) {
        list_elements(before, order, rank, m->from, m->have, m->ndim, m->shape);
        list_elements(after, order, rank, m->to, m->want, m->ndim, m->shape);
        for (int64_t i = 0; i < n; i++) lack += after[i] && !before[i];
    }
    free(order);
    free(before);
    free(after);
    return lack;
}

/* This rank holds exactly what it should, in order; element i of the whole has the value i. */
static bool holds_right(weft_tensor *t, const struct move *m, double scale)
{
    int64_t n = elements_of(m->shape, m->ndim), count, *order;
    bool *holds = malloc((size_t)n + 1), right;
    double *got;

    order = malloc((size_t)(n + 1) * sizeof *order);
    count = list_elements(holds, order, wt_rank(), m->to, m->want, m->ndim, m->shape);
    got = malloc((size_t)(count + 1) * sizeof *got);
    right = t && weft_local_numel(t) == count && weft_read_f64(t, got, count) == WEFT_OK;
    for (int64_t i = 0; right && i < count; i++) right = got[i] == scale * (double)order[i];
    if (!right) wt_note("%lld elements wanted", (long long)count);
    free(got);
    free(order);
    free(holds);
    return right;
}

/* ---- cases ---- */

static weft_tensor *counted(const struct move *m)
{
    int64_t n = elements_of(m->shape, m->ndim);
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    weft_tensor *t;

    for (int64_t i = 0; i < n; i++) values[i] = (double)i;
    t = weft_from_data(WEFT_F64, m->shape, m->ndim, values);
    free(values);
    return t;
}

static void pick_move(struct move *m, unsigned *state)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 7, 8, 13};

    m->ndim = (int)pick(state, 4);
    for (int d = 0; d < m->ndim; d++) m->shape[d] = sizes[pick(state, 8)];
    m->from = pick_mesh(state);
    m->to = pick_mesh(state);
    pick_placements(state, m->from, m->ndim, m->have);
    pick_placements(state, m->to, m->ndim, m->want);
}

static int64_t sum_over_world(int64_t mine)
{
    weft_mesh *world = weft_mesh_new(wt_device(), "w=%d", wt_ranks());
    weft_tensor *t = weft_from_data(WEFT_I64, NULL, 0, &mine);
    int64_t sum = (int64_t)weft_item(weft_mesh_all_reduce(t, WEFT_SUM, world, 0));

    weft_mesh_release(world);
    return sum;
}

static void note(const struct move *m, int round)
{
    char have[128], want[128], a[64], b[64];

    weft_placements_format(m->have, weft_mesh_ndim(m->from), have, sizeof have);
    weft_placements_format(m->want, weft_mesh_ndim(m->to), want, sizeof want);
    weft_mesh_format(m->from, a, sizeof a);
    weft_mesh_format(m->to, b, sizeof b);
    wt_note("round %d: [%lld,%lld,%lld] of %d dims, %s %s to %s %s; ", round,
            (long long)m->shape[0], (long long)m->shape[1], (long long)m->shape[2], m->ndim, have,
            a, want, b);
}

/* Any mesh to any mesh, uneven and empty, there and back; each lacking element is sent once. */
WT_TEST(to_mesh__any_two_meshes_every_element_arrives)
{
    unsigned state = 20u + (unsigned)wt_ranks();

    for (int round = 0; round < ROUNDS; round++) {
        struct move m = {.shape = {1, 1, 1}}, back;
        weft_scope *scope = weft_scope_open();
        weft_tensor *t, *there, *home;
        weft_ledger *ledger;
        int64_t sent;

        pick_move(&m, &state);
        t = weft_distribute_tensor(counted(&m), m.from, m.have, -1);
        ledger = weft_ledger_open();
        there = weft_redistribute_to_mesh(t, m.to, m.want);
        sent = weft_ledger_bytes(ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_ANY, NULL);
        weft_ledger_close(ledger);
        note(&m, round);
        WT_ALL(holds_right(there, &m, 1));
        note(&m, round);
        if (m.from != m.to) WT_EQ(sum_over_world(sent), 8 * lacking(&m));
        back = m;
        back.to = m.from;
        memcpy(back.want, m.have, sizeof m.have);
        home = weft_redistribute_to_mesh(there, m.from, m.have);
        note(&m, round);
        WT_ALL(holds_right(home, &back, 1));
        WT_RELEASE(weft_mesh_release, m.from, m.to);
        weft_scope_close(scope);
    }
}

/* A partial sum is summed first. */
WT_TEST(to_mesh__meshes_partial_sums_are_carried_out)
{
    unsigned state = 7;

    for (int round = 0; round < 12; round++) {
        struct move m = {.shape = {1, 1, 1}};
        weft_scope *scope = weft_scope_open();
        weft_tensor *t;
        int axis, terms;

        pick_move(&m, &state);
        for (int a = 0; a < weft_mesh_ndim(m.from); a++) m.have[a] = weft_replicate();
        axis = (int)pick(&state, (unsigned)weft_mesh_ndim(m.from));
        m.have[axis] = weft_partial(WEFT_SUM);
        terms = weft_mesh_axis_size(m.from, axis);
        t = weft_from_local(counted(&m), m.from, m.have, m.shape);
        note(&m, round);
        t = weft_redistribute_to_mesh(t, m.to, m.want);
        note(&m, round);
        WT_ALL(holds_right(t, &m, terms));
        WT_RELEASE(weft_mesh_release, m.from, m.to);
        weft_scope_close(scope);
    }
}

/* The gradient comes back to the mesh and the placements that the tensor had. */
WT_TEST(to_mesh__meshes_gradients_return)
{
    unsigned state = 99;

    for (int round = 0; round < 12; round++) {
        struct move m = {.shape = {1, 1, 1}};
        weft_scope *scope = weft_scope_open();
        weft_tensor *t, *weights, *y;
        weft_mesh *to;

        pick_move(&m, &state);
        to = m.to;
        t = weft_distribute_tensor(counted(&m), m.from, m.have, -1);
        weft_set_requires_grad(t, true);
        weights = weft_distribute_tensor(counted(&m), m.to, m.want, -1);
        y = weft_redistribute_to_mesh(t, m.to, m.want);
        WT_ALL(weft_backward(weft_sum_all(weft_mul(y, weights))) == WEFT_OK);
        m.to = m.from;
        memcpy(m.want, m.have, sizeof m.have);
        note(&m, round);
        WT_ALL(weft_tensor_mesh(weft_grad(t)) == m.from);
        WT_ALL(holds_right(weft_grad(t), &m, 1));
        weft_scope_close(scope);
        WT_RELEASE(weft_mesh_release, to, m.from);
    }
}

/* From a mesh of rank 0 alone to all, and from one half of the world to the other. */
WT_TEST(to_mesh__meshes_that_have_no_rank_in_common)
{
    int n = wt_ranks(), half = n / 2, one = 1, left[MOST], right[MOST];
    struct move m = {.ndim = 2, .shape = {n + 3, 5, 1}};
    weft_tensor *t;

    if (n % 2) return;
    for (int i = 0; i < half; i++) left[i] = i, right[i] = n - 1 - i;
    m.from = weft_mesh_from_ranks(wt_device(), &half, 1, "tp", left);
    m.to = weft_mesh_from_ranks(wt_device(), &half, 1, "tp", right);
    m.have[0] = weft_shard(0);
    m.want[0] = weft_shard(1);
    t = weft_distribute_tensor(counted(&m), m.from, m.have, -1);
    t = weft_redistribute_to_mesh(t, m.to, m.want);
    WT_ALL(holds_right(t, &m, 1));
    weft_mesh_release(m.from);
    m.from = weft_mesh_from_ranks(wt_device(), &one, 1, NULL, left);
    m.have[0] = weft_replicate();
    t = weft_distribute_tensor(counted(&m), m.from, m.have, -1);
    t = weft_redistribute_to_mesh(t, m.to, m.want);
    WT_ALL(holds_right(t, &m, 1));
    WT_RELEASE(weft_mesh_release, m.from, m.to);
}

/* Four replicas serve the others evenly; at 8 ranks each sends the whole once. */
WT_TEST(to_mesh__meshes_replicas_share_the_load)
{
    int n = wt_ranks(), half = n / 2;
    int64_t shape[1] = {24}, sent;
    weft_mesh *few = weft_mesh_from_ranks(wt_device(), &half, 1, "tp", NULL),
              *all = weft_mesh_new(wt_device(), "tp=%d", n);
    weft_placement whole = weft_replicate();
    weft_tensor *t = weft_distribute_tensor(weft_full(WEFT_F64, shape, 1, 3), few, &whole, -1);
    weft_ledger *ledger = weft_ledger_open();

    t = weft_redistribute_to_mesh(t, all, &whole);
    sent = weft_ledger_bytes(ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_ANY, NULL);
    weft_ledger_close(ledger);
    WT_ALL(wt_local_is_all(t, 3) && weft_local_numel(t) == 24);
    if (n % 2 == 0) WT_ALL(sent == (wt_rank() < half ? 24 * 8 : 0));
    WT_RELEASE(weft_mesh_release, few, all);
}

/* The same elements under another mesh: nothing is sent, and bytes are shared. */
WT_TEST_IN_WORLD(to_mesh__meshes_where_nothing_moves_bytes_are_shared, w)
{
    int n = wt_ranks(), rows = n % 2 ? 1 : 2;
    weft_mesh *line = weft_mesh_new(wt_device(), "tp=%d", n),
              *grid = weft_mesh_new(wt_device(), "dp=%d,tp=%d", rows, n / rows);
    weft_placement flat = weft_shard(0), nested[] = {weft_shard(0), weft_shard(0)};
    weft_tensor *t, *same;

    t = weft_distribute_tensor(wt_whole(WEFT_F32, 1, 2 * n, 3), line, &flat, -1);
    same = weft_redistribute_to_mesh(t, grid, nested);
    WT_ALL(weft_data(same) == weft_data(t) && weft_tensor_mesh(same) == grid);
    WT_STILL(w);
    WT_ALL(weft_redistribute_to_mesh(t, line, &flat) == t);
    flat = weft_replicate();
    t = weft_distribute_tensor(wt_whole(WEFT_F32, 1, 2 * n, 3), line, &flat, -1);
    same = weft_redistribute_to_mesh(t, grid, nested); /* a part of what is there: copied */
    WT_EQ(weft_local_size(same, 0), 2);
    WT_STILL(w);
    WT_RELEASE(weft_mesh_release, line, grid);
}

/* All ranks go on with the bytes that they had, or none: else a write would be seen through, and
 * counted, on some ranks only. trial 2 */
WT_TEST(to_mesh__meshes_bytes_are_shared_on_all_ranks_or_none)
{
    weft_mesh *line = weft_mesh_new(wt_device(), "tp=%d", wt_ranks()),
              *other = weft_mesh_new(wt_device(), "dp=%d", wt_ranks());
    weft_placement whole = weft_replicate(), rows = weft_shard(0);
    unsigned state = 5;
    int shared = 0, copied = 0;

    for (int round = -1; round < ROUNDS; round++) {
        struct move m = {line, other, {whole}, {rows}, 2, {1, 3, 1}}, back;
        weft_scope *scope = weft_scope_open();
        weft_tensor *t, *there;
        int64_t before, writes;
        bool fresh = round >= 0;

        if (fresh) pick_move(&m, &state);
        if (fresh && round % 3 == 0) { /* the same ranks under another mesh */
            int size = weft_mesh_size(m.from);

            weft_mesh_release(m.to);
            m.to = weft_mesh_from_ranks(wt_device(), &size, 1, NULL, wf_mesh_rank_list(m.from));
            m.want[0] = m.have[0];
        }
        t = weft_distribute_tensor(counted(&m), m.from, m.have, -1);
        there = weft_redistribute_to_mesh(t, m.to, m.want);
        before = weft_tensor_version(t);
        WT_EQ(weft_fill_(there, -1), WEFT_OK);
        writes = sum_over_world(weft_tensor_version(t) - before);
        note(&m, round);
        WT_ALL(writes == 0 || writes == wt_ranks());
        shared += writes > 0;
        copied += writes == 0;
        back = m;
        back.to = m.from;
        memcpy(back.want, m.have, sizeof m.have);
        note(&m, round);
        if (writes == 0) WT_ALL(holds_right(t, &back, 1));
        if (fresh) {
            WT_RELEASE(weft_mesh_release, m.from, m.to);
        }
        weft_scope_close(scope);
    }
    WT_ALL(shared > 0 && copied > 0);
    WT_RELEASE(weft_mesh_release, line, other);
}

static int64_t booked(const char *placements)
{
    weft_mesh *many = weft_mesh_new_fake(3, "dp=16"), *few = weft_mesh_new_fake(3, "tp=4");
    weft_placement sharded = weft_shard(0), from;
    weft_tensor *t = weft_to_device(wt_whole(WEFT_F32, 1, 96, 4), WEFT_META);
    weft_ledger *ledger;
    int64_t sent;

    weft_placements_parse(&from, 1, placements);
    t = weft_distribute_tensor(t, many, &from, -1);
    ledger = weft_ledger_open();
    t = weft_redistribute_to_mesh(t, few, &sharded);
    sent = weft_ledger_bytes(ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_ANY, NULL);
    weft_ledger_close(ledger);
    WT_EQ(weft_local_size(t, 0), 24);
    WT_RELEASE(weft_mesh_release, many, few);
    return sent;
}

/* On paper: of 16 ranks this process plays number 3, whose rows 18 to 23 rank 0 of 4 needs. */
WT_TEST(to_mesh__meshes_without_ranks_moves_are_booked)
{
    WT_EQ(booked("S(0)"), 6 * 4 * 4);
    WT_EQ(booked("R"), 0);
}

WT_TEST(to_mesh__meshes_what_does_not_fit_is_refused)
{
    weft_mesh *line = weft_mesh_new(wt_device(), "tp=%d", wt_ranks()),
              *other = weft_mesh_new(wt_device(), "dp=%d", wt_ranks()), *fake;
    weft_placement whole = weft_replicate(), sum = weft_partial(WEFT_SUM), third = weft_shard(2);
    weft_tensor *plain = wt_whole(WEFT_F32, 1, 4, 3), *t;

    t = weft_distribute_tensor(plain, line, &whole, -1);
    WT_ALL(!weft_redistribute_to_mesh(plain, other, &whole));
    WT_FAILED(WEFT_ERR_ARG, "the tensor is plain");
    WT_ALL(!weft_redistribute_to_mesh(t, other, &sum));
    WT_FAILED(WEFT_ERR_LAYOUT, "becomes partial on another mesh");
    WT_ALL(!weft_redistribute_to_mesh(t, other, &third));
    WT_FAILED(WEFT_ERR_LAYOUT, "redistribute to mesh");
    fake = weft_mesh_new_fake(1, "tp=64");
    WT_FAILS(weft_redistribute_to_mesh(t, fake, &whole), WEFT_ERR_COMM, "a fake mesh");
    t = weft_redistribute_to_mesh(weft_to_device(t, WEFT_META), fake, &whole);
    WT_ALL(wt_has_shape(t, 2, 4, 3) && weft_tensor_mesh(t) == fake);
    WT_RELEASE(weft_mesh_release, fake, line, other);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "to_mesh"); }
