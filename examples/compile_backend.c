/*
 * compile_backend.c: a backend for compiled functions, which counts what a list has and then runs
 * it node by node.
 *
 *     compile_backend                 one process
 *     mpiexec -n 2 compile_backend    products split over two: collectives appear in the list
 *
 * A backend that does more would look at operands (weft_list_node_at), compute some nodes itself
 * from their addresses (weft_list_run_address), and leave the others to weft_list_run_node.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { ROWS = 6, WIDTH = 16, HIDDEN = 40, CALLS = 5, MOST_OPS = 64 };

/* ---- the backend ---- */

struct counter {
    const weft_list *list;
    const char *ops[MOST_OPS];
    int count[MOST_OPS], n_ops, runs;
};

static void count_op(struct counter *c, const char *op)
{
    for (int i = 0; i < c->n_ops; i++)
        if (strcmp(c->ops[i], op) == 0) {
            c->count[i]++;
            return;
        }
    if (c->n_ops == MOST_OPS) return;
    c->ops[c->n_ops] = op;
    c->count[c->n_ops++] = 1;
}

static void run_counted(const weft_list_run *run, void *state)
{
    struct counter *c = state;

    for (int i = 0; i < weft_list_node_count(c->list); i++) weft_list_run_node(run, i);
    c->runs++;
}

static void release_counted(void *state)
{
    struct counter *c = state;

    if (weft_world_rank() == 0) {
        printf("a list of %d nodes ran %d times:", weft_list_node_count(c->list), c->runs);
        for (int i = 0; i < c->n_ops; i++) printf(" %d %s", c->count[i], c->ops[i]);
        printf("\n");
    }
    free(c);
}

static weft_status make_counter(const weft_list *list, weft_list_runner *runner)
{
    struct counter *c = calloc(1, sizeof *c);

    if (!c) return WEFT_ERR_MEMORY;
    c->list = list;
    for (int i = 0; i < weft_list_node_count(list); i++) count_op(c, weft_list_node_at(list, i).op);
    *runner = (weft_list_runner){run_counted, release_counted, c};
    return WEFT_OK;
}

/* ---- a function to compile ---- */

static weft_status call_model(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                              void *model)
{
    (void)n;
    (void)n_out;
    out[0] = weft_call(model, in[0]);
    return out[0] ? WEFT_OK : weft_error_status();
}

int main(int argc, char **argv)
{
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};

    WEFT_CHECK(weft_init(&argc, &argv));
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_module *mlp = weft_mlp((weft_mlp_config){.in = WIDTH, .hidden = HIDDEN, .out = WIDTH});

    WEFT_CHECK(weft_parallelize_module(mlp, mesh, plan));
    WEFT_CHECK(weft_compile_backend_register("counting", make_counter));
    weft_compiled *compiled =
        weft_compile(call_model, mlp, (weft_compile_config){.name = "mlp", .backend = "counting"});
    for (int k = 0; k < CALLS; k++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){ROWS, WIDTH}, 2, 0.1 * k), *y;

        WEFT_CHECK(weft_compiled_call(compiled, &x, 1, &y, 1));
        WEFT_CHECK(weft_backward(weft_sum(y, NULL, 0, false)));
        weft_scope_close(scope);
    }
    weft_compiled_release(compiled);
    weft_module_release(mlp);
    weft_mesh_release(mesh);
    return weft_finalize();
}
