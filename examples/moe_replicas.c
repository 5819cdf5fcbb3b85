/*
 * moe_replicas.c: a mixture of experts as Megatron trains it: every rank has tokens of its own, so
 * all ranks are replicas; but along ep each has some of the experts, and tokens travel to theirs.
 *
 *     moe_replicas                                      one process
 *     mpiexec -n 4 moe_replicas --mesh dp=2,ep=2        four: the same losses
 *     moe_replicas --mesh dp=2,ep=3 --ranks 6           six threads of one process
 *
 * Gradients of experts are reduced along dp, all others along dp and ep, and all are divided by the
 * tokens of all ranks. At the end the program compares the collectives of a step with what they
 * should be, and fails when they are others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "common/command_line.h"
#include "common/say.h"

enum { TOKENS = 48, WIDTH = 16, HIDDEN = 24, EXPERTS = 6, CLASSES = 8 };

struct options {
    const char *mesh;
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
    int steps;
};

/* ---- the layer: each token goes to the expert that the gate prefers ---- */

/* Tokens by the rank of their expert: the order in which they leave, and how many go where. */
struct route {
    int32_t leaving[TOKENS], back[TOKENS]; /* which token is n-th; at which place is token n */
    int64_t sent[EXPERTS], come[EXPERTS];
};

static int rank_of(const weft_mesh *ep, int expert)
{
    int64_t each = weft_chunk_size(EXPERTS, weft_mesh_size(ep), 0);

    return (int)(expert / each);
}

static weft_status find_route(struct route *r, weft_tensor *best, const weft_mesh *ep)
{
    double expert[TOKENS];
    int64_t tokens = weft_numel(best);
    int32_t n = 0;
    weft_status status = weft_read_f64(best, expert, TOKENS);

    memset(r, 0, sizeof *r);
    for (int e = 0; e < weft_mesh_size(ep) && status == WEFT_OK; e++)
        for (int32_t i = 0; i < tokens; i++) {
            if (rank_of(ep, (int)expert[i]) != e) continue;
            r->leaving[n] = i;
            r->back[i] = n++;
            r->sent[e]++;
        }
    return status;
}

static weft_tensor *reorder(weft_tensor *rows, const int32_t *order)
{
    int64_t n = weft_size(rows, 0);

    return weft_embedding(rows, weft_from_data(WEFT_I32, &n, 1, order));
}

/* The experts that this rank has, each on all tokens that came; of every token one counts. */
static weft_tensor *own_experts(weft_tensor *x, weft_tensor *best, weft_tensor *up,
                                weft_tensor *down, int first)
{
    int64_t column[] = {weft_size(x, 0), 1};
    weft_tensor *sum = weft_mul_scalar(x, 0);

    for (int e = 0; e < weft_size(up, 0); e++) {
        weft_tensor *is_it = weft_eq(best, weft_full(WEFT_F32, NULL, 0, first + e));
        weft_tensor *y = weft_relu(weft_matmul(x, weft_select(up, 0, e)));

        y = weft_matmul(y, weft_select(down, 0, e));
        sum = weft_add(sum, weft_mul(y, weft_reshape(weft_cast(is_it, WEFT_F32), column, 2)));
    }
    return sum;
}

/* A shard of a parameter over ep. Tokens of all ranks meet it here, and their ranks get their
 * gradients by the way back: this rank's own business. */
static weft_tensor *own_part(weft_module *m, const char *name)
{
    return weft_drop_grad_types(weft_to_local(weft_module_parameter(m, name), NULL));
}

/* Each statement sends at most once: ranks agree on what comes next. */
static weft_tensor *moe_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_mesh *ep = weft_tensor_mesh(weft_module_parameter(m, "up"));
    weft_tensor *x = inputs[0], *up = own_part(m, "up"), *down = own_part(m, "down");
    weft_tensor *share = weft_softmax(weft_matmul(x, weft_module_parameter(m, "gate")), -1);
    weft_tensor *best = weft_argmax(share, -1), *there, *wanted;
    int64_t column[] = {weft_size(x, 0), 1}, first = 0;
    struct route r;

    (void)n;
    if (find_route(&r, best, ep) != WEFT_OK) return NULL;
    for (int e = 0; e < weft_mesh_coordinate(ep, 0); e++)
        first += weft_chunk_size(EXPERTS, weft_mesh_size(ep), e);
    best = weft_reshape(weft_cast(best, WEFT_F32), column, 2);
    there = weft_mesh_all_to_all_single(reorder(x, r.leaving), r.sent, r.come, ep, 0);
    wanted = weft_mesh_all_to_all_known(reorder(best, r.leaving), r.sent, r.come, ep, 0);
    if (!there || !wanted) return NULL;
    wanted = weft_reshape(wanted, (int64_t[]){weft_size(there, 0)}, 1);
    there = own_experts(there, wanted, up, down, (int)first);
    there = weft_mesh_all_to_all_known(there, r.come, r.sent, ep, 0);
    return weft_mul(reorder(there, r.back), weft_amax(share, (int[]){-1}, 1, true));
}

static const weft_module_class moe_class = {.type = "moe", .forward = moe_forward};

static weft_status add(weft_module *m, const char *name, weft_mesh *ep, weft_spec spec)
{
    weft_placement experts = weft_shard(0);
    weft_tensor *t = weft_make_normal(spec, 0, 0.3, NULL);

    if (ep) t = weft_distribute_tensor(t, ep, &experts, -1);
    return weft_module_add_parameter(m, name, t);
}

static weft_module *moe_new(weft_mesh *ep)
{
    weft_module *m = weft_module_new(&moe_class, NULL);

    if (add(m, "gate", NULL, (weft_spec){.ndim = 2, .shape = {WIDTH, EXPERTS}}) == WEFT_OK &&
        add(m, "up", ep, (weft_spec){.ndim = 3, .shape = {EXPERTS, WIDTH, HIDDEN}}) == WEFT_OK &&
        add(m, "down", ep, (weft_spec){.ndim = 3, .shape = {EXPERTS, HIDDEN, WIDTH}}) == WEFT_OK)
        return m;
    weft_module_release(m);
    return NULL;
}

/* ---- the model: a layer, experts, a layer ---- */

struct trainer {
    const struct options *o;
    weft_mesh *mesh;
    weft_module *model;
    weft_optim *adam;
};

static weft_status build(struct trainer *t)
{
    weft_data_parallel_config config = {.expert_axes = "ep"};
    weft_scope *scope = weft_scope_open();
    weft_mesh *ep;
    weft_status status;

    t->mesh = t->o->mesh ? weft_mesh_new(WEFT_CPU, "%s", t->o->mesh)
                         : weft_mesh_new(WEFT_CPU, "dp=1,ep=%d", weft_world_size());
    if (t->mesh && (weft_mesh_ndim(t->mesh) != 2 || weft_mesh_axis(t->mesh, "ep") != 1 ||
                    weft_mesh_axis_size(t->mesh, 1) > EXPERTS)) {
        complain("a mesh has the axes dp and ep here, and at most %d ranks along ep", EXPERTS);
        weft_scope_close(scope);
        return WEFT_ERR_ARG;
    }
    ep = t->mesh ? weft_mesh_sub(t->mesh, "ep") : NULL;
    t->model = weft_sequential_new();
    weft_module_add_child(t->model, "in",
                          weft_linear_new((weft_linear_config){.in = {WIDTH}, .out = {WIDTH}}));
    weft_module_add_child(t->model, "experts", ep ? moe_new(ep) : NULL);
    weft_module_add_child(t->model, "out",
                          weft_linear_new((weft_linear_config){.in = {WIDTH}, .out = {CLASSES}}));
    status = weft_error_status();
    if (status == WEFT_OK) status = weft_data_parallel(t->model, t->mesh, config);
    if (status == WEFT_OK) t->adam = weft_adamw(t->model, (weft_adamw_config){.lr = 1e-2});
    weft_mesh_release(ep);
    weft_scope_close(scope);
    return status == WEFT_OK ? weft_error_status() : status;
}

/* This rank's tokens of a batch: every ranks-th. */
static int64_t read_batch(const weft_mesh *mesh, int number, float *x, int32_t *target)
{
    int me = weft_mesh_coordinate(mesh, 0) * weft_mesh_axis_size(mesh, 1) +
             weft_mesh_coordinate(mesh, 1);
    int64_t rows = 0;

    for (int i = me; i < TOKENS; i += weft_mesh_size(mesh), rows++) {
        target[rows] = (i + number) % CLASSES;
        for (int k = 0; k < WIDTH; k++)
            x[rows * WIDTH + k] = (float)((target[rows] * (k + 3) + k * k + i % 3) % 11) / 5 - 1;
    }
    return rows;
}

static weft_status backward(struct trainer *t, int number)
{
    float x[TOKENS * WIDTH];
    int32_t target[TOKENS];
    int64_t rows = read_batch(t->mesh, number, x, target);
    weft_scope *scope = weft_scope_open();
    weft_tensor *logits =
        weft_call(t->model, weft_from_data(WEFT_F32, (int64_t[]){rows, WIDTH}, 2, x));
    weft_tensor *loss =
        weft_cross_entropy(logits, weft_from_data(WEFT_I32, &rows, 1, target), -100);
    weft_status status = weft_data_parallel_backward(t->model, loss, rows);

    weft_scope_close(scope);
    return status;
}

static weft_status step(struct trainer *t, int number)
{
    weft_status status = backward(t, number);
    double loss;

    if (status == WEFT_OK) status = weft_step(t->adam);
    if (status == WEFT_OK) status = weft_data_parallel_loss(t->model, &loss, NULL);
    if (status == WEFT_OK && weft_world_rank() == 0) printf("step %2d  loss %.6f\n", number, loss);
    return status;
}

/* ---- what a step sends ---- */

static bool compare(const weft_ledger *ledger, weft_coll kind, weft_direction direction,
                    const char *what, int64_t count)
{
    int64_t sent = weft_ledger_count(ledger, kind, direction, NULL);

    if (weft_world_rank() == 0)
        printf("%-28s %lld, should be %lld\n", what, (long long)sent, (long long)count);
    return sent == count;
}

/* Forward, ranks of ep tell each other how many tokens come; these go there with the numbers of
 * their experts, and come back; backward the same ways the other way round. Gradients travel in two
 * buckets, of experts and of the rest, and all replicas tell each other what they have. Exchanges
 * are counted on a line of one rank too. */
static bool compare_all(const struct trainer *t, const weft_ledger *ledger)
{
    bool has_experts = weft_local_numel(weft_module_parameter(t->model, "experts.up")) > 0;
    int64_t dp = weft_mesh_axis_size(t->mesh, 0) > 1 && has_experts;
    int64_t others = weft_mesh_size(t->mesh) > 1;
    bool right = true;

    if (weft_world_rank() == 0) printf("the last step, on one rank:\n");
    right &=
        compare(ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_FORWARD, "all-gathers, forward", 1);
    right &=
        compare(ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_FORWARD, "all-to-alls, forward", 3);
    right &=
        compare(ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_BACKWARD, "all-to-alls, backward", 2);
    right &= compare(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_OPTIM,
                     "all-reduces, for the step", 2 * others + dp);
    right &=
        compare(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, "all together", 6 + 2 * others + dp);
    return right;
}

/* What every rank does. */
static int run(void *payload)
{
    struct trainer t = {.o = payload};
    weft_ledger *ledger = weft_ledger_open();
    weft_status status;
    bool right = true;

    weft_manual_seed(1);
    status = build(&t);
    if (status == WEFT_OK && weft_mesh_is_member(t.mesh)) {
        for (int i = 0; i < t.o->steps && status == WEFT_OK; i++) {
            weft_ledger_reset(ledger);
            status = step(&t, i);
        }
        if (status == WEFT_OK) right = compare_all(&t, ledger);
    }
    if (weft_error_status() != WEFT_OK) complain("%s", weft_error_message());
    weft_ledger_close(ledger);
    weft_optim_release(t.adam);
    weft_module_release(t.model);
    weft_mesh_release(t.mesh);
    return status == WEFT_OK && right ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static const struct option_row rows[] = {
#include "moe_replicas/options.def"
    };
    static const struct command_line line = {
        .doc = "Train experts that are spread over ep, on ranks that are replicas else; count what "
               "a step sends.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks)};
    struct options o = {.steps = 10};

    return command_line_run(&line, &o, argc, argv, run);
}
