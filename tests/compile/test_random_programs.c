/*
 * test_random_programs.c: programs that a seed makes, compiled and as they are, call by call: the
 * same bits in results, gradients, what is written in place, and placements.
 *
 * Values are matrices of one shape, in placements of all kinds, so that any op takes any of them.
 * What immediate execution refuses a compiled call refuses too.
 */
#include <string.h>

#include "as_immediate.h"

enum { INPUTS = 3, RESULTS = 3, CALLS = 5, MOST_VALUES = 96, OPS = 23 };

struct program {
    uint32_t seed;
    bool gradients;      /* else values and inputs are written in place */
    bool whole;          /* one list; else segments */
    bool breaks;         /* the program reads values on the host, and says where a list ends */
    weft_tensor *buffer; /* written in place by each call */
};

struct making {
    const struct program *program;
    weft_mesh *mesh;
    uint32_t draws;
    weft_tensor *values[MOST_VALUES];
    int n;
};

static uint32_t draw(struct making *m, uint32_t below)
{
    m->draws = m->draws * 1664525u + 1013904223u;
    return (m->draws >> 8) % below;
}

static weft_tensor *any(struct making *m) { return m->values[draw(m, (uint32_t)m->n)]; }

static const char *any_placements(struct making *m)
{
    static const char *const one[] = {"R", "S(0)", "S(1)"};
    static const char *const two[] = {"R,R",       "S(0),R",    "R,S(1)",
                                      "S(0),S(1)", "S(1),S(0)", "S(0),S(0)"};

    return weft_mesh_ndim(m->mesh) == 1 ? one[draw(m, 3)] : two[draw(m, 6)];
}

static weft_tensor *moved(struct making *m, weft_tensor *x)
{
    return weft_redistribute(x, weft_placements(m->mesh, any_placements(m)));
}

static weft_tensor *pointwise(struct making *m, weft_tensor *x)
{
    switch (draw(m, 7)) {
    case 0:
        return weft_relu(x);
    case 1:
        return weft_gelu(x);
    case 2:
        return weft_tanh(x);
    case 3:
        return weft_sigmoid(x);
    case 4:
        return weft_neg(x);
    case 5:
        return weft_add_scalar(x, 0.25);
    default:
        return weft_mul_scalar(x, -0.75);
    }
}

static weft_tensor *of_two(struct making *m, weft_tensor *a, weft_tensor *b)
{
    switch (draw(m, 4)) {
    case 0:
        return weft_add(a, b);
    case 1:
        return weft_sub(a, b);
    case 2:
        return weft_maximum(a, b);
    default:
        return weft_mul(weft_tanh(a), b);
    }
}

static weft_tensor *product(weft_tensor *a, weft_tensor *b)
{
    weft_tensor *y = weft_matmul(a, b);

    return y ? weft_mul_scalar(y, 1.0 / (double)weft_size(a, 1)) : NULL;
}

/* Rows against their sums, largest elements, means. */
static weft_tensor *beside_reduction(struct making *m, weft_tensor *x)
{
    int dim = (int)draw(m, 2);

    switch (draw(m, 3)) {
    case 0:
        return weft_sub(x, weft_amax(x, &dim, 1, true));
    case 1:
        return weft_mul(weft_mean(x, &dim, 1, true), weft_tanh(x));
    default:
        return weft_add(weft_mul_scalar(weft_sum(x, &dim, 1, true), 0.01), x);
    }
}

/* The two parts of a dim, the other way round. */
static weft_tensor *parts_swapped(struct making *m, weft_tensor *x)
{
    int dim = (int)draw(m, 2);
    int64_t n = weft_size(x, dim), at = 1 + draw(m, (uint32_t)n - 1);
    weft_tensor *parts[] = {weft_slice(x, dim, at, n), weft_slice(x, dim, 0, at)};

    return weft_cat(parts, 2, dim);
}

static weft_tensor *in_one_dim(weft_tensor *x)
{
    int64_t flat = -1, back[] = {weft_size(x, 0), weft_size(x, 1)};

    return weft_reshape(weft_relu(weft_reshape(x, &flat, 1)), back, 2);
}

/* The buffer takes part, and is there in the next call. */
static weft_tensor *counted(struct making *m, weft_tensor *x)
{
    int dims[] = {0, 1};

    if (!weft_add_(m->program->buffer, weft_mean(x, dims, 2, true))) return NULL;
    return weft_mul(x, m->program->buffer);
}

static weft_tensor *written_in_place(struct making *m, weft_tensor *x)
{
    if (m->program->gradients) return weft_clone(x);
    switch (draw(m, 4)) {
    case 0:
        return weft_add_(x, any(m));
    case 1:
        return weft_mul_scalar_(weft_transpose(x, 0, 1), 0.5);
    case 2:
        return weft_neg_(x);
    default:
        return counted(m, x);
    }
}

static weft_tensor *after_break(struct making *m, weft_tensor *x)
{
    if (!m->program->breaks) return weft_tanh(x);
    if (draw(m, 2)) {
        weft_graph_break("the program says so");
        return weft_tanh(x);
    }
    return weft_item(weft_full_tensor(weft_sum_all(weft_mul(x, x)))) < 0 ? weft_neg(x)
                                                                         : weft_relu(x);
}

static weft_tensor *product_with_payload(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    return product(weft_tanh(in[0]), payload);
}

/* It reads an input that is none of the tape node's. */
static weft_tensor *run_again_in_backward(struct making *m, weft_tensor *x)
{
    weft_tensor *other = m->values[draw(m, INPUTS)];

    return m->program->gradients ? weft_recomputed(product_with_payload, &x, 1, other, NULL)
                                 : weft_sigmoid(x);
}

static weft_tensor *next_value(struct making *m)
{
    weft_tensor *x = any(m);
    int dim = (int)draw(m, 2);

    switch (draw(m, OPS)) {
    case 0:
    case 1:
    case 2:
    case 3:
        return pointwise(m, x);
    case 4:
    case 5:
    case 6:
        return of_two(m, x, any(m));
    case 7:
    case 8:
        return product(x, any(m));
    case 9:
        return weft_softmax(x, dim);
    case 10:
        return weft_rms_norm(x, NULL, 1e-5);
    case 11:
        return weft_layer_norm(x, NULL, NULL, 1e-5);
    case 12:
        return beside_reduction(m, x);
    case 13:
        return weft_transpose(x, 0, 1);
    case 14:
        return parts_swapped(m, x);
    case 15:
        return in_one_dim(x);
    case 16:
    case 17:
        return moved(m, x);
    case 18:
        return weft_flip(x, &dim, 1);
    case 19:
        return weft_add(weft_tanh(moved(m, x)), weft_tanh(moved(m, x))); /* twice the same */
    case 20:
        return after_break(m, x);
    case 21:
        return run_again_in_backward(m, x);
    default:
        return written_in_place(m, x);
    }
}

static weft_status run(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    const struct program *program = state;
    struct making m = {
        .program = program, .mesh = weft_tensor_mesh(in[0]), .draws = program->seed, .n = n};
    int ops = 6 + (int)draw(&m, 24);

    for (int i = 0; i < n; i++) m.values[i] = in[i];
    for (int i = 0; i < ops; i++) {
        weft_tensor *value = next_value(&m);

        if (!value) return weft_error_status();
        m.values[m.n++] = value;
    }
    for (int i = 0; i < n_out; i++) out[i] = m.values[m.n - 1 - i * (int)draw(&m, 3)];
    return WEFT_OK;
}

/* ---- both ways ---- */

struct side {
    struct program program;
    weft_tensor *in[INPUTS], *out[RESULTS];
    weft_status status;
};

/* Other elements in each call, in the same placements. */
static weft_tensor *given_input(struct wt_world *w, const struct program *program, int i, int call,
                                int64_t n)
{
    struct making m = {.mesh = w->mesh, .draws = program->seed + 77u * (uint32_t)i};
    weft_tensor *x = weft_tanh(wt_whole(WEFT_F32, INPUTS * call + i, n, n));

    x = weft_detach(wt_spread(w, x, any_placements(&m)));
    return program->gradients ? weft_set_requires_grad(x, true) : x;
}

static void open_side(struct wt_world *w, struct side *side, int call, int64_t n)
{
    for (int i = 0; i < INPUTS; i++) side->in[i] = given_input(w, &side->program, i, call, n);
    memset(side->out, 0, sizeof side->out);
}

static void compare(const struct side *a, const struct side *b)
{
    WT_EQ(a->status, b->status);
    for (int i = 0; i < INPUTS; i++) WT_ALL(wt_near_tensors(a->in[i], b->in[i], WT_EXACT));
    if (a->status != WEFT_OK) return;
    for (int i = 0; i < RESULTS; i++) {
        WT_ALL(wt_same_placements(a->out[i], b->out[i]));
        WT_ALL(weft_requires_grad(a->out[i]) == weft_requires_grad(b->out[i]));
        WT_ALL(wt_near_tensors(a->out[i], b->out[i], WT_EXACT));
    }
    WT_ALL(wt_near_tensors(a->program.buffer, b->program.buffer, WT_EXACT));
}

static void compare_gradients(const struct side *a, const struct side *b)
{
    wt_backward_of_results(a->out, RESULTS);
    wt_backward_of_results(b->out, RESULTS);
    for (int i = 0; i < INPUTS; i++) WT_ALL(wt_same_gradient(a->in[i], b->in[i]));
}

/* Sizes change with the calls: those of the third are others. */
static int64_t size_of_call(const struct program *program, int call)
{
    int64_t n = program->seed % 5 == 0 ? 160 : 7 + program->seed % 6;

    return call == 2 ? n + 1 : n;
}

static weft_tensor *new_buffer(struct wt_world *w)
{
    return wt_spread(w, wt_whole(WEFT_F32, 50, 1, 1), weft_mesh_ndim(w->mesh) == 1 ? "R" : "R,R");
}

static void check_program(struct wt_world *w, struct program program, const char *off)
{
    struct side plain = {.program = program}, compiled = {.program = program};
    weft_scope *outer = weft_scope_open();
    weft_compiled *function = weft_compile(
        run, &compiled.program,
        (weft_compile_config){.name = "random", .fullgraph = program.whole, .passes_off = off});
    bool refused = false;

    plain.program.buffer = new_buffer(w);
    compiled.program.buffer = new_buffer(w);
    for (int call = 0; call < CALLS && !refused; call++) {
        weft_scope *scope = weft_scope_open();

        wt_note("seed %u, call %d, %s, off %s", program.seed, call,
                program.whole ? "whole" : "segments", off ? off : "nothing");
        open_side(w, &plain, call, size_of_call(&program, call));
        open_side(w, &compiled, call, size_of_call(&program, call));
        plain.status = run(plain.in, INPUTS, plain.out, RESULTS, &plain.program);
        compiled.status = weft_compiled_call(function, compiled.in, INPUTS, compiled.out, RESULTS);
        compare(&compiled, &plain);
        refused = plain.status != WEFT_OK;
        if (refused) weft_error_clear();
        if (!refused && program.gradients) compare_gradients(&compiled, &plain);
        weft_scope_close(scope);
    }
    /* the first call of each size is recorded or planned, the others run lists */
    if (!refused && program.whole) WT_ALL(weft_compiled_get_counts(function).replays >= CALLS - 2);
    weft_compiled_release(function);
    weft_scope_close(outer);
}

enum { PROGRAMS = 48 };

static void check_programs(struct wt_world *w, int i)
{
    static const char *const off[] = {NULL, "+bucket!", "fuse", "overlap,cse", "min_cut,recompute"};

    for (int way = 0; way < 3; way++)
        check_program(w,
                      (struct program){.seed = (uint32_t)i * 2654435761u >> 7,
                                       .gradients = i % 3 != 0,
                                       .whole = way == 0,
                                       .breaks = way == 2},
                      off[i % 5]);
}

WT_TEST_TIMES_IN_WORLD(programs__are_as_immediate, w, i, PROGRAMS) { check_programs(w, i); }

WT_TEST_TIMES_IN(programs_on_two_axes__are_as_immediate, w, i, PROGRAMS, wt_world_open_two_axes())
{
    check_programs(w, i + PROGRAMS);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "random_programs"); }
