/*
 * test_vocabulary.c: a vocabulary split over ranks, as Megatron-LM's cases have it, and what a
 * shard without rows does to a maximum and a loss.
 */
/* mpi: 4 */
#include <math.h>
#include <stdlib.h>

#include "loss/check.h"

/* Of every rank the same logits: 0 .. 7 again and again over `columns` of them. */
static weft_tensor *repeated(struct wt_world *w, int64_t tokens, int64_t columns)
{
    const weft_placement split = weft_shard(1);
    float *data = malloc((size_t)(tokens * columns) * sizeof *data);
    weft_tensor *part;

    for (int64_t i = 0; i < tokens * columns; i++) data[i] = (float)(i % columns % 8);
    part = weft_from_data(WEFT_F32, (int64_t[]){tokens, columns}, 2, data);
    free(data);
    return weft_from_local(part, w->mesh, &split, NULL);
}

/* MEG-08: at 4 ranks 128 classes, and a loss of log(16 sum_k e^k) - target mod 8. */
WT_TEST(vocabulary__repeated_logits)
{
    struct wt_world w = wt_world_open();

    for (int64_t columns = 32; columns <= 64; columns += 32) {
        double want[16], sum = 0;
        int64_t targets[16], tokens = 16;
        weft_tensor *loss;

        for (int k = 0; k < 8; k++) sum += exp(k);
        for (int i = 0; i < 16; i++) {
            targets[i] = 2 * i * (columns / 32);
            want[i] = log((double)(columns * wt_ranks() / 8) * sum) - (double)(targets[i] % 8);
        }
        loss = weft_cross_entropy_with(
            repeated(&w, tokens, columns),
            wt_spread(&w, weft_from_data(WEFT_I64, &tokens, 1, targets), "R"),
            (weft_cross_entropy_options){.reduction = WEFT_LOSS_NONE});
        WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 2);
        WT_ALL(wt_near_full(loss, want, WT_WITHIN(1e-5)));
        if (wt_ranks() == 4 && columns == 32)
            for (int i = 0; i < 16; i++) WT_ALL(fabs(want[i] - (10.2309 - i % 4 * 2)) < 1e-4);
    }
}

/* MEG-09: a group is a mesh. Two all-reduces (the peer: 3), on the lines of tp and nowhere else. */
WT_TEST(vocabulary__over_the_group_that_is_meant)
{
    int dp = wt_ranks() % 2 == 0 ? 2 : 1;
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", dp, wt_ranks() / dp);
    weft_mesh *tp = wt_own(weft_mesh_sub(w.mesh, "tp"));
    const weft_placement split = weft_shard(1);

    for (int64_t classes = 3; classes <= 16; classes += 13) {
        struct check c = {.oracle = {.ndim = 2, .shape = {4, classes}, .class_dim = 1},
                          .weighted = true};
        weft_tensor *z, *target, *loss;

        check_prepare(&c);
        z = weft_distribute_tensor(weft_detach(check_logits(&w, &c)), tp, &split, -1);
        target = weft_distribute_tensor(check_target(&w, &c), tp, NULL, -1);
        wt_moved(&w, WEFT_COLL_COUNT);
        loss = weft_cross_entropy(z, target, -100);
        WT_ALL(weft_tensor_mesh(loss) == tp);
        if (weft_mesh_axis_size(tp, 0) > 1)
            WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 2);
        else
            WT_STILL(&w);
        WT_ALL(wt_near_tensors(loss,
                               weft_cross_entropy(check_logits(&w, &c), check_target(&w, &c), -100),
                               WT_WITHIN(1e-5)));
    }
}

/* MEG-09: on one rank it is plain cross-entropy. */
WT_TEST(vocabulary__of_one_rank)
{
    weft_mesh *one = wt_own(weft_mesh_from_ranks(WEFT_CPU, (int[]){1}, 1, NULL, (int[]){0}));
    const weft_placement split = weft_shard(1);
    const float logits[] = {1, 2, 3, 0.5f, -0.5f, 1};
    const int64_t targets[] = {2, 0}, two = 2;
    weft_tensor *z = weft_from_data(WEFT_F32, (int64_t[]){2, 3}, 2, logits);
    weft_tensor *target = weft_from_data(WEFT_I64, &two, 1, targets);
    weft_tensor *want = weft_cross_entropy(z, target, -100), *loss;

    loss = weft_cross_entropy(weft_distribute_tensor(z, one, &split, -1),
                              weft_distribute_tensor(target, one, NULL, -1), -100);
    if (weft_mesh_is_member(one)) loss = weft_to_local(loss, NULL);
    WT_ALL(!weft_mesh_is_member(one) || weft_item(loss) == weft_item(want));
}

/* MEG-19: from the size of the whole, from that of a part, and as tensors have it. */
WT_TEST(vocabulary__range_of_a_rank)
{
    struct wt_world w = wt_world_open();
    int ways = wt_ranks();

    for (int64_t part = 1; part <= 1600; part += 533) {
        int64_t vocabulary = part * ways, of_1600 = weft_chunk_size(1600, ways, wt_rank());
        weft_tensor *table = wt_spread(&w, weft_full(WEFT_F32, &vocabulary, 1, 1), "S(0)");

        WT_EQ(weft_chunk_size(vocabulary, ways, wt_rank()), part);
        WT_EQ(weft_chunk_offset(vocabulary, ways, wt_rank()), wt_rank() * part);
        WT_EQ(weft_local_size(table, 0), part);
        WT_EQ(weft_local_offset(table, 0), wt_rank() * part);
        if (1600 % ways == 0) {
            WT_EQ(weft_chunk_offset(1600, ways, wt_rank()), wt_rank() * (1600 / ways));
            WT_EQ(of_1600, 1600 / ways);
        }
    }
}

/*
 * With fewer rows than ranks PyTorch's maximum raises on the ranks that have none, and its loss
 * leaves them out of a collective that the others wait in.
 */
WT_TEST(vocabulary__with_ranks_that_have_nothing)
{
    struct wt_world w = wt_world_open();

    for (int64_t rows = 1; rows <= wt_ranks() + 1; rows++) {
        weft_tensor *whole = weft_set_requires_grad(wt_whole(WEFT_F64, 0, rows, 3), true);
        weft_tensor *x = weft_set_requires_grad(wt_spread(&w, weft_detach(whole), "S(0)"), true);
        weft_tensor *most = weft_amax(x, (int[]){0}, 1, false);
        weft_tensor *want = weft_amax(whole, (int[]){0}, 1, false);

        WT_ALL(wt_near_tensors(most, want, WT_EXACT));
        WT_ALL(wt_near_tensors(weft_amax(x, NULL, 0, true), weft_amax(whole, NULL, 0, true),
                               WT_EXACT));
        WT_ALL(weft_backward(weft_sum_all(most)) == WEFT_OK);
        WT_ALL(weft_backward(weft_sum_all(want)) == WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(whole), WT_EXACT));
        check_losses(&w, &(struct check){.oracle = {.ndim = 2, .shape = {3, rows}, .class_dim = 1},
                                         .weighted = true,
                                         .dtype = WEFT_F64,
                                         .logits = "S(1)",
                                         .target = "R"});
    }
}

/* ---- what programs of other libraries do with vocabulary-parallel logits ---- */

static const struct wt_tolerance close_to = {1e-11, 1e-11};
static const int64_t vocabularies[] = {16, 11, 3};

enum { ROWS = 3, COLUMNS = 2 };

/* Classes of ROWS x COLUMNS tokens as a view of their transpose; every fifth one is ignored. */
static weft_tensor *turned_targets(int64_t classes)
{
    int64_t ids[ROWS * COLUMNS];

    for (int64_t i = 0; i < ROWS * COLUMNS; i++) ids[i] = i == 4 ? -100 : (7 * i + 2) % classes;
    return weft_transpose(weft_from_data(WEFT_I64, (int64_t[]){COLUMNS, ROWS}, 2, ids), 0, 1);
}

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(weft_detach(t), true); }

/* Logits that are the middle of a longer buffer, and targets that lie by columns. */
static void check_views(struct wt_world *w, int64_t classes)
{
    const weft_cross_entropy_options each = {.reduction = WEFT_LOSS_NONE};
    const weft_placement split = weft_shard(2);
    int64_t shape[] = {ROWS, COLUMNS, classes};
    int64_t first = weft_chunk_offset(classes, wt_ranks(), wt_rank());
    int64_t end = first + weft_chunk_size(classes, wt_ranks(), wt_rank());
    weft_tensor *whole = leaf(wt_whole3(WEFT_F64, 0, ROWS, COLUMNS, classes)), *want, *loss;
    weft_tensor *buffer = leaf(weft_cat((weft_tensor *[]){whole, whole}, 2, 2)), *part, *scale;
    weft_tensor *target = turned_targets(classes);

    part = weft_slice(buffer, 2, first, end);
    scale = wt_whole(WEFT_F64, 1, ROWS, COLUMNS);
    want = weft_cross_entropy_with(whole, target, each);
    loss = weft_cross_entropy_with(weft_from_local(part, w->mesh, &split, shape),
                                   weft_distribute_tensor(target, w->mesh, NULL, -1), each);
    WT_ALL(wt_near_tensors(loss, want, close_to));
    WT_EQ(weft_backward(weft_sum_all(weft_mul(want, scale))), WEFT_OK);
    scale = weft_distribute_tensor(scale, w->mesh, NULL, -1);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(loss, scale))), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_slice(weft_grad(buffer), 2, first, end),
                           weft_slice(weft_grad(whole), 2, first, end), close_to));
    WT_ALL(weft_item(weft_sum_all(
               weft_square(weft_slice(weft_grad(buffer), 2, classes, 2 * classes)))) == 0);
}

/* Logits that another function gave as a view, a loss per token, and its gradient. */
WT_TEST(vocabulary__of_views)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 3; i++) check_views(&w, vocabularies[i]);
}

/* The logarithm of the sum of exponentials over all classes, by ordinary ops. */
static weft_tensor *log_sum(weft_tensor *z)
{
    weft_tensor *top = weft_detach(weft_amax(z, (int[]){-1}, 1, true));
    weft_tensor *sum = weft_sum(weft_exp(weft_sub(z, top)), (int[]){-1}, 1, true);

    return weft_reshape(weft_add(weft_log(sum), top), (int64_t[]){ROWS, COLUMNS}, 2);
}

WT_TEST(vocabulary__log_of_the_sum_over_ranks)
{
    static const double coefficient = 1e-2;
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 3; i++) {
        weft_cross_entropy_options o = {.reduction = WEFT_LOSS_NONE};
        weft_tensor *z = wt_whole3(WEFT_F64, 0, ROWS, COLUMNS, vocabularies[i]), *term;
        weft_tensor *one = leaf(z), *many = leaf(wt_spread(&w, z, "S(2)")), *with, *without;

        wt_moved(&w, WEFT_COLL_COUNT);
        term = log_sum(many);
        WT_ALL(wt_near_tensors(term, log_sum(z), close_to));
        term = weft_mul_scalar(weft_square(term), coefficient);
        WT_EQ(weft_backward(weft_sum_all(term)), WEFT_OK);
        WT_EQ(weft_backward(weft_sum_all(weft_mul_scalar(weft_square(log_sum(one)), coefficient))),
              WEFT_OK);
        WT_ALL(wt_is_placed(weft_grad(many), "S(2)"));
        WT_ALL(wt_near_tensors(weft_grad(many), weft_grad(one), close_to));
        without = weft_cross_entropy_with(one, turned_targets(3), o);
        o.z_loss = coefficient;
        with = weft_cross_entropy_with(one, turned_targets(3), o);
        z = weft_ge(weft_cast(turned_targets(3), WEFT_F64), weft_full(WEFT_F64, NULL, 0, 0));
        term = weft_mul(weft_full_tensor(term), weft_cast(z, WEFT_F64)); /* those that count */
        WT_ALL(wt_near_tensors(weft_sub(with, without), term, close_to));
    }
}

/* NeMo and Megatron smooth by eps V / (V - 1), V being all classes, which is a smoothing here. */
WT_TEST(vocabulary__smoothed_as_by_megatron)
{
    static const double eps = 0.1;
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 3; i++) {
        double v = (double)vocabularies[i], s = eps * v / (v - 1);
        weft_cross_entropy_options plain = {.reduction = WEFT_LOSS_NONE, .ignore_index = -1},
                                   smooth = plain;
        weft_tensor *z = wt_whole3(WEFT_F64, 0, ROWS, COLUMNS, vocabularies[i]), *want, *target;

        target = weft_cast(
            weft_make_arange((weft_spec){.dtype = WEFT_F64, .ndim = 1, .shape = {ROWS * COLUMNS}},
                             0, 0.5),
            WEFT_I64);
        target = weft_reshape(target, (int64_t[]){ROWS, COLUMNS}, 2); /* 0 0 1 1 2 2 */
        smooth.smoothing = s;
        want = weft_mean(weft_log_softmax(z, -1), (int[]){-1}, 1, false);
        want = weft_sub(weft_mul_scalar(weft_cross_entropy_with(z, target, plain), 1 - s),
                        weft_mul_scalar(want, s));
        WT_ALL(wt_near_tensors(
            weft_cross_entropy_with(wt_spread(&w, z, "S(2)"), wt_spread(&w, target, "R"), smooth),
            want, close_to));
    }
}

/* The next token's loss: logits but the last position's, targets but the first, whichever dim of
 * the logits is split. */
WT_TEST(vocabulary__of_the_tokens_that_follow)
{
    enum { BATCH = 2, TOKENS = 5, CLASSES = 7 };
    static const char *const layouts[] = {"S(2)", "S(1)", "S(0)", "R"};
    struct wt_world w = wt_world_open();
    int64_t ids[BATCH * TOKENS] = {1, 5, -100, 6, 2, 0, 3, 4, -100, 6};
    weft_tensor *z = wt_whole3(WEFT_F64, 0, BATCH, TOKENS, CLASSES), *one = leaf(z), *want;
    weft_tensor *target = weft_from_data(WEFT_I64, (int64_t[]){BATCH, TOKENS}, 2, ids);

    want = weft_cross_entropy(weft_slice(one, 1, 0, -1), weft_slice(target, 1, 1, TOKENS), -100);
    WT_EQ(weft_backward(want), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        weft_tensor *many = leaf(wt_spread(&w, z, layouts[i])), *loss;
        weft_tensor *ids_there = wt_spread(&w, target, i % 3 ? layouts[i] : "R");

        loss = weft_cross_entropy(weft_slice(many, 1, 0, -1), weft_slice(ids_there, 1, 1, TOKENS),
                                  -100);
        WT_ALL(wt_near_tensors(loss, want, close_to));
        WT_EQ(weft_backward(loss), WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(many), weft_grad(one), close_to));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "vocabulary"); }
