/* test_experts.c: a mixture of experts whose experts are spread over an axis along which all other
 * parameters have replicas. It trains as one device does, in so many messages. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 4 */
#include <stdio.h>

#include "data_parallel/twins.h"
#include "support/scratch.h"

enum { WIDTH = 6, HIDDEN = 5, EXPERTS = 3, CLASSES = 7, ROWS = 4, IGNORED = -100, MOST = 8 };

/* ---- experts: every token goes to all, with the gate's weights ---- */

/* A rank's rows as rows of all ranks along the axis of the experts, on every one of them. */
static weft_tensor *gather(weft_tensor *rows, weft_mesh *mesh)
{
    weft_placement mine[WEFT_MAX_AXES] = {{0}};

    if (!mesh) return rows;
    mine[0] = weft_shard(0);
    return weft_redistribute(weft_from_local(rows, mesh, mine, NULL), NULL);
}

/* Terms of all experts, added up and given back to whom the rows are. */
static weft_tensor *give_back(weft_tensor *rows, weft_mesh *mesh)
{
    weft_placement mine[WEFT_MAX_AXES] = {{0}};

    if (!mesh) return rows;
    mine[0] = weft_shard(0);
    return weft_drop_grad_types(
        weft_to_local(weft_redistribute(rows, mine), NULL)); /* these are its own */
}

static weft_tensor *run_experts(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *gate = weft_module_parameter(m, "gate"), *up = weft_module_parameter(m, "up");
    weft_tensor *down = weft_module_parameter(m, "down");
    weft_mesh *mesh = weft_tensor_mesh(up);
    weft_tensor *x = gather(inputs[0], mesh), *y;
    weft_tensor *share = gather(weft_softmax(weft_matmul(inputs[0], gate), -1), mesh);
    int64_t rows = x ? weft_size(x, 0) : 0;

    (void)n;
    x = weft_expand(x, (int64_t[]){EXPERTS, rows, WIDTH}, 3);
    y = weft_matmul(weft_relu(weft_matmul(x, up)), down);
    share = weft_reshape(weft_transpose(share, 0, 1), (int64_t[]){EXPERTS, rows, 1}, 3);
    return give_back(weft_sum(weft_mul(y, share), (int[]){0}, 1, false), mesh);
}

static const weft_module_class class_experts = {.type = "experts", .forward = run_experts};

/* ---- experts: every token goes to the best one, on whichever rank that is ---- */

static weft_tensor *one_expert(weft_tensor *x, weft_tensor *up, weft_tensor *down, int number)
{
    up = weft_drop_grad_types(
        weft_select(up, 0, number)); /* tokens of other ranks are this rank's own */
    down = weft_drop_grad_types(weft_select(down, 0, number));
    return weft_matmul(weft_relu(weft_matmul(x, up)), down);
}

/* All tokens through all experts, of which one counts. */
static weft_tensor *masked(weft_tensor *x, weft_tensor *best, weft_tensor *up, weft_tensor *down)
{
    int64_t column[] = {weft_size(x, 0), 1};
    weft_tensor *sum = NULL;

    for (int e = 0; e < weft_size(up, 0); e++) {
        weft_tensor *is_it = weft_eq(best, weft_full(WEFT_I64, NULL, 0, e));
        weft_tensor *y = weft_mul(one_expert(x, up, down, e),
                                  weft_reshape(weft_cast(is_it, WEFT_F64), column, 2));

        sum = sum ? weft_add(sum, y) : y;
    }
    return sum;
}

/* Tokens sorted by expert, which is the rank of ep, sent there and back. */
static weft_tensor *dispatched(weft_tensor *x, weft_tensor *best, weft_tensor *up,
                               weft_tensor *down)
{
    weft_mesh *ep = weft_tensor_mesh(up);
    int64_t rows = weft_size(x, 0), to[MOST] = {0}, from[MOST];
    int32_t sorted[MOST * ROWS], home[MOST * ROWS], n = 0;
    double expert[MOST * ROWS];

    WEFT_CHECK(weft_read_f64(best, expert, rows));
    for (int e = 0; e < weft_mesh_size(ep); e++)
        for (int32_t i = 0; i < rows; i++) {
            if ((int)expert[i] != e) continue;
            sorted[n] = i;
            home[i] = n++;
            to[e]++;
        }
    x = weft_embedding(x, weft_from_data(WEFT_I32, &rows, 1, sorted));
    x = weft_mesh_all_to_all_single(x, to, from, ep, 0);
    x = one_expert(x, weft_to_local(up, NULL), weft_to_local(down, NULL), 0);
    x = weft_mesh_all_to_all_known(x, from, to, ep, 0);
    return weft_embedding(x, weft_from_data(WEFT_I32, &rows, 1, home));
}

static weft_tensor *run_best(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *up = weft_module_parameter(m, "up"), *down = weft_module_parameter(m, "down");
    weft_tensor *x = inputs[0], *y;
    weft_tensor *share = weft_softmax(weft_matmul(x, weft_module_parameter(m, "gate")), -1);
    weft_tensor *best = weft_argmax(share, -1);

    (void)n;
    y = weft_tensor_mesh(up) ? dispatched(x, best, up, down) : masked(x, best, up, down);
    return weft_mul(y, weft_amax(share, (int[]){-1}, 1, true));
}

static const weft_module_class class_best = {.type = "best expert", .forward = run_best};

/* `n` experts; placements of up and down over the mesh; NULL: plain. */
static weft_module *new_experts(const weft_module_class *kind, int n, weft_mesh *mesh,
                                const weft_placement *up, const weft_placement *down)
{
    weft_module *m = weft_module_new(kind, NULL);
    weft_tensor *wide = wt_whole3(WEFT_F64, 2, n, WIDTH, HIDDEN);
    weft_tensor *narrow = wt_whole3(WEFT_F64, 3, n, HIDDEN, WIDTH);

    WT_EQ(weft_module_add_parameter(m, "gate", wt_whole(WEFT_F64, 1, WIDTH, n)), WEFT_OK);
    if (mesh) wide = weft_distribute_tensor(wide, mesh, up, -1);
    if (mesh) narrow = weft_distribute_tensor(narrow, mesh, down, -1);
    WT_EQ(weft_module_add_parameter(m, "up", wide), WEFT_OK);
    WT_EQ(weft_module_add_parameter(m, "down", narrow), WEFT_OK);
    return m;
}

/* ---- the net: a layer, experts beside the rows themselves, a layer ---- */

struct net {
    weft_module *in, *experts, *out;
};

static weft_tensor *run_net(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct net *net = weft_module_payload(m);
    weft_tensor *x = weft_call(net->in, inputs[0]);

    (void)n;
    x = weft_add(x, weft_call(net->experts, x));
    return weft_cross_entropy(weft_call(net->out, x), inputs[1], IGNORED);
}

static const weft_module_class class_net = {.type = "net", .forward = run_net, .inputs = 2};

static weft_module *new_net(struct net *net, weft_module *experts)
{
    weft_module *m = weft_module_new(&class_net, net);

    weft_manual_seed(11);
    net->experts = experts;
    net->in = weft_linear_new(
        (weft_linear_config){.in = {WIDTH}, .out = {WIDTH}, .std = 0.5, .dtype = WEFT_F64});
    net->out = weft_linear_new(
        (weft_linear_config){.in = {WIDTH}, .out = {CLASSES}, .std = 0.5, .dtype = WEFT_F64});
    WT_EQ(weft_module_add_child(m, "in", net->in), WEFT_OK);
    WT_EQ(weft_module_add_child(m, "experts", experts), WEFT_OK);
    WT_EQ(weft_module_add_child(m, "out", net->out), WEFT_OK);
    return m;
}

/* ---- the net on one device, and as replicas ---- */

struct options {
    const char *name;
    const char *mesh; /* axes dp, ep, tp */
    bool both;        /* experts over tp too */
    bool best;        /* a token goes to one expert, of which each rank of ep has one */
    weft_data_parallel_config config;
};

static void spread_layers(struct twins *t)
{
    weft_plan plan[] = {
        {"in", weft_colwise_parallel_with((weft_style_options){.output_layouts = "R"})},
        {"out", weft_rowwise_parallel_with((weft_style_options){.input_layouts = "R"})},
        {0}};

    WT_EQ(weft_parallelize_module(t->replica, t->tp, plan), WEFT_OK);
}

static weft_module *spread_experts(const weft_module_class *kind, int n, struct wt_world *w,
                                   bool both)
{
    weft_placement up[] = {weft_shard(0), weft_shard(2)}, down[] = {weft_shard(0), weft_shard(1)};

    return new_experts(kind, n, wt_part(w, both ? "ep,tp" : "ep"), up, down);
}

static struct twins open_pair(struct net nets[2], struct options o)
{
    const weft_module_class *kind = o.best ? &class_best : &class_experts;
    struct twins t;
    int n;

    wt_row("%s, %s%s", o.name, o.mesh, o.both ? ", experts over tp too" : "");
    t = tw_begin("dp,ep", o.mesh);
    n = o.best ? weft_mesh_axis_size(t.dp, 1) : EXPERTS;
    t.whole = wt_own(new_net(&nets[0], new_experts(kind, n, NULL, NULL, NULL)));
    t.replica = wt_own(new_net(&nets[1], spread_experts(kind, n, &t.world, o.both)));
    spread_layers(&t);
    o.config.expert_axes = "ep";
    WT_EQ(weft_data_parallel(t.replica, t.dp, o.config), WEFT_OK);
    tw_optimize(&t);
    return t;
}

/* ---- batches ---- */

/* The later replicas' rows count less, and those of the second not at all. */
static bool counts(int replica, int row) { return replica != 1 && row >= replica % ROWS; }

/* The mean loss over the rows of replicas first .. first + n - 1, and how many count. */
static weft_tensor *loss_of(weft_module *m, int batch, int first, int n, int64_t *count)
{
    double in[MOST * ROWS * WIDTH];
    int32_t target[MOST * ROWS];
    int64_t rows = (int64_t)n * ROWS;
    weft_tensor *inputs[2];

    *count = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = first * ROWS + i;
        bool used = counts((int)(at / ROWS), (int)(at % ROWS));

        for (int k = 0; k < WIDTH; k++) in[i * WIDTH + k] = wt_element(20 + batch, at * WIDTH + k);
        target[i] = used ? (int32_t)((3 * at + batch) % CLASSES) : IGNORED;
        *count += used;
    }
    inputs[0] = weft_from_data(WEFT_F64, (int64_t[]){rows, WIDTH}, 2, in);
    inputs[1] = weft_from_data(WEFT_I32, &rows, 1, target);
    return weft_call_n(m, inputs, 2);
}

/* Backward by both of the mean over `batches` batches; that mean. */
static double backward(struct twins *t, int batch, int batches)
{
    double mean = 0;

    for (int i = 0; i < batches; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *loss = loss_of(t->whole, batch + i, 0, t->replicas, &t->tokens);
        int64_t mine;

        loss = weft_mul_scalar(loss, 1.0 / batches);
        mean += weft_item(loss);
        WT_EQ(weft_backward(loss), WEFT_OK);
        loss = loss_of(t->replica, batch + i, t->me, 1, &mine);
        WT_EQ(weft_data_parallel_backward(t->replica, loss, mine), WEFT_OK);
        weft_scope_close(scope);
    }
    t->tokens *= batches;
    return mean;
}

/* ---- on all meshes ---- */

static bool next_mesh(char *text, size_t room, int *number)
{
    int all = wt_ranks();

    for (int n = (*number)++; n < 8 * 8; n = (*number)++) {
        int dp = 1 + n / 8, ep = 1 + n % 8;

        if (all % (dp * ep)) continue;
        snprintf(text, room, "dp=%d,ep=%d,tp=%d", dp, ep, all / dp / ep);
        return true;
    }
    return false;
}

static void train(struct options o, int batches)
{
    struct net nets[2];
    struct twins t = open_pair(nets, o);

    for (int i = 0; i < 2; i++) tw_step(&t, backward(&t, i * batches, batches));
}

/* trial 4.3 */
WT_TEST(experts__train_as_on_one_device)
{
    static const struct {
        const char *name;
        int batches;
        weft_data_parallel_config config;
    } rows[] = {{"whole", 1, {0}},
                {"small buckets", 2, {.bucket_bytes = 100}},
                {"buckets in backward", 2, {.backwards = 2, .bucket_bytes = 100}},
                {"cut over all", 2, {.shard = true}},
                {"cut over dp", 1, {.shard_axes = "dp"}},
                {"cut over ep", 1, {.shard_axes = "ep", .backwards = 1}}};
    char mesh[64];

    for (int n = 0; next_mesh(mesh, sizeof mesh, &n);)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int both = 0; both < 2; both++)
                train((struct options){rows[i].name, mesh, both, false, rows[i].config},
                      rows[i].batches);
}

/* The way of Megatron and Switch: which tokens travel follows from data, and some experts get none.
 */
/* trial 4.3 */
WT_TEST(experts__to_which_tokens_are_sent_train_as_on_one_device)
{
    static const struct {
        const char *name;
        weft_data_parallel_config config;
    } rows[] = {{"whole", {0}},
                {"buckets in backward", {.backwards = 2, .bucket_bytes = 100}},
                {"cut over all", {.shard = true}}};
    char mesh[64];

    for (int n = 0; next_mesh(mesh, sizeof mesh, &n);)
        for (int i = 0; i < 3; i++)
            train((struct options){rows[i].name, mesh, false, true, rows[i].config}, 2);
}

/* ---- messages ---- */

static weft_ledger_sum total(struct twins *t, weft_coll kind)
{
    return weft_ledger_total(t->world.ledger, kind, WEFT_DIRECTION_OPTIM, NULL);
}

static int64_t bytes_of(struct twins *t, const char *const *paths)
{
    int64_t bytes = 0;

    for (; *paths; paths++)
        bytes += 8 * weft_local_numel(weft_module_parameter(t->replica, *paths));
    return bytes;
}

/* A bucket over all replicas, one over those of the experts, and what all tell each other. */
/* trial 4.3 */
WT_TEST(experts__are_reduced_along_their_axes_only)
{
    static const char *const dense[] = {"in.weight",  "in.bias",  "experts.gate",
                                        "out.weight", "out.bias", NULL};
    static const char *const experts[] = {"experts.up", "experts.down", NULL};
    char mesh[64];

    for (int n = 0; next_mesh(mesh, sizeof mesh, &n);) {
        struct net nets[2];
        struct twins t = open_pair(nets, (struct options){"whole", mesh, false, false, {0}});
        int64_t wide = t.replicas > 1, of_experts = bytes_of(&t, experts);
        int64_t narrow = weft_mesh_axis_size(t.dp, 0) > 1 && of_experts > 0;

        backward(&t, 0, 1);
        weft_ledger_reset(t.world.ledger);
        WT_EQ(weft_step(t.replica_optim), WEFT_OK);
        WT_ALL(total(&t, WEFT_COLL_COUNT).count == 2 * wide + narrow);
        WT_ALL(total(&t, WEFT_COLL_ALL_REDUCE).count == 2 * wide + narrow);
        WT_ALL(total(&t, WEFT_COLL_ALL_REDUCE).bytes ==
               wide * (bytes_of(&t, dense) + 8 * (2 + 2 * 7)) + narrow * of_experts);
    }
}

/* ---- how they begin ---- */

/* The last rank has another number in its last expert, if it has one: its replicas are those along
 * dp, and other ranks of ep have other experts. */
static void begin(const char *mesh, weft_replicas_start start)
{
    struct wt_world w;
    weft_data_parallel_config config = {.expert_axes = "ep", .start = start};
    weft_module *m;
    weft_tensor *up;
    weft_mesh *data;
    int ep;
    bool unlike;

    wt_row("%s%s", mesh, start == WEFT_REPLICAS_COPIED ? ", copied" : "");
    w = wt_world_open_mesh("%s", mesh);
    data = wt_part(&w, "dp,ep");
    ep = weft_mesh_axis_size(data, 1);
    unlike = weft_mesh_axis_size(data, 0) > 1 && weft_chunk_size(EXPERTS, ep, ep - 1) > 0;
    m = wt_own(spread_experts(&class_experts, EXPERTS, &w, false));
    up = weft_module_parameter(m, "up");
    if (unlike && wt_rank() == wt_ranks() - 1) ((double *)weft_data(up))[1] += 1;
    if (unlike && start == WEFT_REPLICAS_COMPARED) {
        WT_FAILS(weft_data_parallel(m, data, config), WEFT_ERR_ARG, "differ in parameter 'up'");
        WT_ALL(weft_mesh_ndim(weft_tensor_mesh(weft_module_parameter(m, "up"))) == 1);
    } else {
        WT_EQ(weft_data_parallel(m, data, config), WEFT_OK);
        WT_ALL(wt_near_tensors(weft_module_parameter(m, "up"),
                               wt_whole3(WEFT_F64, 2, EXPERTS, WIDTH, HIDDEN), WT_WITHIN(1e-15)));
    }
}

/* trial 4.3 */
WT_TEST(experts__are_compared_with_their_replicas)
{
    char mesh[64];

    for (int n = 0; next_mesh(mesh, sizeof mesh, &n);) {
        begin(mesh, WEFT_REPLICAS_COMPARED);
        begin(mesh, WEFT_REPLICAS_COPIED);
    }
}

/* ---- experts to which nothing came ---- */

/* The sum of b x, and of this rank's shard of w where it is the first along ep. */
static weft_tensor *run_some(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *w = weft_module_parameter(m, "w");
    weft_tensor *sum = weft_sum_all(weft_mul(weft_module_parameter(m, "b"), inputs[0]));

    (void)n;
    if (weft_mesh_local_rank(weft_tensor_mesh(w), "ep") > 0) return sum;
    return weft_add(sum, weft_drop_grad_types(weft_sum_all(weft_to_local(w, NULL))));
}

static const weft_module_class class_some = {.type = "some", .forward = run_some};

static void use_some(const char *mesh, const char *axes, weft_data_parallel_config config)
{
    struct wt_world w = wt_world_open_mesh("%s", mesh);
    weft_mesh *data = wt_part(&w, axes), *ep = wt_part(&w, "ep");
    weft_module *m = wt_own(weft_module_new(&class_some, NULL));
    weft_placement rows = weft_shard(0);
    weft_tensor *x = wt_whole(WEFT_F64, 4, 2, 2), *leaf, *grad;
    bool first = weft_mesh_coordinate(ep, 0) == 0;

    leaf = weft_distribute_tensor(wt_whole(WEFT_F64, 5, 2 * wt_ranks(), 3), ep, &rows, -1);
    WT_EQ(weft_module_add_parameter(m, "w", leaf), WEFT_OK);
    WT_EQ(weft_module_add_parameter(m, "b", wt_whole(WEFT_F64, 6, 2, 2)), WEFT_OK);
    config.expert_axes = "ep";
    WT_EQ(weft_data_parallel(m, data, config), WEFT_OK);
    for (int i = 0; i < 2; i++) WT_EQ(weft_data_parallel_backward(m, weft_call(m, x), 1), WEFT_OK);
    grad = weft_grad(weft_module_parameter(m, "w"));
    WT_ALL(grad && wt_local_is_all(grad, first ? 1.0 / weft_mesh_axis_size(ep, 0) : 0));
}

/* An expert that no replica used has zeros where another has a gradient: they are one parameter. */
/* trial 4.3 */
WT_TEST(experts__without_tokens_have_zeros)
{
    char mesh[64];

    for (int n = 0; next_mesh(mesh, sizeof mesh, &n);) {
        wt_row("%s", mesh);
        use_some(mesh, "dp,ep", (weft_data_parallel_config){0});
        use_some(mesh, "dp,ep", (weft_data_parallel_config){.backwards = 2});
        use_some(mesh, "ep", (weft_data_parallel_config){0});
    }
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "experts")); }
