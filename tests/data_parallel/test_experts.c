/* test_experts.c: a mixture of experts whose experts are spread over an axis along which all other
 * parameters have replicas. It trains as one device does, in so many messages. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 4 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "support/scratch.h"
#include "support/worlds.h"

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
    x = weft_expand(x, 3, (int64_t[]){EXPERTS, rows, WIDTH});
    y = weft_matmul(weft_relu(weft_matmul(x, up)), down);
    share = weft_reshape(weft_transpose(share, 0, 1), 3, (int64_t[]){EXPERTS, rows, 1});
    return give_back(weft_sum(weft_mul(y, share), 1, (int[]){0}, false), mesh);
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
        weft_tensor *is_it = weft_eq(best, weft_full(WEFT_I64, 0, NULL, e));
        weft_tensor *y = weft_mul(one_expert(x, up, down, e),
                                  weft_reshape(weft_cast(is_it, WEFT_F64), 2, column));

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
    x = weft_embedding(x, weft_from_data(WEFT_I32, 1, &rows, sorted));
    x = weft_mesh_all_to_all_single(x, to, from, ep, 0);
    x = one_expert(x, weft_to_local(up, NULL), weft_to_local(down, NULL), 0);
    x = weft_mesh_all_to_all_known(x, from, to, ep, 0);
    return weft_embedding(x, weft_from_data(WEFT_I32, 1, &rows, home));
}

static weft_tensor *run_best(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *up = weft_module_parameter(m, "up"), *down = weft_module_parameter(m, "down");
    weft_tensor *x = inputs[0], *y;
    weft_tensor *share = weft_softmax(weft_matmul(x, weft_module_parameter(m, "gate")), -1);
    weft_tensor *best = weft_argmax(share, -1);

    (void)n;
    y = weft_tensor_mesh(up) ? dispatched(x, best, up, down) : masked(x, best, up, down);
    return weft_mul(y, weft_amax(share, 1, (int[]){-1}, true));
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
    const char *mesh; /* axes dp, ep, tp */
    bool both;        /* experts over tp too */
    bool best;        /* a token goes to one expert, of which each rank of ep has one */
    weft_data_parallel_config config;
};

struct pair {
    struct wt_world world;
    weft_mesh *data;
    int replicas, me;
    struct net nets[2];
    weft_module *whole, *spread;
    weft_optim *whole_optim, *spread_optim;
};

static void spread_layers(struct pair *p)
{
    weft_mesh *tp = weft_mesh_sub(p->world.mesh, "tp");
    weft_plan plan[] = {
        {"in", weft_colwise_parallel_with((weft_style_options){.output_layouts = "R"})},
        {"out", weft_rowwise_parallel_with((weft_style_options){.input_layouts = "R"})},
        {0}};

    WT_EQ(weft_parallelize_module(p->spread, tp, plan), WEFT_OK);
    weft_mesh_release(tp);
}

static weft_module *spread_experts(const weft_module_class *kind, int n, weft_mesh *mesh, bool both)
{
    weft_mesh *ep = weft_mesh_sub(mesh, both ? "ep,tp" : "ep");
    weft_placement up[] = {weft_shard(0), weft_shard(2)}, down[] = {weft_shard(0), weft_shard(1)};
    weft_module *m = new_experts(kind, n, ep, up, down);

    weft_mesh_release(ep);
    return m;
}

static weft_optim *adam(weft_module *m)
{
    return weft_adamw(m, (weft_adamw_config){.lr = 0.01, .weight_decay = 0.1});
}

static void open_pair(struct pair *p, struct options o)
{
    const weft_module_class *kind = o.best ? &class_best : &class_experts;
    int n;

    *p = (struct pair){.world = wt_world_open_mesh("%s", o.mesh)};
    p->data = weft_mesh_sub(p->world.mesh, "dp,ep");
    p->replicas = weft_mesh_size(p->data);
    p->me = weft_mesh_coordinate(p->data, 0) * weft_mesh_axis_size(p->data, 1) +
            weft_mesh_coordinate(p->data, 1);
    n = o.best ? weft_mesh_axis_size(p->data, 1) : EXPERTS;
    p->whole = new_net(&p->nets[0], new_experts(kind, n, NULL, NULL, NULL));
    p->spread = new_net(&p->nets[1], spread_experts(kind, n, p->world.mesh, o.both));
    spread_layers(p);
    o.config.expert_axes = "ep";
    WT_EQ(weft_data_parallel(p->spread, p->data, o.config), WEFT_OK);
    p->whole_optim = adam(p->whole);
    p->spread_optim = adam(p->spread);
    weft_ledger_reset(p->world.ledger);
}

static void close_pair(struct pair *p)
{
    weft_optim_release(p->whole_optim);
    weft_optim_release(p->spread_optim);
    weft_module_release(p->whole);
    weft_module_release(p->spread);
    weft_mesh_release(p->data);
    wt_world_close(&p->world);
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
    inputs[0] = weft_from_data(WEFT_F64, 2, (int64_t[]){rows, WIDTH}, in);
    inputs[1] = weft_from_data(WEFT_I32, 1, &rows, target);
    return weft_call_n(m, inputs, 2);
}

/* Backward by both of the mean over `batches` batches; that mean. */
static double backward(struct pair *p, int batch, int batches, int64_t *all)
{
    double mean = 0;

    for (int i = 0; i < batches; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *loss = loss_of(p->whole, batch + i, 0, p->replicas, all);
        int64_t mine;

        loss = weft_mul_scalar(loss, 1.0 / batches);
        mean += weft_item(loss);
        WT_EQ(weft_backward(loss), WEFT_OK);
        loss = loss_of(p->spread, batch + i, p->me, 1, &mine);
        WT_EQ(weft_data_parallel_backward(p->spread, loss, mine), WEFT_OK);
        weft_scope_close(scope);
    }
    *all *= batches;
    return mean;
}

/* ---- comparing ---- */

struct comparison {
    weft_module *whole;
    bool gradients, same;
};

static weft_status compare(weft_module *m, const char *name, weft_tensor *mine, void *payload)
{
    struct comparison *c = payload;
    char path[64];
    weft_tensor *whole;

    snprintf(path, sizeof path, "%s.%s", weft_module_path(m), name);
    whole = weft_module_parameter(c->whole, path);
    if (c->gradients) {
        mine = weft_grad(mine);
        whole = weft_grad(whole);
    }
    if (mine && wt_near_tensors(mine, whole, WT_WITHIN(1e-10))) return WEFT_OK;
    wt_note("%s, %s", path, c->gradients ? "gradient" : "value");
    c->same = false;
    return WEFT_OK;
}

static bool same(struct pair *p, bool gradients)
{
    struct comparison c = {p->whole, gradients, true};

    return weft_module_each_parameter(p->spread, compare, &c) == WEFT_OK && c.same;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-10 * (1 + fabs(b)); }

static void step(struct pair *p, int batch, int batches)
{
    double norm[2], loss, mean;
    int64_t all, tokens;

    mean = backward(p, batch, batches, &all);
    WT_EQ(weft_clip_grad_norm(p->whole, 0.5, &norm[0]), WEFT_OK);
    WT_EQ(weft_clip_grad_norm(p->spread, 0.5, &norm[1]), WEFT_OK);
    WT_ALL(near(norm[1], norm[0]));
    WT_ALL(same(p, true));
    WT_EQ(weft_step(p->whole_optim), WEFT_OK);
    WT_EQ(weft_step(p->spread_optim), WEFT_OK);
    WT_ALL(same(p, false));
    WT_EQ(weft_data_parallel_loss(p->spread, &loss, &tokens), WEFT_OK);
    WT_ALL(near(loss, mean));
    WT_EQ(tokens, all);
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

static void train_everywhere(weft_data_parallel_config config, int batches)
{
    char mesh[64];

    for (int n = 0; next_mesh(mesh, sizeof mesh, &n);)
        for (int both = 0; both < 2; both++) {
            struct pair p;

            open_pair(&p, (struct options){mesh, both, false, config});
            for (int i = 0; i < 2; i++) step(&p, i * batches, batches);
            close_pair(&p);
        }
}

/* trial 4.3 */
WT_TEST(experts__train_as_on_one_device)
{
    train_everywhere((weft_data_parallel_config){0}, 1);
    train_everywhere((weft_data_parallel_config){.bucket_bytes = 100}, 2);
}

/* trial 4.3 */
WT_TEST(experts__with_buckets_that_leave_in_backward)
{
    train_everywhere((weft_data_parallel_config){.backwards = 2, .bucket_bytes = 100}, 2);
}

/* trial 4.3 */
WT_TEST(experts__cut_over_their_replicas)
{
    train_everywhere((weft_data_parallel_config){.shard = true}, 2);
    train_everywhere((weft_data_parallel_config){.shard_axes = "dp"}, 1);
    train_everywhere((weft_data_parallel_config){.shard_axes = "ep", .backwards = 1}, 1);
}

/* The way of Megatron and Switch: which tokens travel follows from data, and some experts get none.
 */
/* trial 4.3 */
WT_TEST(experts__to_which_tokens_are_sent_train_as_on_one_device)
{
    weft_data_parallel_config configs[] = {
        {0}, {.backwards = 2, .bucket_bytes = 100}, {.shard = true}};
    char mesh[64];

    for (int n = 0; next_mesh(mesh, sizeof mesh, &n);)
        for (int c = 0; c < 3; c++) {
            struct pair p;

            open_pair(&p, (struct options){mesh, false, true, configs[c]});
            for (int i = 0; i < 2; i++) step(&p, 2 * i, 2);
            close_pair(&p);
        }
}

/* ---- messages ---- */

static weft_ledger_sum total(struct pair *p, weft_coll kind)
{
    return weft_ledger_total(p->world.ledger, kind, WEFT_DIRECTION_OPTIM, NULL);
}

static int64_t bytes_of(struct pair *p, const char *const *paths)
{
    int64_t bytes = 0;

    for (; *paths; paths++) bytes += 8 * weft_local_numel(weft_module_parameter(p->spread, *paths));
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
        struct pair p;
        int64_t all, wide, narrow, of_experts;

        open_pair(&p, (struct options){mesh, false, false, {0}});
        wide = p.replicas > 1;
        of_experts = bytes_of(&p, experts);
        narrow = weft_mesh_axis_size(p.data, 0) > 1 && of_experts > 0;
        backward(&p, 0, 1, &all);
        weft_ledger_reset(p.world.ledger);
        WT_EQ(weft_step(p.spread_optim), WEFT_OK);
        WT_ALL(total(&p, WEFT_COLL_COUNT).count == 2 * wide + narrow);
        WT_ALL(total(&p, WEFT_COLL_ALL_REDUCE).count == 2 * wide + narrow);
        WT_ALL(total(&p, WEFT_COLL_ALL_REDUCE).bytes ==
               wide * (bytes_of(&p, dense) + 8 * (2 + 2 * 7)) + narrow * of_experts);
        close_pair(&p);
    }
}

/* ---- how they begin ---- */

/* The last rank has another number in its last expert, if it has one: its replicas are those along
 * dp, and other ranks of ep have other experts. */
static void begin(const char *mesh, weft_replicas_start start)
{
    struct wt_world w = wt_world_open_mesh("%s", mesh);
    weft_mesh *data = weft_mesh_sub(w.mesh, "dp,ep");
    int dp = weft_mesh_axis_size(data, 0), ep = weft_mesh_axis_size(data, 1);
    bool unlike = dp > 1 && weft_chunk_size(EXPERTS, ep, ep - 1) > 0;
    weft_module *m = spread_experts(&class_experts, EXPERTS, w.mesh, false);
    weft_tensor *up = weft_module_parameter(m, "up");
    weft_status status;

    if (unlike && wt_rank() == wt_ranks() - 1) ((double *)weft_data(up))[1] += 1;
    status = weft_data_parallel(m, data,
                                (weft_data_parallel_config){.expert_axes = "ep", .start = start});
    if (unlike && start == WEFT_REPLICAS_COMPARED) {
        WT_EQ(status, WEFT_ERR_ARG);
        WT_FAILED(WEFT_ERR_ARG, "differ in parameter 'up'");
        WT_ALL(weft_mesh_ndim(weft_tensor_mesh(weft_module_parameter(m, "up"))) == 1);
    } else {
        WT_EQ(status, WEFT_OK);
        WT_ALL(wt_near_tensors(weft_module_parameter(m, "up"),
                               wt_whole3(WEFT_F64, 2, EXPERTS, WIDTH, HIDDEN), WT_WITHIN(1e-15)));
    }
    weft_module_release(m);
    weft_mesh_release(data);
    wt_world_close(&w);
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
    weft_mesh *data = weft_mesh_sub(w.mesh, axes), *ep = weft_mesh_sub(w.mesh, "ep");
    weft_module *m = weft_module_new(&class_some, NULL);
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
    weft_module_release(m);
    weft_mesh_release(data);
    weft_mesh_release(ep);
    wt_world_close(&w);
}

/* An expert that no replica used has zeros where another has a gradient: they are one parameter. */
/* trial 4.3 */
WT_TEST(experts__without_tokens_have_zeros)
{
    char mesh[64];

    for (int n = 0; next_mesh(mesh, sizeof mesh, &n);) {
        use_some(mesh, "dp,ep", (weft_data_parallel_config){0});
        use_some(mesh, "dp,ep", (weft_data_parallel_config){.backwards = 2});
        use_some(mesh, "ep", (weft_data_parallel_config){0});
    }
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "experts")); }
