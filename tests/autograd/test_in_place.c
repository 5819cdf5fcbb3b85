/*
 * test_in_place.c: what backward saved and was written in place since is refused, by name of both
 * ops, on every rank alike and before anything is sent or changed; other writes stay allowed.
 */
/* mpi: 2 3 */
#include <string.h>

#include "support/scratch.h"
#include "support/worlds.h"

enum { ROWS = 3, COLUMNS = 2 }; /* fewer rows than some worlds have ranks */

static const char *const layouts[] = {"S(0)", "S(1)", "R"};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static weft_tensor *spread(struct wt_world *w, int which, const char *layout)
{
    return wt_spread(w, wt_whole(WEFT_F64, which, ROWS, COLUMNS), layout);
}

static weft_tensor *leaf(struct wt_world *w, int which, const char *layout)
{
    return weft_set_requires_grad(spread(w, which, layout), true);
}

/* ---- ways to write ---- */

typedef weft_status writer(weft_tensor *t);

static weft_status fill(weft_tensor *t) { return weft_fill_(t, 5); }
static weft_status uniform(weft_tensor *t) { return weft_uniform_(t, 0, 1, NULL); }
static weft_status copy(weft_tensor *t)
{
    return weft_copy_(t, weft_detach(weft_mul_scalar(t, 2)));
}
static weft_status increment(weft_tensor *t)
{
    weft_increment_version(t);
    return WEFT_OK;
}

/* Through another handle of the same storage. */
static weft_status add(weft_tensor *t)
{
    t = weft_detach(t);
    return weft_add_(t, t) ? WEFT_OK : weft_error_status();
}
static weft_status fill_view(weft_tensor *t)
{
    return weft_fill_(weft_transpose(weft_detach(t), 0, 1), 5);
}
static weft_status fill_local(weft_tensor *t)
{
    return weft_fill_(weft_to_local(weft_detach(t), NULL), 5);
}

static weft_status load(weft_tensor *t)
{
    const char *path = wt_scratch("in_place");
    weft_state *state = weft_state_new();
    weft_status status = weft_state_add_tensor(state, "t", t);

    if (status == WEFT_OK) status = weft_checkpoint_save(path, state);
    if (status == WEFT_OK) status = weft_checkpoint_load(path, state);
    weft_state_release(state);
    return status;
}

static const struct {
    writer *write;
    const char *name;
} writers[] = {{fill, "fill"},       {uniform, "uniform"},
               {copy, "copy"},       {increment, "weft_increment_version"},
               {add, "add"},         {fill_view, "fill"},
               {fill_local, "fill"}, {load, "weft_checkpoint_load"}};
enum { WRITERS = sizeof writers / sizeof *writers };

static void refuses(struct wt_world *w, const char *layout, int i)
{
    weft_tensor *a = leaf(w, 1, layout), *b = leaf(w, 2, layout), *y, *loss;
    int64_t before = weft_tensor_version(b);
    char text[64];

    y = weft_mul(a, b);
    loss = weft_sum_all(y);
    WT_EQ(writers[i].write(b), WEFT_OK);
    WT_ALL(weft_tensor_version(b) > before);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_EQ(weft_backward(loss), WEFT_ERR_STATE);
    snprintf(text, sizeof text, "modified in place by %s since", writers[i].name);
    wt_note("%s on %s: %s", writers[i].name, layout, weft_error_message());
    WT_ALL(strstr(weft_error_message(), "gradient of mul") != NULL);
    WT_FAILED(WEFT_ERR_STATE, text);
    WT_STILL(w);
    WT_ALL(weft_grad(a) == NULL && weft_grad(b) == NULL);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(a, b))), WEFT_OK); /* with the new values */
    WT_ALL(wt_near_tensors(weft_grad(a), weft_detach(b), WT_EXACT));
}

/* trial 1.2 */
WT_TEST(in_place__write_of_what_backward_saved_is_refused)
{
    for (int l = 0; l < LAYOUTS; l++)
        for (int i = 0; i < WRITERS; i++) {
            struct wt_world w = wt_world_open();

            refuses(&w, layouts[l], i);
            wt_world_close(&w);
        }
}

/* trial 1.2 */
WT_TEST_IN_IF(in_place__write_on_two_axes_is_refused_alike, w, wt_ranks() % 2 == 0,
              wt_world_open_mesh("dp=2,tp=%d", wt_ranks() / 2))
{
    for (int i = 0; i < WRITERS; i++) refuses(w, "S(0),S(1)", i);
}

/* trial 1.2: a result that was saved */
WT_TEST_IN_WORLD(in_place__write_of_a_saved_result_is_refused, w)
{
    weft_tensor *a = leaf(w, 1, "S(0)"), *y = weft_sigmoid(a);

    WT_EQ(weft_fill_(weft_detach(y), 1), WEFT_OK);
    WT_FAILS(weft_backward(weft_sum_all(y)), WEFT_ERR_STATE, "gradient of sigmoid");
}

/* trial 1.2: addition needs no values, and a moved operand was saved as a copy */
WT_TEST_IN_WORLD(in_place__write_that_backward_does_not_need_is_allowed, w)
{
    weft_tensor *a = leaf(w, 1, "S(0)"), *b = leaf(w, 2, "S(0)"), *y;

    WT_EQ(weft_fill_(b, 3), WEFT_OK);
    y = weft_sum_all(weft_add(weft_mul(a, b), a));
    WT_EQ(weft_backward_retain(y), WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(a), 4));
    weft_zero_grad(a);
    y = weft_sum_all(weft_add(a, b));
    WT_EQ(weft_fill_(a, 1), WEFT_OK);
    WT_EQ(weft_backward(y), WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(a), 1));
}

/* ---- views on some ranks, copies on others ---- */

/* Shards of two rows and of one or none, so that strides allow a view on some ranks only. */
static weft_tensor *uneven(struct wt_world *w)
{
    return wt_spread(w, wt_whole(WEFT_F64, 2, wt_ranks() + 1, COLUMNS), "S(0)");
}
static weft_tensor *row_major(weft_tensor *t) { return weft_contiguous(weft_transpose(t, 0, 1)); }

static weft_tensor *uneven3(struct wt_world *w)
{
    return wt_spread(w, wt_whole3(WEFT_F64, 2, 3, wt_ranks() + 1, COLUMNS), "S(1)");
}
static weft_tensor *joined(weft_tensor *t)
{
    return weft_reshape(weft_transpose(t, 1, 2), (int64_t[]){3 * COLUMNS, -1}, 2);
}

static const struct {
    weft_tensor *(*make)(struct wt_world *w);
    weft_tensor *(*see)(weft_tensor *t);
} views[] = {{uneven, row_major}, {uneven3, joined}};
enum { VIEWS = sizeof views / sizeof *views };

/* A view or a copy that is gone soon. */
static void see_once(weft_tensor *(*see)(weft_tensor *t), weft_tensor *t)
{
    weft_scope *scope = weft_scope_open();

    see(t);
    weft_scope_close(scope);
}

static void refuses_view(struct wt_world *w, int i, bool saves_view)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = views[i].make(w), *seen = views[i].see(t), *a, *y;
    int64_t before = weft_tensor_version(seen);

    a = weft_set_requires_grad(weft_mul_scalar(saves_view ? seen : t, 1), true);
    see_once(views[i].see, t);
    y = weft_sum_all(weft_mul(a, saves_view ? seen : t));
    WT_EQ(weft_fill_(saves_view ? t : seen, 5), WEFT_OK);
    WT_ALL(weft_tensor_version(seen) > before);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_FAILS(weft_backward(y), WEFT_ERR_STATE, "modified in place by fill");
    WT_STILL(w);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(a, saves_view ? seen : t))), WEFT_OK);
    weft_scope_close(scope);
}

WT_TEST(in_place__write_of_what_some_ranks_copied_is_refused_alike)
{
    for (int i = 0; i < VIEWS; i++)
        for (int saves_view = 0; saves_view < 2; saves_view++) {
            struct wt_world w = wt_world_open();

            refuses_view(&w, i, saves_view);
            wt_world_close(&w);
        }
}

/* A copy asked for by another op is the program's own. */
WT_TEST_IN_WORLD(in_place__write_beside_a_copy_is_allowed, w)
{
    weft_tensor *t = uneven(w), *copy = weft_mul_scalar(weft_transpose(t, 0, 1), 1), *a;
    weft_tensor *y;

    see_once(row_major, t);
    a = weft_set_requires_grad(weft_mul_scalar(copy, 1), true);
    y = weft_sum_all(weft_mul(a, copy));
    WT_EQ(weft_fill_(t, 5), WEFT_OK);
    WT_EQ(weft_backward(y), WEFT_OK);
}

/* ---- several ways to keep ---- */

static weft_tensor *product(weft_tensor *const *in, int n, void *other)
{
    (void)n;
    return weft_mul(in[0], other);
}

/* trial 1.2: a leaf that a recomputed piece uses beside its inputs, and an input of it */
WT_TEST_IN_WORLD(in_place__write_of_what_runs_again_is_refused, w)
{
    weft_tensor *a = leaf(w, 1, "S(0)"), *b = leaf(w, 2, "S(0)"), *y;

    for (int input = 0; input < 2; input++) {
        y = weft_sum_all(weft_recomputed(product, &a, 1, b, NULL));
        WT_EQ(weft_fill_(input ? a : b, 2), WEFT_OK);
        WT_EQ(weft_backward(y), WEFT_ERR_STATE);
        WT_ALL(strstr(weft_error_message(), "modified in place by fill") != NULL);
        WT_FAILED(WEFT_ERR_STATE, "recomputed");
        WT_ALL(weft_grad(a) == NULL);
    }
    y = weft_sum_all(weft_recomputed(product, &a, 1, b, NULL));
    WT_EQ(weft_backward(y), WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(a), 2) && wt_is_all(weft_grad(b), 2));
}

/* What a piece reads beside its inputs, and how often it ran. */
struct reads {
    weft_tensor *scale, *shift, *counted;
    bool counts; /* in `counted`, after each run */
};

static weft_tensor *scaled(weft_tensor *const *in, int n, void *payload)
{
    const struct reads *r = payload;
    weft_tensor *y = weft_add(weft_mul(in[0], r->scale), weft_mul_scalar(r->shift, 2));

    (void)n;
    if (r->counts) weft_copy_(r->counted, weft_add_scalar(r->counted, 1));
    return weft_square(y);
}

/* Frozen weights, masks and buffers: no gradient goes to them, but it depends on them. */
WT_TEST(in_place__write_of_what_runs_again_without_a_gradient_is_refused)
{
    for (int l = 0; l < LAYOUTS; l++)
        for (int written = 0; written < 4; written++) {
            struct wt_world w = wt_world_open();
            weft_tensor *a = leaf(&w, 1, layouts[l]), *y, *want;
            struct reads r = {spread(&w, 2, layouts[l]), spread(&w, 3, layouts[l]),
                              spread(&w, 0, layouts[l]), true};
            weft_tensor *writes[] = {r.scale, weft_detach(r.shift), r.counted, NULL};

            want = weft_add(weft_mul(weft_detach(a), r.scale), weft_mul_scalar(r.shift, 2));
            want = weft_mul_scalar(weft_mul(want, r.scale), 2);
            y = weft_sum_all(weft_recomputed(scaled, &a, 1, &r, NULL));
            if (writes[written]) WT_EQ(weft_fill_(writes[written], 5), WEFT_OK);
            if (written < 2) {
                WT_EQ(weft_backward(y), WEFT_ERR_STATE);
                WT_ALL(strstr(weft_error_message(), "modified in place by fill") != NULL);
                WT_FAILED(WEFT_ERR_STATE, "recomputed");
                WT_ALL(weft_grad(a) == NULL);
            } else { /* its own statistics, also when something else writes them too */
                WT_EQ(weft_backward(y), WEFT_OK);
                WT_ALL(wt_near_tensors(weft_grad(a), want, WT_WITHIN(1e-12)));
            }
            wt_world_close(&w);
        }
}

/* What a piece makes itself is not kept, whatever it is looked at through. */
WT_TEST_IN_WORLD(in_place__what_a_piece_makes_is_not_kept, w)
{
    weft_tensor *a = leaf(w, 1, "S(0)"), *y;
    struct reads r = {spread(w, 2, "S(0)"), spread(w, 3, "S(0)"), NULL, false};
    int64_t before = weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live, kept;
    weft_scope *scope = weft_scope_open();

    y = weft_scope_return(scope, weft_recomputed(scaled, &a, 1, &r, NULL));
    kept = weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live - before;
    WT_ALL(kept == weft_local_numel(y) * (int64_t)weft_dtype_size(weft_tensor_dtype(y)));
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
}

/* trial 1.2: parts of a saved tensor are copies, so the whole may change; on one rank it is whole
 */
WT_TEST_IN_WORLD(in_place__saved_parts_are_copies, w)
{
    weft_tensor *a = leaf(w, 1, "R"), *b = weft_mul_scalar(spread(w, 2, "R"), 1), *y, *want;
    weft_scope *parts = weft_saved_shards_open(w->mesh);
    bool whole = wt_ranks() == 1 || ROWS * COLUMNS < wt_ranks();

    y = weft_scope_return(parts, weft_mul(a, b));
    want = weft_mul_scalar(b, 1);
    WT_EQ(weft_fill_(b, 7), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(y)), whole ? WEFT_ERR_STATE : WEFT_OK);
    if (whole)
        WT_FAILED(WEFT_ERR_STATE, "modified in place");
    else
        WT_ALL(wt_near_tensors(weft_grad(a), want, WT_EXACT));
}

/* ---- optimizers ---- */

static weft_tensor *first(weft_module *m, weft_tensor *const *in, int n)
{
    (void)m;
    (void)n;
    return in[0];
}

static weft_module *holder(weft_tensor *weight)
{
    static const weft_module_class kind = {.type = "holder", .forward = first};
    weft_module *m = weft_module_new(&kind, NULL);

    WT_EQ(weft_module_add_parameter(m, "weight", weight), WEFT_OK);
    return m;
}

/* trial 1.2: PyTorch says so too */
WT_TEST_IN_WORLD(in_place__step_between_forward_and_backward_is_refused, w)
{
    weft_tensor *a = leaf(w, 1, "S(0)"), *b = leaf(w, 2, "S(0)"), *y;
    weft_module *m = holder(b);
    weft_optim *sgd = weft_sgd(m, (weft_sgd_config){.lr = 0.5});

    y = weft_sum_all(weft_mul(a, b));
    WT_EQ(weft_backward_retain(y), WEFT_OK);
    WT_EQ(weft_step(sgd), WEFT_OK);
    WT_FAILS(weft_backward(y), WEFT_ERR_STATE, "modified in place by sgd");
    weft_optim_release(sgd);
    weft_module_release(m);
}

/*
 * trial 1.2: an optimizer that updates in backward waits for the last use of a leaf, so a tied
 * weight is right; a use that it cannot see (a detached one, walked later) is refused.
 */
WT_TEST_IN_WORLD(in_place__update_in_backward_of_a_tied_weight, w)
{
    weft_tensor *x = leaf(w, 3, "S(0)"), *b = leaf(w, 2, "S(0)"), *twin = leaf(w, 2, "S(0)"), *y;
    weft_module *m = holder(b), *other = holder(twin);
    weft_optim *in_backward = weft_sgd(m, (weft_sgd_config){.lr = 0.5});
    weft_optim *after = weft_sgd(other, (weft_sgd_config){.lr = 0.5});

    WT_EQ(weft_optim_update_in_backward(in_backward, true), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(weft_mul(x, b), b))), WEFT_OK);
    WT_EQ(weft_step(in_backward), WEFT_OK);
    weft_zero_grad(x);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(weft_mul(x, twin), twin))), WEFT_OK);
    WT_EQ(weft_step(after), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_detach(b), weft_detach(twin), WT_EXACT));

    weft_zero_grad(x);
    y = weft_sum_all(weft_mul(weft_mul(x, weft_detach(b)), b));
    WT_FAILS(weft_backward(y), WEFT_ERR_STATE, "modified in place by sgd");
    WT_EQ(weft_step(in_backward), WEFT_OK);
    WT_RELEASE(weft_optim_release, in_backward, after);
    WT_RELEASE(weft_module_release, m, other);
}

/* ---- elements that are in flight ---- */

/* trial 1.2: what a collective still reads, and what it is about to bring */
WT_TEST_IN_WORLD(in_place__write_waits_for_collectives, w)
{
    weft_placement whole = weft_replicate();
    weft_redistribute_options async = {.async = true};
    weft_tensor *x = spread(w, 1, "S(0)"), *y, *want = wt_whole(WEFT_F64, 1, ROWS, COLUMNS);

    y = weft_redistribute_with(x, &whole, &async);
    WT_EQ(weft_fill_(x, 9), WEFT_OK);
    WT_ALL(wt_ranks() == 1 || wt_near_tensors(y, want, WT_EXACT));
    y = weft_redistribute_with(spread(w, 1, "S(0)"), &whole, &async);
    WT_EQ(weft_fill_(y, 9), WEFT_OK);
    WT_ALL(wt_is_all(weft_wait(y), 9));
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "in_place")); }
