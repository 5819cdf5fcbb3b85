/* test_ledger.c: what the ledger counts, for whom, and how it says so. */
/* ranks: 1 2 3 4 */
/* mpi: 2 4 */
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "debug/models.h"
#include "nn/module.h"
#include "support/worlds.h"

static const weft_coll AR = WEFT_COLL_ALL_REDUCE, AG = WEFT_COLL_ALL_GATHER,
                       RS = WEFT_COLL_REDUCE_SCATTER, ALL = WEFT_COLL_COUNT;
static const weft_direction FORWARD = WEFT_DIRECTION_FORWARD, BACKWARD = WEFT_DIRECTION_BACKWARD,
                            ANY = WEFT_DIRECTION_ANY;

static int64_t counted(const struct wt_world *w, weft_coll kind)
{
    return weft_ledger_count(w->ledger, kind, ANY, NULL);
}

/* Collectives of one rank alone are none. */
static int64_t some(int64_t n) { return wt_ranks() > 1 ? n : 0; }

static int module_named(const weft_ledger *ledger, const char *name)
{
    for (int i = 0; i < weft_ledger_module_count(ledger); i++)
        if (strcmp(weft_ledger_module(ledger, i), name) == 0) return i;
    return -1;
}

static int64_t within(const weft_ledger *ledger, const char *name, weft_coll kind,
                      weft_direction direction)
{
    return weft_ledger_module_total(ledger, module_named(ledger, name), kind, direction).count;
}

static weft_tensor *train(weft_module *m, weft_tensor *x)
{
    weft_tensor *y = weft_call(m, x);

    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    return y;
}

/* ---- counts ---- */

static void raw(weft_coll kind, bool coalesced, bool rooted)
{
    float send[64] = {0}, recv[64];
    size_t counts[8], to_first[8] = {8};
    int size = wt_ranks(), right = (wt_rank() + 1) % size;
    struct wf_coll coll = {.kind = kind,
                           .comm = wf_comm_world(),
                           .dtype = WEFT_F32,
                           .count = 8,
                           .send = send,
                           .recv = recv,
                           .send_counts = rooted ? to_first : counts,
                           .recv_counts = counts,
                           .coalesced = coalesced,
                           .rooted = rooted};

    for (int r = 0; r < size; r++) counts[r] = 4;
    if (kind == WEFT_COLL_SEND || kind == WEFT_COLL_RECV) {
        coll.peer = kind == WEFT_COLL_SEND ? right : (wt_rank() + size - 1) % size;
        if (size == 1) return;
    }
    wf_comm_run(&coll);
}

struct module_payload {
    weft_mesh *mesh;
    bool coalesced;
};

/* An all-gather and a reduce-scatter, a plain MLP, an all-reduce. */
static weft_tensor *chatter(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct module_payload *p = weft_module_payload(m);
    weft_placement rows = weft_shard(0), whole = weft_replicate(), sum = weft_partial(WEFT_SUM);
    weft_tensor *x = inputs[0];

    (void)n;
    weft_redistribute(weft_from_local(x, p->mesh, &rows, NULL), &whole);
    weft_redistribute(weft_from_local(x, p->mesh, &sum, NULL), &rows);
    x = weft_call(weft_module_child_at(m, 0), x);
    if (!p->coalesced) return weft_redistribute(weft_from_local(x, p->mesh, &sum, NULL), &whole);
    if (wt_ranks() > 1) raw(WEFT_COLL_ALL_REDUCE, true, false);
    return x;
}

static void count_chatter(struct wt_world *w, int64_t rows, bool coalesced)
{
    static const weft_module_class kind = {.type = "chatter", .forward = chatter};
    struct module_payload payload = {w->mesh, coalesced};
    weft_module *m = weft_module_new(&kind, &payload);
    weft_ledger_sum sum;

    WEFT_CHECK(weft_module_add_child(m, "mlp", wt_mlp()));
    weft_ledger_reset(w->ledger);
    weft_call(m, wt_whole(WEFT_F32, 0, rows, 10));
    sum = weft_ledger_total(w->ledger, AR, FORWARD, "");
    WT_EQ(counted(w, ALL), some(3));
    WT_EQ(counted(w, AG), some(1));
    WT_EQ(counted(w, RS), some(1));
    WT_EQ(sum.count, some(1));
    WT_EQ(weft_ledger_module_total(w->ledger, 0, ALL, ANY).count, some(3));
    WT_EQ(sum.coalesced, some(coalesced));
    weft_module_release(m);
}

/* COMM-01 */
WT_TEST_IN_WORLD(ledger__counts_what_a_module_does_itself, w)
{
    count_chatter(w, 20, false);
    count_chatter(w, 20, true);
    count_chatter(w, 7, false);
}

/* COMM-03: lists and single tensors are one form here, parts one after another */
WT_TEST_IN_WORLD(ledger__counts_each_raw_collective_under_its_name, w)
{
    static const weft_coll kinds[] = {
        WEFT_COLL_ALL_REDUCE, WEFT_COLL_ALL_GATHER, WEFT_COLL_REDUCE_SCATTER, WEFT_COLL_ALL_TO_ALL,
        WEFT_COLL_BROADCAST,  WEFT_COLL_SCATTER,    WEFT_COLL_GATHER,         WEFT_COLL_BARRIER};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        raw(kinds[k], false, false);
        WT_EQ(counted(w, kinds[k]), 1);
        WT_EQ(counted(w, ALL), 1);
        WT_EQ(weft_ledger_total(w->ledger, kinds[k], ANY, NULL).coalesced, 0);
        weft_ledger_reset(w->ledger);
    }
    for (size_t k = 0; k < 3; k++) {
        raw(kinds[k], true, false);
        WT_EQ(weft_ledger_total(w->ledger, kinds[k], ANY, NULL).coalesced, 1);
        WT_EQ(counted(w, ALL), 1);
        weft_ledger_reset(w->ledger);
    }
    raw(WEFT_COLL_REDUCE_SCATTER, false, true);
    WT_EQ(counted(w, WEFT_COLL_REDUCE), 1);
    WT_EQ(counted(w, ALL), 1);
}

/* One collective of this kind and no other since the ledger last forgot, with this payload. */
static void one(struct wt_world *w, weft_coll kind, int64_t bytes)
{
    WT_EQ(counted(w, kind), 1);
    WT_EQ(counted(w, ALL), 1);
    WT_EQ(weft_ledger_bytes(w->ledger, kind, ANY, NULL), bytes);
    weft_ledger_reset(w->ledger);
}

/* COMM-03: the forms that programs call, on matrices of two sizes */
WT_TEST_IN_WORLD(ledger__counts_each_public_collective_under_its_name, w)
{
    weft_tensor *parts[8];
    int ranks = wt_ranks();

    for (int64_t columns = 3; columns <= 5; columns += 2) {
        weft_tensor *t = wt_whole(WEFT_F32, 0, ranks, columns);
        int64_t bytes = ranks * columns * 4;

        for (int r = 0; r < ranks; r++) parts[r] = wt_whole(WEFT_F32, r, ranks, columns);
        weft_ledger_reset(w->ledger);
        WT_ALL(weft_mesh_all_reduce(t, WEFT_SUM, w->mesh, 0) != NULL);
        one(w, WEFT_COLL_ALL_REDUCE, bytes);
        WT_ALL(weft_mesh_all_gather(t, 1, NULL, w->mesh, 0) != NULL);
        one(w, WEFT_COLL_ALL_GATHER, ranks * bytes);
        WT_ALL(weft_mesh_reduce_scatter(t, 0, WEFT_SUM, w->mesh, 0) != NULL);
        one(w, WEFT_COLL_REDUCE_SCATTER, bytes);
        WT_ALL(weft_mesh_all_to_all(t, 0, 1, NULL, w->mesh, 0) != NULL);
        one(w, WEFT_COLL_ALL_TO_ALL, bytes);
        WT_ALL(weft_mesh_broadcast(t, w->mesh, 0, ranks - 1) == WEFT_OK);
        one(w, WEFT_COLL_BROADCAST, bytes);
        WT_ALL(weft_mesh_scatter(t, parts, w->mesh, 0, 0) == WEFT_OK);
        one(w, WEFT_COLL_SCATTER, ranks * bytes);
        WT_ALL(weft_mesh_gather(t, 0, NULL, w->mesh, 0, ranks - 1) != NULL);
        one(w, WEFT_COLL_GATHER, ranks * bytes);
        WT_ALL(weft_mesh_reduce(t, WEFT_SUM, w->mesh, 0, 0) != NULL);
        one(w, WEFT_COLL_REDUCE, bytes);
    }
}

/* COMM-04 */
WT_TEST_IN_WORLD(ledger__stops_starts_again_and_nests, w)
{
    weft_ledger *inner = weft_ledger_open();

    raw(WEFT_COLL_ALL_REDUCE, false, false);
    raw(WEFT_COLL_ALL_REDUCE, false, false);
    weft_ledger_stop(inner);
    raw(WEFT_COLL_BARRIER, false, false);
    WT_EQ(weft_ledger_count(inner, ALL, ANY, NULL), 2);
    WT_EQ(counted(w, ALL), 3);
    weft_ledger_start(inner);
    WT_EQ(weft_ledger_count(inner, ALL, ANY, NULL), 0);
    raw(WEFT_COLL_BROADCAST, false, false);
    WT_EQ(weft_ledger_count(inner, ALL, ANY, NULL), 1);
    WT_EQ(weft_ledger_count(inner, WEFT_COLL_BROADCAST, ANY, NULL), 1);
    WT_EQ(counted(w, ALL), 4);
    weft_ledger_close(inner);
}

static int hooks_of(weft_module *m)
{
    int count = m->n_hooks;

    for (int i = 0; i < weft_module_child_count(m); i++)
        count += hooks_of(weft_module_child_at(m, i));
    return count;
}

/* COMM-05 */
WT_TEST_IN_WORLD(ledger__leaves_no_hooks_behind, w)
{
    weft_module *stack = wt_stack(2);
    weft_tensor *x = wt_whole(WEFT_F32, 0, 20, 10);

    for (int calls = 2; calls <= 10; calls += 8) {
        weft_ledger *ledger = weft_ledger_open();

        for (int i = 0; i < calls; i++) WT_ALL(weft_call(stack, x) != NULL);
        WT_EQ(hooks_of(stack), 0);
        weft_ledger_close(ledger);
        WT_EQ(hooks_of(stack), 0);
        WT_ALL(weft_call(stack, x) != NULL);
    }
    weft_module_release(stack);
}

/* ---- modules ---- */

static bool is_parameter(const weft_ledger *ledger, bool distributed, int index, const char *module,
                         const char *name, const char *placement)
{
    weft_ledger_parameter p = weft_ledger_parameter_at(ledger, distributed, index);

    return p.name && strcmp(p.module, module) == 0 && strcmp(p.name, name) == 0 &&
           strstr(p.layout, placement) && p.distributed;
}

/* COMM-06 */
WT_TEST_IN_WORLD(ledger__knows_parameters_and_their_layouts, w)
{
    weft_module *mlp = wt_split_mlp(w->mesh);

    train(mlp, wt_whole(WEFT_F32, 0, 20, 10));
    for (int distributed = 0; distributed <= 1; distributed++) {
        WT_EQ(weft_ledger_parameter_count(w->ledger, distributed), 4);
        WT_ALL(is_parameter(w->ledger, distributed, 0, "MLP.net1", "weight", "f32[16,10] [S(0)]"));
        WT_ALL(is_parameter(w->ledger, distributed, 1, "MLP.net1", "bias", "f32[16] [S(0)]"));
        WT_ALL(is_parameter(w->ledger, distributed, 2, "MLP.net2", "weight", "f32[10,16] [S(1)]"));
        WT_ALL(is_parameter(w->ledger, distributed, 3, "MLP.net2", "bias", "f32[10] [R]"));
        WT_ALL(!weft_ledger_parameter_at(w->ledger, distributed, 4).name);
    }
    weft_module_release(mlp);
}

static void spread_stack(struct wt_world *w, int n)
{
    const weft_plan plan[] = {{"layers.0.net1", weft_colwise_parallel()},
                              {"layers.0.net2", weft_rowwise_parallel()},
                              {"layers.1.net1", weft_colwise_parallel()},
                              {"layers.1.net2", weft_rowwise_parallel()},
                              {0}};
    weft_module *stack = wt_stack(n);
    char name[64];

    weft_ledger_start(w->ledger);
    WT_EQ(weft_ledger_parameter_count(w->ledger, false), 0);
    WT_EQ(weft_ledger_parameter_count(w->ledger, true), 0);
    WEFT_CHECK(weft_parallelize_module(stack, w->mesh, plan));
    train(stack, wt_whole(WEFT_F32, 0, 20, 10));
    WT_EQ(weft_ledger_parameter_count(w->ledger, true), 8);
    WT_EQ(weft_ledger_parameter_count(w->ledger, false), 4 * n);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "MLPStacked.layers.%d.net%d", i / 4, i / 2 % 2 + 1);
        WT_ALL(is_parameter(w->ledger, true, i, name, i % 2 ? "bias" : "weight", "on (tp:"));
    }
    weft_module_release(stack);
}

/* COMM-07, and with a part of the model left plain */
WT_TEST_IN_WORLD(ledger__is_used_again_for_another_model, w)
{
    weft_module *mlp = wt_split_mlp(w->mesh);

    weft_call(mlp, wt_whole(WEFT_F32, 0, 20, 10));
    weft_module_release(mlp);
    spread_stack(w, 2);
    spread_stack(w, 3);
}

/* COMM-08, COMM-11: and backward under the module whose forward caused it */
WT_TEST_IN_WORLD(ledger__traces_modules, w)
{
    static const char *const names[] = {"Global", "MLP", "MLP.net1", "MLP.relu", "MLP.net2"};
    weft_module *mlp = wt_split_mlp(w->mesh);
    weft_tensor *x = weft_retain(wt_whole(WEFT_F32, 0, 20, 10));

    weft_set_requires_grad(x, true);
    train(mlp, x);
    WT_EQ(weft_ledger_module_count(w->ledger), 5);
    for (int i = 0; i < 5; i++) {
        bool outer = i < 2;

        WT_ALL(strcmp(weft_ledger_module(w->ledger, i), names[i]) == 0);
        WT_EQ(within(w->ledger, names[i], AR, FORWARD), some(outer || i == 4));
        WT_EQ(within(w->ledger, names[i], ALL, FORWARD), some(outer || i == 4));
        WT_EQ(within(w->ledger, names[i], AR, BACKWARD), some(outer || i == 2));
        WT_EQ(within(w->ledger, names[i], ALL, ANY), some(outer ? 2 : i == 2 || i == 4));
    }
    weft_release(x);
    weft_module_release(mlp);
}

/* COMM-11: a row-wise layer with a sharded output gathers its gradient */
WT_TEST_IN_WORLD(ledger__backward_is_counted_as_backward, w)
{
    const weft_plan plan[] = {
        {"", weft_rowwise_parallel_with((weft_style_options){.output_layouts = "S(0)"})}, {0}};

    for (int64_t rows = 8; rows <= 11; rows += 3) {
        weft_module *m = weft_linear_new((weft_linear_config){.in = {16}, .out = {16}});

        WEFT_CHECK(weft_parallelize_module(m, w->mesh, plan));
        weft_ledger_reset(w->ledger);
        train(m, wt_whole(WEFT_F32, 0, rows, weft_chunk_size(16, wt_ranks(), wt_rank())));
        WT_EQ(within(w->ledger, "linear", RS, FORWARD), some(1));
        WT_EQ(within(w->ledger, "linear", AG, BACKWARD), some(1));
        WT_EQ(counted(w, ALL), some(2));
        weft_module_release(m);
    }
}

/* COMM-09 */
WT_TEST_IN_WORLD(ledger__begins_with_nothing_but_the_program, w)
{
    WT_EQ(weft_ledger_module_count(NULL), 0);
    WT_EQ(weft_ledger_module_count(w->ledger), 1);
    WT_ALL(strcmp(weft_ledger_module(w->ledger, 0), "Global") == 0);
    WT_ALL(weft_ledger_module(w->ledger, 1) == NULL);
    WT_EQ(within(w->ledger, "Global", ALL, FORWARD), 0);
    WT_EQ(within(w->ledger, "Global", ALL, BACKWARD), 0);
    WT_EQ(counted(w, ALL), 0);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "ledger"); }
