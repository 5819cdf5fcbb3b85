/*
 * test_strategies.c: what einsum takes a dim for, and which placements the rules of products accept
 * as they are: counted, without ranks.
 */
#include <string.h>

#include <check.h>

#include "dtensor/dispatch/choose_placements.h"
#include "mesh/mesh.h"
#include "ops/products/einsum.h"
#include "support/mpi_check.h"

/* ---- letters ---- */

static void must_be(const char *equation, int a, int b, const struct wf_einsum_dims *want)
{
    struct wf_einsum_dims dims;
    struct wf_einsum e;

    ck_assert_int_eq(wf_einsum_parse(&e, equation, (int[]){a, b}, 2), WEFT_OK);
    wf_einsum_classify(&dims, &e);
    ck_assert_str_eq(dims.batch, want->batch);
    ck_assert_str_eq(dims.contracting, want->contracting);
    ck_assert_str_eq(dims.left, want->left);
    ck_assert_str_eq(dims.right, want->right);
    for (int i = 0; i < 2; i++) ck_assert_str_eq(dims.summed[i], want->summed[i]);
}

/* MAT-26 */
WT_UNIT(einsum__classifies_dims)
{
    must_be("abc,abc->abc", 3, 3, &(struct wf_einsum_dims){.batch = "abc"});
    must_be("mk,kn->mn", 2, 2,
            &(struct wf_einsum_dims){.contracting = "k", .left = "m", .right = "n"});
    must_be("bmk,bkn->bmn", 3, 3,
            &(struct wf_einsum_dims){.batch = "b", .contracting = "k", .left = "m", .right = "n"});
    must_be("bcmk,bckn->bcmn", 4, 4,
            &(struct wf_einsum_dims){.batch = "bc", .contracting = "k", .left = "m", .right = "n"});
    must_be("abc,ab->abc", 3, 2, &(struct wf_einsum_dims){.batch = "ab", .left = "c"});
    must_be("abd,bf->abfd", 3, 2,
            &(struct wf_einsum_dims){.batch = "b", .left = "ad", .right = "f"});
    must_be("abx,ay->a", 3, 2, &(struct wf_einsum_dims){.batch = "a", .summed = {"bx", "y"}});
}

/* Without an arrow; with dims that an ellipsis stands for; what cannot be read. */
WT_UNIT(einsum__reads_equations)
{
    struct wf_einsum e;

    ck_assert_int_eq(wf_einsum_parse(&e, "kb, ka", (int[]){2, 2}, 2), WEFT_OK);
    ck_assert_str_eq(e.out, "ab");
    ck_assert_int_eq(wf_einsum_parse(&e, "...mk,...kn->...mn", (int[]){4, 3}, 2), WEFT_OK);
    ck_assert_str_eq(e.in[0], "10mk");
    ck_assert_str_eq(e.in[1], "0kn");
    ck_assert_str_eq(e.out, "10mn");
    ck_assert_int_ne(wf_einsum_parse(&e, "ii->i", (int[]){2}, 1), WEFT_OK);
    ck_assert_int_ne(wf_einsum_parse(&e, "ij->k", (int[]){2}, 1), WEFT_OK);
    ck_assert_int_ne(wf_einsum_parse(&e, "ij,jk->ik", (int[]){2, 3}, 2), WEFT_OK);
    ck_assert_int_ne(wf_einsum_parse(&e, "ij,jk", (int[]){2}, 1), WEFT_OK);
    ck_assert_int_ne(wf_einsum_parse(&e, "i.j->ij", (int[]){2}, 1), WEFT_OK);
    ck_assert_int_ne(wf_einsum_parse(&e, "i1->i", (int[]){2}, 1), WEFT_OK);
    ck_assert_int_ne(wf_einsum_parse(&e, "abcdefghi->a", (int[]){8}, 1), WEFT_OK);
    weft_error_clear();
}

/* ---- rules ---- */

/* A call of two operands on a mesh of one axis, or two. */
struct query {
    enum wf_op op;
    union wf_op_attrs attrs;
    int attr_words;
    int ndim[2];
    int64_t shape[2][4];
};

static const int sizes[2] = {2, 2}, wide[2] = {4, 1}, coordinates[2] = {0, 0};

static weft_mesh *mesh_of(int axes)
{
    return wf_mesh_new_fake(axes == 1 ? wide : sizes, coordinates, (const char *const[]){"a", "b"},
                            axes);
}

/* What is chosen for operands placed so. gives: false where one of them has to move */
static bool choose(const struct query *q, weft_mesh *mesh, weft_placement p[2][WEFT_MAX_AXES],
                   struct wf_placement_choice *choice)
{
    struct wf_layout *in[2];
    struct wf_infer call = {.row = &wf_ops[q->op],
                            .name = "query",
                            .n_in = 2,
                            .n_out = 1,
                            .attrs = &q->attrs,
                            .attr_words = q->attr_words};
    bool still = true;

    for (int i = 0; i < 2; i++) {
        in[i] = wf_layout_new(mesh, p[i], WEFT_F32, q->shape[i], NULL, q->ndim[i]);
        call.in[i] = in[i];
    }
    memset(choice, 0, sizeof *choice);
    ck_assert_int_eq(call.row->shape(&call), WEFT_OK);
    ck_assert_int_eq(wf_choose_placements(&call, mesh, choice), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        for (int a = 0; a < weft_mesh_ndim(mesh); a++)
            still &= weft_placement_equal(choice->in[i][a], p[i][a]);
        wf_layout_release(in[i]);
    }
    return still;
}

/* Placement number k of an operand: whole, a dim, terms. */
static weft_placement numbered(int ndim, int k)
{
    return k == 0 ? weft_replicate() : k <= ndim ? weft_shard(k - 1) : weft_partial(WEFT_SUM);
}

/* How many placements of both operands are accepted as they are. */
static int count(const struct query *q, int axes, bool terms)
{
    int ways[2] = {1 + q->ndim[0] + terms, 1 + q->ndim[1] + terms}, all = 1, found = 0;
    weft_mesh *mesh = mesh_of(axes);

    for (int a = 0; a < axes; a++) all *= ways[0] * ways[1];
    for (int k = 0; k < all; k++) {
        weft_placement p[2][WEFT_MAX_AXES] = {{{0}}};
        struct wf_placement_choice choice;
        int left = k;

        for (int a = 0; a < axes; a++)
            for (int i = 0; i < 2; i++) {
                p[i][a] = numbered(q->ndim[i], left % ways[i]);
                left /= ways[i];
            }
        if (!choose(q, mesh, p, &choice)) continue;
        ck_assert_int_eq(choice.cost, 0);
        found++;
    }
    weft_mesh_release(mesh);
    return found;
}

enum {
    WORDS_OF_MATMUL = sizeof(struct wf_matmul_attrs) / 8,
    WORDS_OF_LINEAR = sizeof(struct wf_linear_attrs) / 8
};

static const struct query mm = {
    WF_OP_matmul, {.matmul = {0}}, WORDS_OF_MATMUL, {2, 2}, {{16, 8}, {8, 16}}};
static const struct query bmm = {
    WF_OP_matmul, {.matmul = {0}}, WORDS_OF_MATMUL, {3, 3}, {{8, 16, 8}, {8, 8, 16}}};
static const struct query pointwise = {WF_OP_mul, {{0}}, 0, {4, 4}, {{4, 8, 4, 8}, {4, 8, 4, 8}}};
static const struct query broadcast = {WF_OP_mul, {{0}}, 0, {4, 4}, {{4, 8, 4, 8}, {4, 1, 4, 8}}};
static const struct query sum = {WF_OP_add, {{0}}, 0, {4, 4}, {{4, 8, 4, 8}, {4, 8, 4, 8}}};

/* MAT-27: a way for each kind of dim and one for whole operands, squared on two axes */
WT_UNIT(strategies__are_as_many_as_dims)
{
    /* einsum "bmk,kn->bmn" is a linear with w [n,k], "bmk,k->bm" one with w [b,m,k] */
    struct query rows = {
        WF_OP_linear, {.linear = {.k_dims = 1}}, WORDS_OF_LINEAR, {3, 2}, {{8, 16, 8}, {16, 8}}};
    struct query vector = {
        WF_OP_linear, {.linear = {.k_dims = 1}}, WORDS_OF_LINEAR, {1, 3}, {{8}, {8, 16, 8}}};

    ck_assert_int_eq(count(&mm, 1, false), 4);
    ck_assert_int_eq(count(&mm, 2, false), 16);
    ck_assert_int_eq(count(&bmm, 1, false), 5);
    ck_assert_int_eq(count(&bmm, 2, false), 25);
    ck_assert_int_eq(count(&rows, 2, false), 25);
    ck_assert_int_eq(count(&vector, 2, false), 16);
    ck_assert_int_eq(count(&pointwise, 1, false), 5);
    ck_assert_int_eq(count(&broadcast, 1, false), 5);
    ck_assert_int_eq(count(&sum, 1, true), 6);
    /* of a product either factor may be terms while the other is whole */
    ck_assert_int_eq(count(&mm, 1, true), 6);
    ck_assert_int_eq(count(&bmm, 1, true), 7);
}

/* Both operands on one axis of four ranks, as numbers of placements; the first result's placement.
 */
static weft_placement result(const struct query *q, int a, int b, bool *still)
{
    weft_placement p[2][WEFT_MAX_AXES] = {{numbered(q->ndim[0], a)}, {numbered(q->ndim[1], b)}};
    struct wf_placement_choice choice;
    weft_mesh *mesh = mesh_of(1);

    *still = choose(q, mesh, p, &choice);
    ck_assert(*still == (choice.cost == 0));
    weft_mesh_release(mesh);
    return choice.out[0][0];
}

enum { R, S0, S1, S2 };

/* MAT-28 */
WT_UNIT(strategies__that_cost_nothing)
{
    static const int pairs[][3] = {{S0, R, S0}, {R, S1, S1}, {S1, S0, -1}, {R, R, R}};
    static const int batches[][3] = {
        {S0, S0, S0}, {S1, R, S1}, {R, S2, S2}, {S2, S1, -1}, {R, R, R}};
    bool still;

    for (int k = 0; k < 4; k++) {
        weft_placement y = result(&mm, pairs[k][0], pairs[k][1], &still);

        ck_assert(still);
        ck_assert(pairs[k][2] < 0 ? weft_is_partial(y)
                                  : weft_placement_equal(y, numbered(2, pairs[k][2])));
    }
    for (int k = 0; k < 5; k++) {
        weft_placement y = result(&bmm, batches[k][0], batches[k][1], &still);

        ck_assert(still);
        ck_assert(batches[k][2] < 0 ? weft_is_partial(y)
                                    : weft_placement_equal(y, numbered(3, batches[k][2])));
    }
}

static void set(weft_placement *to, weft_placement a, weft_placement b)
{
    to[0] = a;
    to[1] = b;
}

/* MAT-29 */
WT_UNIT(strategies__of_a_product_of_matrices)
{
    weft_placement p[2][WEFT_MAX_AXES] = {{weft_shard(0)}, {weft_shard(0)}};
    const weft_placement whole = weft_replicate();
    struct wf_placement_choice choice;
    weft_mesh *mesh = mesh_of(1);
    bool still;

    ck_assert(!choose(&mm, mesh, p, &choice)); /* the second is gathered */
    ck_assert(weft_placement_equal(choice.in[0][0], weft_shard(0)));
    ck_assert(weft_placement_equal(choice.in[1][0], whole));
    weft_mesh_release(mesh);
    ck_assert(weft_placement_equal(result(&mm, R, S1, &still), weft_shard(1)) && still);
    ck_assert(weft_placement_equal(result(&mm, S0, R, &still), weft_shard(0)) && still);
    ck_assert(weft_is_partial(result(&mm, S1, S0, &still)) && still);
    mesh = mesh_of(2);
    set(p[0], weft_shard(0), whole);
    set(p[1], whole, weft_shard(1));
    ck_assert(choose(&mm, mesh, p, &choice));
    ck_assert(weft_placement_equal(choice.out[0][0], weft_shard(0)));
    ck_assert(weft_placement_equal(choice.out[0][1], weft_shard(1)));
    weft_mesh_release(mesh);
}

/* MAT-30: one operand's terms along the second axis */
WT_UNIT(strategies__of_terms)
{
    const weft_placement whole = weft_replicate(), rows = weft_shard(0),
                         terms = weft_partial(WEFT_SUM);
    struct query add = {WF_OP_add, {{0}}, 0, {2, 2}, {{16, 8}, {16, 8}}}, largest = add;
    weft_placement p[2][WEFT_MAX_AXES];
    struct wf_placement_choice choice;
    weft_mesh *mesh = mesh_of(2);

    memset(p, 0, sizeof p);
    largest.op = WF_OP_maximum; /* is not linear: they are reduced */
    set(p[0], rows, terms);
    set(p[1], rows, whole);
    ck_assert(!choose(&largest, mesh, p, &choice));
    ck_assert(!weft_is_partial(choice.in[0][1]) && !weft_is_partial(choice.out[0][1]));
    ck_assert(!choose(&add, mesh, p, &choice)); /* the other becomes terms, which sends nothing */
    ck_assert(weft_placement_equal(choice.in[0][1], terms));
    ck_assert(weft_placement_equal(choice.in[1][1], terms));
    ck_assert(weft_placement_equal(choice.out[0][1], terms));
    ck_assert_int_eq(choice.cost, 0);
    set(p[1], whole, whole);
    ck_assert(choose(&mm, mesh, p, &choice));
    ck_assert_int_eq(choice.cost, 0);
    ck_assert(weft_placement_equal(choice.out[0][0], rows));
    ck_assert(weft_placement_equal(choice.out[0][1], terms));
    set(p[0], whole, terms); /* two factors of terms are never multiplied as they are */
    set(p[1], whole, terms);
    ck_assert(!choose(&mm, mesh, p, &choice));
    ck_assert(!weft_is_partial(choice.in[0][1]) || !weft_is_partial(choice.in[1][1]));
    weft_mesh_release(mesh);
}

int main(void) { return wt_unit_main("products_strategies"); }
