/*
 * test_disagreement.c: programs whose ranks do different things end with a sentence, none hangs.
 * Weakness 10.4-15 of other libraries. Each runs in a child process, whose standard error is read.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/error.h"
#include "support/mpi_check.h"
#include "support/stderr_text.h"

#define GOLDEN                                                                                     \
    WT_SOURCE_DIR "/"                                                                              \
                  "tests/golden/weights.safetensors"

enum { RANKS = 4, DIED = 3 };

static weft_tensor *matrix(void) { return weft_full(WEFT_F32, (int64_t[]){8, 6}, 2, 1); }

static weft_tensor *spread(weft_mesh *mesh, weft_placement p)
{
    return weft_distribute_tensor(matrix(), mesh, &p, -1);
}

static int failed(weft_tensor *t) { return t ? 0 : 1; }

/* ---- programs; each is handed a line of all ranks ---- */

/* Two ranks think of one axis of four, two of one of two. */
static int make_other_meshes(weft_mesh *line)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_rank() < 2 ? 2 : RANKS);

    (void)line;
    return mesh ? failed(weft_full_tensor(spread(mesh, weft_shard(0)))) : 1;
}

static int order_ranks_differently(weft_mesh *line)
{
    const int forward[] = {0, 1, 2, 3}, backward[] = {3, 2, 1, 0}, sizes[] = {2, 2};
    weft_placement p[] = {weft_shard(0), weft_replicate()};
    weft_mesh *mesh = weft_mesh_from_ranks(WEFT_CPU, sizes, 2, "dp,tp",
                                           weft_world_rank() == 1 ? backward : forward);

    (void)line;
    return mesh ? failed(weft_full_tensor(weft_distribute_tensor(matrix(), mesh, p, -1))) : 1;
}

static int redistribute_differently(weft_mesh *mesh)
{
    weft_placement to = weft_world_rank() == 2 ? weft_shard(1) : weft_replicate();

    return failed(weft_redistribute(spread(mesh, weft_shard(0)), &to));
}

/* Only rank 0 wants to print the value. */
static int gather_on_one_rank(weft_mesh *mesh)
{
    weft_tensor *t = spread(mesh, weft_shard(0));

    if (weft_world_rank() == 0) return failed(weft_full_tensor(t));
    sleep(20);
    return 0;
}

static int disagree_on_a_size(weft_mesh *mesh)
{
    weft_placement sum = weft_partial(WEFT_SUM), whole = weft_replicate();
    int64_t n = weft_world_rank() == 3 ? 7 : 6;
    weft_tensor *t = weft_from_local(weft_full(WEFT_F32, &n, 1, 1), mesh, &sum, NULL);

    return failed(weft_redistribute(t, &whole));
}

/* Rows 4, 4, 4, 1, called a part of S(0) without the whole's shape: three ranks think of 16 rows.
 */
static int hand_in_uneven_shards(weft_mesh *mesh)
{
    weft_placement rows = weft_shard(0);
    int64_t shape[] = {weft_world_rank() == 3 ? 1 : 4, 6};

    return failed(
        weft_full_tensor(weft_from_local(weft_full(WEFT_F32, shape, 2, 1), mesh, &rows, NULL)));
}

/* One line of two: the other one cannot know. */
static int split_rows_wrongly_on_one_line(weft_mesh *line)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=2,ep=2");
    int64_t splits[] = {4, weft_world_rank() == 3 ? 5 : 4};

    (void)line;
    return failed(weft_mesh_all_to_all_single(matrix(), splits, NULL, mesh, 1));
}

static int send_other_rows_than_there_are(weft_mesh *mesh)
{
    int64_t even[] = {2, 2, 2, 2}, splits[] = {2, 2, 2, weft_world_rank() == 2 ? 3 : 2};

    return failed(weft_mesh_all_to_all_known(matrix(), splits, even, mesh, 0));
}

/* trial 3: their sum is no number. */
static int await_more_rows_than_can_be_counted(weft_mesh *mesh)
{
    int64_t even[] = {2, 2, 2, 2}, splits[] = {2, 2, INT64_MAX, 2};

    return failed(weft_mesh_all_to_all_known(matrix(), even, weft_world_rank() == 1 ? splits : even,
                                             mesh, 0));
}

static int send_a_number_as_rows(weft_mesh *mesh)
{
    int64_t even[] = {2, 2, 2, 2};
    weft_tensor *t = weft_world_rank() == 1 ? weft_full(WEFT_F32, NULL, 0, 1) : matrix();

    return failed(weft_mesh_all_to_all_known(t, even, even, mesh, 0));
}

/* The same, moved to columns: an all-to-all, in which each rank's counts are its own. */
static int turn_uneven_shards(weft_mesh *mesh)
{
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    int64_t shape[] = {weft_world_rank() == 3 ? 1 : 4, 6};
    weft_tensor *t = weft_from_local(weft_full(WEFT_F32, shape, 2, 1), mesh, &rows, NULL);

    return failed(weft_redistribute(t, &columns));
}

/* trial 2: what one rank alone knows ends the job, and says where it was */

static int hand_in_a_short_shard(weft_mesh *mesh)
{
    weft_placement rows = weft_shard(0);
    int64_t shape[] = {weft_world_rank() == 3 ? 3 : 4, 6};

    return failed(weft_full_tensor(
        weft_from_local(weft_full(WEFT_F32, shape, 2, 1), mesh, &rows, (int64_t[]){16, 6})));
}

/* Each rank pads its own rows to the longest of them. */
static int hand_in_other_columns(weft_mesh *mesh)
{
    weft_placement rows = weft_shard(0);
    int64_t shape[] = {4, weft_world_rank() == 2 ? 5 : 6};

    return failed(weft_full_tensor(
        weft_from_local(weft_full(WEFT_F32, shape, 2, 1), mesh, &rows, (int64_t[]){16, 6})));
}

/* A row-wise layer knows that the shards of its 8 input features are 2 each. */
static int call_row_wise(weft_mesh *mesh, int64_t features)
{
    weft_module *m = weft_linear_new((weft_linear_config){.in = {8}, .out = {4}});
    int64_t shape[] = {3, features};
    weft_module *root = weft_sequential_new();
    int result;

    weft_module_add_child(root, "down", m);
    if (weft_parallelize_module(root, mesh,
                                (weft_plan[]){{"down", weft_rowwise_parallel()}, {0}}) != WEFT_OK)
        return 1;
    result = failed(weft_call(root, weft_full(WEFT_F32, shape, 2, 1)));
    weft_module_release(root);
    return result;
}

static int call_with_a_short_input(weft_mesh *mesh)
{
    return call_row_wise(mesh, weft_world_rank() == 1 ? 1 : 2);
}

/* The most frequent mistake: the whole where a part is expected. */
static int call_with_the_whole(weft_mesh *mesh) { return call_row_wise(mesh, 8); }

/* Dims 0 and 1 of a grid of two by two; rank 3 takes them for one another. */
static int swap_groups(weft_mesh *line)
{
    static const int all[] = {0, 1, 2, 3};
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=2,tp=2");
    weft_mesh *dp = weft_mesh_sub(mesh, "dp"), *tp = weft_mesh_sub(mesh, "tp");
    bool odd = weft_world_rank() == 3;

    (void)line;
    mesh = weft_mesh_from_groups((weft_mesh *[]){odd ? tp : dp, odd ? dp : tp}, 2, "a,b", all);
    return mesh ? failed(weft_mesh_all_reduce(matrix(), WEFT_SUM, mesh, 0)) : 1;
}

static int name_groups_differently(weft_mesh *mesh)
{
    mesh = weft_mesh_from_groups(&mesh, 1, weft_world_rank() == 2 ? "a" : "b", NULL);
    return mesh ? failed(weft_mesh_all_reduce(matrix(), WEFT_SUM, mesh, 0)) : 1;
}

static int ask_for_too_much(weft_mesh *mesh)
{
    int64_t n = weft_world_rank() == 2 ? (int64_t)1 << 50 : 4;
    weft_tensor *t = weft_full(WEFT_F32, &n, 1, 1);

    return t ? failed(weft_mesh_all_reduce(t, WEFT_SUM, mesh, 0)) : 1;
}

static int gather_another_size(weft_mesh *mesh)
{
    int64_t sizes[] = {8, 8, 8, 8};

    if (weft_world_rank() == 1) sizes[1] = 7;
    return failed(weft_mesh_all_gather(matrix(), 0, sizes, mesh, 0));
}

/* Bytes of a saved shard are each rank's own. */
static int load_damaged_bytes(weft_mesh *mesh)
{
    weft_tensor *t = spread(mesh, weft_shard(0));
    int64_t size = weft_shard_to_bytes(t, NULL, 0);
    char *bytes = malloc((size_t)size);
    int result;

    weft_shard_to_bytes(t, bytes, size);
    if (weft_world_rank() == 2) bytes[0] = 'x';
    result = failed(weft_full_tensor(weft_shard_from_bytes(bytes, size)));
    free(bytes);
    return result;
}

/* A failure that all ranks have had before, and did not clear. */
static void fail_alike(void) { weft_matmul(matrix(), matrix()); }

/* What is told is what ends the job, not what failed first. */
static int load_damaged_bytes_after_a_failure(weft_mesh *mesh)
{
    return fail_alike(), load_damaged_bytes(mesh);
}

static int read_weights_that_one_lacks(weft_mesh *mesh)
{
    weft_weights *file = weft_weights_open(weft_world_rank() == 1 ? "no such weights" : GOLDEN);
    weft_placement rows = weft_shard(0);
    int result = failed(weft_full_tensor(weft_weights_read(file, "real.f32", 0, mesh, &rows)));

    weft_weights_close(file);
    return result;
}

static int read_a_config_that_one_lacks(weft_mesh *line)
{
    weft_gpt_config config;

    (void)line;
    fail_alike();
    return weft_world_rank() == 1 && weft_gpt_config_read(&config, "no such config") ? 1 : 0;
}

static int wrap_a_short_shard(weft_mesh *mesh)
{
    int64_t shape[] = {1, 6};
    weft_dtensor_spec flat;
    weft_tensor *local = weft_dtensor_unwrap(spread(mesh, weft_shard(0)), &flat);

    if (weft_world_rank() == 2) local = weft_full(WEFT_F32, shape, 2, 1);
    return failed(weft_full_tensor(weft_dtensor_wrap(local, &flat)));
}

static int read_a_plan_that_one_lacks(weft_mesh *mesh)
{
    weft_plan *plan =
        weft_world_rank() == 1 ? weft_plan_read("no such plan") : weft_plan_parse("a? colwise");

    weft_plan_release(plan);
    return plan ? failed(weft_full_tensor(spread(mesh, weft_shard(0)))) : 1;
}

static int read_into_little_room(weft_mesh *line)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=3");
    double out[18];
    weft_tensor *t = weft_mesh_is_member(mesh) ? spread(mesh, weft_shard(0)) : NULL;

    (void)line;
    return t && weft_read_f64(t, out, weft_mesh_coordinate(mesh, 0) == 1 ? 17 : 18) ? 1 : 0;
}

/* The root's list has something else at one place; the others have entered the collective. */
static int scatter_with(weft_mesh *mesh, int place, weft_tensor *other)
{
    weft_tensor *list[RANKS];

    for (int r = 0; r < RANKS; r++) list[r] = r == place ? other : matrix();
    return weft_mesh_scatter(matrix(), weft_world_rank() ? NULL : list, mesh, 0, 0) != WEFT_OK;
}

static int scatter_nothing(weft_mesh *m) { return scatter_with(m, 3, NULL); }
static int scatter_a_shape(weft_mesh *m)
{
    return scatter_with(m, 2, weft_transpose(matrix(), 0, 1));
}
static int scatter_a_dtype(weft_mesh *m)
{
    return scatter_with(m, 1, weft_cast(matrix(), WEFT_I32));
}
static int scatter_a_row(weft_mesh *m) { return scatter_with(m, 0, weft_select(matrix(), 0, 0)); }

/* The op that moves its operands is named with the collective. */
static int multiply_differently(weft_mesh *mesh)
{
    weft_tensor *t = spread(mesh, weft_shard(0));
    weft_placement other = weft_world_rank() == 1 ? weft_replicate() : weft_shard(1);

    return failed(weft_matmul(t, weft_transpose(spread(mesh, other), 0, 1)));
}

static weft_status like_its_input(weft_op_info *info, void *payload)
{
    (void)payload;
    info->out[0] = info->in[0];
    return WEFT_OK;
}

static weft_status only_whole(const weft_op_info *info, weft_rule *rule, void *payload)
{
    (void)info;
    (void)rule;
    (void)payload;
    return WEFT_OK;
}

static void do_nothing(const weft_op_info *info, const weft_op_shard *in, weft_op_shard *out,
                       const double *numbers, void *payload)
{
    (void)info;
    (void)in;
    (void)out;
    (void)numbers;
    (void)payload;
}

/* An op of the program's own is named as the program calls it. */
static int call_own_op_differently(weft_mesh *mesh)
{
    weft_op_spec spec = {.name = "own_op",
                         .n_out = 1,
                         .shape = like_its_input,
                         .rule = only_whole,
                         .kernel = do_nothing};
    weft_placement rows = weft_shard(0);
    weft_argument argument =
        weft_tensor_argument(spread(mesh, weft_world_rank() == 1 ? weft_replicate() : rows));
    weft_tensor *out[WEFT_OP_OUTPUTS];

    return weft_op_run(weft_register_op(&spec), out, &argument, 1) == WEFT_OK ? 0 : 1;
}

/* Rows 2, 2, 1 and none, seen as columns: ranks with one row or none cannot tell it from what lies
 * row-major. */
static weft_module *with_turned_weight(weft_mesh *mesh)
{
    weft_module *m = weft_sequential_new();
    weft_placement p[] = {weft_replicate(), weft_shard(0)};
    int n = weft_mesh_ndim(mesh);
    weft_tensor *rows = weft_full(WEFT_F32, (int64_t[]){n == 1 ? 5 : 3, 6}, 2, 1);

    rows = weft_transpose(weft_distribute_tensor(rows, mesh, p + 2 - n, -1), 0, 1);
    weft_module_add_parameter(m, "weight", weft_set_requires_grad(rows, true));
    return m;
}

static int update_a_turned_weight(weft_mesh *mesh)
{
    weft_module *m = with_turned_weight(mesh);
    weft_optim *sgd = weft_sgd(m, (weft_sgd_config){.lr = 1});

    return sgd ? failed(weft_full_tensor(weft_module_parameter(m, "weight"))) : 1;
}

static int replicate_a_turned_weight(weft_mesh *line)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=2,tp=2");
    weft_module *m = with_turned_weight(mesh);

    (void)line;
    return weft_data_parallel(m, weft_mesh_sub(mesh, "dp"), (weft_data_parallel_config){0})
               ? 1
               : failed(weft_full_tensor(weft_module_parameter(m, "weight")));
}

/* A leaf that rank 2 alone reads in a local function, as an expert with tokens does, and that is
 * written before backward: the others go on to the sum of the argument's gradients. */
struct own_read {
    bool again_inside, again_outside; /* the reading is recomputed */
    weft_tensor *leaf;
};

static weft_tensor *read_own(weft_tensor *const *in, int n, void *context)
{
    const struct own_read *r = context;

    (void)n;
    return weft_world_rank() == 2 ? weft_mul(in[0], r->leaf) : weft_mul_scalar(in[0], 2);
}

static weft_status read_locally(weft_tensor *const *in, weft_tensor **out, void *context)
{
    const struct own_read *r = context;

    out[0] = r->again_inside ? weft_recomputed(read_own, in, 1, context, NULL)
                             : read_own(in, 1, context);
    return out[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *map_reading(weft_tensor *const *in, int n, void *context)
{
    static const weft_placement whole[] = {{.kind = WEFT_KIND_REPLICATE}};
    static const weft_placement rows[] = {{.kind = WEFT_KIND_SHARD}};
    static const weft_placement sum[] = {{.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_SUM}};
    const weft_placement *to[] = {whole}, *gradient[] = {sum}, *out[] = {rows};
    weft_local_map map = {.function = read_locally,
                          .context = context,
                          .n_in = n,
                          .n_out = 1,
                          .in = to,
                          .in_grad = gradient,
                          .out = out};
    weft_tensor *y = NULL;

    return weft_local_map_call(&map, in, &y) == WEFT_OK ? y : NULL;
}

static int write_what_one_read(weft_mesh *mesh, struct own_read r)
{
    weft_tensor *x = weft_set_requires_grad(spread(mesh, weft_replicate()), true), *y;

    r.leaf = matrix();
    y = r.again_outside ? weft_recomputed(map_reading, &x, 1, &r, NULL) : map_reading(&x, 1, &r);
    weft_fill_(r.leaf, 3);
    return weft_backward(weft_sum_all(y)) == WEFT_OK ? failed(weft_grad(x)) : 1;
}

static int write_what_one_saved(weft_mesh *mesh)
{
    return write_what_one_read(mesh, (struct own_read){0});
}

static int write_what_one_recomputes(weft_mesh *mesh)
{
    return write_what_one_read(mesh, (struct own_read){.again_inside = true});
}

static int write_what_one_reads_again(weft_mesh *mesh)
{
    return write_what_one_read(mesh, (struct own_read){.again_outside = true});
}

static const struct program {
    int (*body)(weft_mesh *mesh);
    const char *check;
    const char *says[2];
} programs[] = {
    {make_other_meshes, "1", {"not arrived: rank", "WEFT_TIMEOUT"}},
    {make_other_meshes, "2", {"makes another mesh", ""}},
    {order_ranks_differently, "1", {"not arrived: rank", "WEFT_TIMEOUT"}},
    {order_ranks_differently, "2", {"makes another mesh", ""}},
    {redistribute_differently, "2", {"different collectives", "all-to-all"}},
    {gather_on_one_rank, "1", {"not arrived: rank 1, 2, 3", "all-gather"}},
    {disagree_on_a_size, "2", {"all-reduce sum of 6 f32", "all-reduce sum of 7 f32"}},
    {disagree_on_a_size, "1", {"24 bytes", "28 bytes"}},
    {redistribute_differently, "1", {"different collectives", "all-to-all"}},
    {split_rows_wrongly_on_one_line, "1", {"rank 1 of axis ep", "add up to its 8 rows"}},
    {send_other_rows_than_there_are, "1", {"rank 2", "add up to the 8 rows"}},
    {await_more_rows_than_can_be_counted, "1", {"rank 1", "cannot come from rank 2 of axis tp"}},
    {send_a_number_as_rows, "1", {"rank 1: mesh_all_to_all_known", "the tensor has no dims"}},
    {hand_in_uneven_shards, "1", {"24 bytes", "96 bytes"}},
    {hand_in_a_short_shard, "1", {"rank 3: from_local", "should have 4 of 16"}},
    {hand_in_other_columns, "1", {"rank 2: from_local: dim 1 is not sharded", "has 5 elements"}},
    {call_with_a_short_input, "1", {"rank 1: in module down: from_local", "should have 2 of 8"}},
    {call_with_the_whole, "1", {"in module down: from_local", "of 8 elements in dim 1 and has 8"}},
    {swap_groups, "1", {"rank 3: mesh: group 0 has other ranks", "line of the grid"}},
    {name_groups_differently, "2", {"rank 2 makes another mesh", ""}},
    {ask_for_too_much, "1", {"rank 2: ", "no memory for 4503599627370496 bytes"}},
    {load_damaged_bytes, "1", {"rank 2: load: the bytes are no saved tensor", ""}},
    {load_damaged_bytes_after_a_failure, "1", {"rank 2: load: the bytes are no saved tensor", ""}},
    {read_weights_that_one_lacks, "1", {"rank 1: read weights: none are open", "no such weights"}},
    {read_a_config_that_one_lacks, "1", {"rank 1: no such config", ""}},
    {wrap_a_short_shard, "1", {"rank 2: dtensor_wrap", "local tensor 1"}},
    {read_a_plan_that_one_lacks, "1", {"rank 1: plan read: no such plan", "opened"}},
    {read_into_little_room, "1", {"rank 1: read_f64: room for 17 of 18 here", ""}},
    {gather_another_size, "1", {"rank 1: mesh_all_gather: dim 0", "not 7"}},
    {multiply_differently, "1", {"f32 on axis tp for matmul", "not arrived: rank 1"}},
    {call_own_op_differently, "1", {"on axis tp for own_op", "not arrived: rank 1"}},
    {scatter_nothing, "1", {"rank 0: ", "mesh_scatter: tensor 3 of the list is missing"}},
    {scatter_a_shape, "1", {"rank 0: ", "mesh_scatter: tensor 2 of the list"}},
    {scatter_a_dtype, "1", {"rank 0: ", "mesh_scatter: tensor 1 of the list"}},
    {scatter_a_row, "1", {"rank 0: ", "mesh_scatter: tensor 0 of the list"}},
    /* trial 2 */
    {update_a_turned_weight, "1", {"sgd: this rank's shard of parameter 'weight' is strided", ""}},
    {replicate_a_turned_weight, "1", {"this rank's shard of parameter 'weight'", "is strided"}},
    {write_what_one_saved, "1", {"rank 2: backward: the gradient of mul", "by fill"}},
    {write_what_one_recomputes, "1", {"rank 2: recomputed: the first run", "by fill"}},
    {write_what_one_reads_again, "1", {"rank 2: recomputed: the first run", "by fill"}},
    /* trial 1.3 */
    {turn_uneven_shards, "1", {"different collectives", "giving 8 bytes"}},
    {turn_uneven_shards, "2", {"different collectives", "elements"}},
};

/* ---- running them ---- */

static void leave(void) { _exit(DIED); }

static int run_body(void *payload)
{
    const struct program *p = payload;

    return p->body(weft_mesh_new(WEFT_CPU, "tp=%d", RANKS));
}

/* An error that all ranks are told counts as an end with a sentence, too. */
static void run(const void *payload)
{
    struct program p = *(const struct program *)payload;

    setenv("WEFT_TIMEOUT", "1", 1);
    setenv("WEFT_CHECK", p.check, 1);
    wf_die_set_handler(leave);
    weft_run(RANKS, run_body, &p);
    dprintf(STDERR_FILENO, "%s", weft_error_message());
    _exit(weft_error_status() == WEFT_OK ? 0 : DIED);
}

WT_UNIT_TIMES(ranks__that_disagree_end_with_a_sentence, (int)(sizeof programs / sizeof *programs))
{
    const struct program *p = &programs[_i];
    int status;
    const char *text = wt_stderr_of_child(run, p, &status);

    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == DIED, "%d: status %d, said: %s", _i,
                  status, text);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(text, p->says[i]), "%d: no '%s' in: %s", _i, p->says[i], text);
}

int main(void) { return wt_unit_main("disagreement"); }
