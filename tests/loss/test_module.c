/* test_module.c: cross-entropy as a module, plain and under the loss parallel style. */
/* mpi: 2 */
#include "loss/check.h"

static struct check given(int i)
{
    static const int64_t shapes[][3] = {{6, 11}, {4, 16}, {3, 2}};
    struct check c = {
        .oracle = {.ndim = 2, .shape = {shapes[i % 3][0], shapes[i % 3][1]}, .class_dim = 1}};

    c.weighted = i % 2;
    c.oracle.smoothing = i % 4 / 2 * 0.2;
    c.oracle.z_loss = i % 5 == 1 ? 0.1 : 0;
    check_prepare(&c);
    return c;
}

/* The module's loss, and the gradient of its plain logits: the whole of them, or this rank's. */
static void same_as_the_op(struct wt_world *w, const struct check *c, bool parallel,
                           weft_loss_reduction reduction)
{
    weft_cross_entropy_options options = check_options(c, reduction);
    const weft_plan plan[] = {{"", weft_cross_entropy_parallel()}, {0}};
    weft_tensor *z = check_logits(w, c), *target = check_target(w, c), *piece, *loss, *want;
    weft_module *m;

    options.weight = check_weight(w, c);
    want = weft_sum_all(weft_square(weft_cross_entropy_with(z, target, options)));
    m = wt_own(weft_cross_entropy_new(
        (weft_cross_entropy_config){.classes = c->oracle.classes, .options = options}));
    piece = weft_set_requires_grad(weft_detach(z), true);
    if (parallel) {
        WT_EQ(weft_parallelize_module(m, w->mesh, plan), WEFT_OK);
        piece = weft_to_local(wt_spread(w, weft_detach(z), "S(1)"), NULL);
        piece = weft_set_requires_grad(weft_drop_grad_types(piece), true);
    }
    WT_EQ(weft_module_numel(m), 0 + (c->weighted ? c->oracle.classes : 0));
    weft_ledger_reset(w->ledger);
    loss = weft_call_n(m, (weft_tensor *[]){piece, target}, 2);
    WT_ALL(loss != NULL && !weft_tensor_mesh(loss));
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL),
          parallel && wt_ranks() > 1 ? 2 : 0);
    loss = weft_sum_all(weft_square(loss));
    WT_ALL(wt_near_tensors(loss, want, WT_WITHIN(1e-5)));
    weft_ledger_reset(w->ledger);
    WT_ALL(weft_backward(loss) == WEFT_OK && weft_backward(want) == WEFT_OK);
    WT_STILL(w);
    want = weft_grad(z);
    if (parallel) want = weft_to_local(wt_spread(w, weft_detach(want), "S(1)"), NULL);
    WT_ALL(wt_near_tensors(weft_drop_grad_types(weft_grad(piece)), weft_drop_grad_types(want),
                           WT_WITHIN(1e-5)));
    if (c->weighted) {
        WT_ALL(!weft_requires_grad(weft_module_parameter(m, "weight")));
        WT_ALL(!parallel || wt_is_placed(weft_module_parameter(m, "weight"), "R"));
    }
}

WT_TEST(module__is_the_op_whole_and_in_pieces)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 36; i++) {
        struct check c = given(i % 6);

        same_as_the_op(&w, &c, i / 6 % 2, (weft_loss_reduction)(i / 12));
    }
}

/* Logits [2,V,5], with V counted from the front and from the end; pieces are uneven. */
WT_TEST(module__has_its_classes_in_the_middle)
{
    static const int dims[] = {1, -2};
    struct wt_world w = wt_world_open();
    const weft_plan plan[] = {{"", weft_cross_entropy_parallel()}, {0}};

    for (int i = 0; i < 2; i++) {
        struct check c = {.oracle = {.ndim = 3, .shape = {2, 7 + i, 5}, .class_dim = 1}};
        weft_cross_entropy_config config = {.options = {.class_dim = dims[i], .smoothing = 0.1}};
        weft_tensor *z, *target, *want, *loss;
        weft_module *m;

        check_prepare(&c);
        config.classes = c.oracle.classes;
        z = check_logits(&w, &c);
        target = check_target(&w, &c);
        want = weft_cross_entropy_with(z, target, config.options);
        m = wt_own(weft_cross_entropy_new(config));
        WT_EQ(weft_parallelize_module(m, w.mesh, plan), WEFT_OK);
        z = weft_drop_grad_types(weft_to_local(wt_spread(&w, weft_detach(z), "S(1)"), NULL));
        wt_moved(&w, WEFT_COLL_COUNT);
        loss = weft_call_n(m, (weft_tensor *[]){z, target}, 2);
        WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 2);
        WT_ALL(wt_near_tensors(loss, want, WT_WITHIN(1e-5)));
    }
}

/* Output layer and loss in one piece, of which nothing as long as the vocabulary is kept. */
static weft_tensor *head(weft_tensor *const *in, int n, void *payload)
{
    return weft_cross_entropy(weft_linear(in[0], payload, NULL, 1), in[n - 1], -100);
}

/* What is computed again runs where it ran: inside the block that made a plain target a replica, or
 * outside of one that refuses whole logits, wherever backward is called. */
WT_TEST(module__computed_again_is_in_its_own_block)
{
    enum { TOKENS = 5, WIDTH = 4, CLASSES = 11 };
    struct wt_world w = wt_world_open();
    const int64_t ids[] = {3, 10, -100, 0, 7}, tokens = TOKENS;
    weft_tensor *weight = wt_whole(WEFT_F64, 1, CLASSES, WIDTH), *want;
    weft_tensor *x = weft_set_requires_grad(wt_whole(WEFT_F64, 0, TOKENS, WIDTH), true);
    weft_tensor *target = weft_from_data(WEFT_I64, &tokens, 1, ids);

    want = head((weft_tensor *[]){x, target}, 2, weight);
    WT_EQ(weft_backward(want), WEFT_OK);
    for (int inside = 0; inside < 2; inside++) {
        weft_tensor *split = wt_spread(&w, weft_detach(weight), inside ? "S(0)" : "R"), *loss;
        weft_tensor *many = weft_set_requires_grad(wt_spread(&w, weft_detach(x), "R"), true);
        weft_tensor *in[] = {many, inside ? target : wt_spread(&w, target, "R")};
        weft_scope *block = inside ? weft_loss_parallel_open() : weft_scope_open();

        loss = weft_scope_return(block, weft_recomputed(head, in, 2, split, NULL));
        WT_ALL(wt_near_tensors(loss, want, WT_WITHIN(1e-12)));
        block = inside ? weft_scope_open() : weft_loss_parallel_open();
        WT_EQ(weft_backward(loss), WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(many), weft_grad(x), WT_WITHIN(1e-12)));
        weft_scope_close(block);
    }
}

WT_TEST(module__refuses_what_no_loss_has)
{
    weft_tensor *weight = weft_full(WEFT_F32, (int64_t[]){2, 2}, 2, 1);

    WT_FAILS(weft_cross_entropy_new((weft_cross_entropy_config){.classes = -1}), WEFT_ERR_ARG,
             "classes is -1");
    WT_FAILS(weft_cross_entropy_new((weft_cross_entropy_config){.options = {.class_dim = 99}}),
             WEFT_ERR_ARG, "class_dim is 99");
    WT_FAILS(weft_cross_entropy_new((weft_cross_entropy_config){.options = {.weight = weight}}),
             WEFT_ERR_ARG, "class weights");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "loss module"); }
