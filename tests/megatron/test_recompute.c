/*
 * test_recompute.c: what backward needs is kept as shards, or not kept and computed again, alone
 * and together: values and gradients as ever, bytes and collectives by the formula.
 */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 2 8 */
#include "autograd/tape.h"
#include "megatron/lines.h"

static weft_tensor *sum(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    (void)payload;
    return weft_add(in[0], in[1]);
}

static weft_tensor *wanted(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* The result of an op, of which the tape alone knows. */
static weft_tensor *made(weft_tensor *x) { return weft_mul_scalar(x, 1); }

static int64_t elements_kept(const weft_tensor *y, int slot)
{
    return y->node->saved[slot]->layout->desc.numel;
}

/* Parts of a rank: the chunk rule's largest. */
static int64_t share(int64_t n, int64_t ways) { return (n + ways - 1) / ways; }

static void check_sum(struct lines *l, int64_t rows, int64_t columns)
{
    weft_tensor *a = wanted(lines_full(rows, columns, 1)), *b = lines_full(rows, columns, 2), *y;
    int64_t n = rows * columns;
    weft_scope *parts = weft_saved_shards_open(l->tp);

    y = weft_recomputed(sum, (weft_tensor *[]){made(a), b}, 2, NULL, NULL);
    weft_scope_return(parts, y);
    LINES_STILL(l); /* cutting is free */
    WT_ALL(wt_near_tensors(y, lines_full(rows, columns, 3), WT_EXACT));
    WT_EQ(elements_kept(y, 0), n < l->ways ? n : share(n, l->ways));
    y = weft_sum_all(y);
    for (int times = 1; times <= 2; times++) { /* parts outlive a backward that retains the tape */
        WT_EQ((times == 1 ? weft_backward_retain : weft_backward)(y), WEFT_OK);
        LINES_SENT(l, WEFT_COLL_ALL_GATHER, n < l->ways ? 0 : 2); /* one per input */
        WT_ALL(wt_near_tensors(weft_grad(a), lines_full(rows, columns, times), WT_EXACT));
    }
}

/* MEG-17: 16 elements, 8 on each of two ranks; sizes that do not divide, and fewer than ranks. */
WT_TEST(saved_shards__of_the_inputs_of_a_sum)
{
    struct lines l = lines_open();

    check_sum(&l, 4, 4);
    check_sum(&l, 5, 7);
    check_sum(&l, 1, 3);
}

/* ---- an output that is dropped ---- */

/* A residual, beside a branch whose inner results are not kept. */
static weft_tensor *branch(weft_tensor *const *in, int n, void *payload)
{
    weft_tensor *const *w = payload;
    weft_tensor *h = weft_gelu(weft_layer_norm(in[0], NULL, NULL, 1e-5));

    (void)n;
    return weft_add(in[0], weft_linear(h, w[0], NULL, 1));
}

enum { PIECES = 3 };

enum how { KEPT, AGAIN, AGAIN_IN_PARTS, IN_PARTS };

static weft_tensor *run(struct lines *l, weft_tensor *x, weft_tensor **w, enum how how)
{
    weft_scope *scope = how >= AGAIN_IN_PARTS ? weft_saved_shards_open(l->tp) : weft_scope_open();
    weft_tensor *y =
        how == KEPT || how == IN_PARTS ? branch(&x, 1, w) : weft_recomputed(branch, &x, 1, w, NULL);

    return weft_scope_return(scope, y);
}

static weft_tensor *noise(int64_t a, int64_t b)
{
    return weft_make_randn((weft_spec){.dtype = WEFT_F64, .ndim = 2, .shape = {a, b}}, NULL);
}

/* Only the tape and the caller, who releases it, hold the result. */
static weft_tensor *chain(struct lines *l, weft_tensor *x, weft_tensor **w, enum how how)
{
    weft_tensor *y = weft_retain(x);

    for (int i = 0; i < PIECES; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *next = weft_retain(run(l, i ? y : made(y), w, how));

        weft_scope_close(scope);
        weft_release(y);
        y = next;
    }
    return y;
}

/* Bytes that the tape keeps of the chain; gradients are retained. */
static int64_t step(struct lines *l, enum how how, weft_tensor **w, weft_tensor **dx,
                    weft_tensor **dw)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = wanted(noise(6, 8)), *y, *view;
    int64_t before, kept;

    w[0] = wanted(noise(8, 8));
    before = weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live;
    y = chain(l, x, w, how);
    kept = weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live - before;
    view = weft_reshape(y, (int64_t[]){48}, 1); /* shares the result's bytes */
    WT_EQ(weft_backward(weft_add(weft_sum_all(weft_square(y)), weft_sum_all(weft_gelu(view)))),
          WEFT_OK);
    *dx = weft_retain(weft_grad(x));
    *dw = weft_retain(weft_grad(w[0]));
    weft_release(y);
    weft_scope_close(scope);
    return kept;
}

/* MEG-17: gradients are those of what was kept, whoever else shares the result. */
WT_TEST(recompute__what_was_dropped)
{
    struct lines l = lines_open();
    weft_tensor *w[1], *dx[4], *dw[4];
    int64_t kept[4];

    for (int how = KEPT; how <= IN_PARTS; how++) {
        weft_manual_seed(3);
        weft_ledger_reset(l.ledger);
        kept[how] = step(&l, (enum how)how, w, &dx[how], &dw[how]);
        if (how < AGAIN_IN_PARTS) LINES_STILL(&l);
        if (how == AGAIN_IN_PARTS) LINES_SENT(&l, WEFT_COLL_ALL_GATHER, PIECES);
        WT_ALL(wt_near_tensors(dx[how], dx[KEPT], WT_WITHIN(1e-12)));
        WT_ALL(wt_near_tensors(dw[how], dw[KEPT], WT_WITHIN(1e-12)));
    }
    WT_ALL(kept[AGAIN] < kept[KEPT]);
    if (l.ways > 1) WT_ALL(kept[AGAIN_IN_PARTS] < kept[AGAIN] && kept[IN_PARTS] < kept[KEPT]);
    for (int how = KEPT; how <= IN_PARTS; how++) {
        weft_release(dx[how]);
        weft_release(dw[how]);
    }
}

/* ---- what is cut, and what is not ---- */

WT_TEST(saved_shards__only_of_what_all_ranks_have)
{
    struct lines l = lines_open();
    const weft_placement rows = weft_shard(0), whole = weft_replicate();
    weft_tensor *x = noise(8, 6), *y, *factor = wanted(noise(8, 6));
    weft_scope *parts = weft_saved_shards_open(l.tp);

    x = weft_mesh_all_reduce(x, WEFT_MAX, l.tp, 0); /* the same everywhere */
    /* a part is no replica, distributed or plain */
    y = weft_gelu(made(wanted(weft_distribute_tensor(x, l.tp, &rows, -1))));
    WT_EQ(elements_kept(y, 0), weft_local_numel(y));
    y = weft_gelu(weft_to_local(y, NULL));
    WT_EQ(elements_kept(y, 0), weft_numel(y));
    /* a replica is, distributed or plain; of a leaf that wants a gradient nothing is gained */
    y = weft_mul(made(wanted(weft_distribute_tensor(x, l.tp, &whole, -1))),
                 factor = wanted(weft_distribute_tensor(noise(8, 6), l.tp, &whole, -1)));
    WT_EQ(elements_kept(y, 0), share(48, l.ways));
    WT_EQ(elements_kept(y, 1), 48);
    y = weft_gelu(weft_to_local(y, NULL));
    WT_EQ(elements_kept(y, 0), share(48, l.ways));
    weft_ledger_reset(l.ledger);
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 2);
    weft_scope_close(parts);
    y = weft_gelu(made(wanted(noise(8, 6)))); /* outside nothing is */
    WT_EQ(elements_kept(y, 0), 48);
}

/* Without elements the same is booked, and nothing sent; backward may run in the scope. */
WT_TEST(saved_shards__without_elements)
{
    struct lines l = lines_open();
    weft_device before = weft_set_default_device(WEFT_META);
    weft_scope *parts = weft_saved_shards_open(l.tp);
    weft_tensor *w[] = {wanted(weft_empty(WEFT_F64, (int64_t[]){8, 8}, 2))}, *y;

    y = run(&l, made(wanted(weft_empty(WEFT_F64, (int64_t[]){6, 8}, 2))), w, AGAIN_IN_PARTS);
    WT_EQ(elements_kept(y, 0), share(48, l.ways));
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
    LINES_SENT(&l, WEFT_COLL_ALL_GATHER, 1);
    weft_scope_close(parts);
    weft_set_default_device(before);
}

/* ---- a model ---- */

static weft_module *gpt(struct lines *l, weft_recompute recompute, bool parts)
{
    weft_module *m, *blocks;

    weft_manual_seed(7);
    m = weft_gpt((weft_gpt_config){.vocab = 11,
                                   .context = 12,
                                   .width = 16,
                                   .heads = 4,
                                   .layers = 3,
                                   .dropout = 0.2,
                                   .dtype = WEFT_F64,
                                   .recompute = recompute});
    WT_EQ(weft_parallelize_module(m, l->tp, weft_gpt_plan()), WEFT_OK);
    blocks = weft_module_child(m, "blocks");
    for (int i = 0; i < weft_module_child_count(blocks) && parts; i++)
        WT_EQ(weft_module_use_saved_shards(weft_module_child_at(blocks, i), l->tp), WEFT_OK);
    return m;
}

static weft_tensor *tokens(int64_t shift)
{
    int64_t at[2 * 9];

    for (int i = 0; i < 18; i++) at[i] = (i * 5 + shift) % 11;
    return weft_from_data(WEFT_I64, (int64_t[]){2, 9}, 2, at);
}

struct trained {
    double loss, norm;
    int64_t kept, gathered, bytes;
};

static struct trained train(struct lines *l, weft_recompute recompute, bool parts)
{
    weft_module *m = wt_own(gpt(l, recompute, parts));
    weft_scope *scope = weft_scope_open();
    struct trained t;
    weft_tensor *loss;

    weft_manual_seed(9);
    t.kept = -weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live;
    loss = weft_gpt_loss(m, tokens(1), tokens(4));
    WT_ALL(loss != NULL);
    t.kept += weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live;
    t.loss = weft_item(loss);
    weft_ledger_reset(l->ledger);
    WT_EQ(weft_backward(loss), WEFT_OK);
    t.gathered = weft_ledger_count(l->ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_BACKWARD, NULL);
    t.bytes = weft_ledger_bytes(l->ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_BACKWARD, NULL);
    WT_EQ(weft_clip_grad_norm(m, 0, &t.norm), WEFT_OK);
    weft_scope_close(scope);
    return t;
}

static bool near(double a, double b) { return a - b < 1e-11 && b - a < 1e-11; }

/* MEG-17: blocks of a model keep a part of their input, gathered once each; and, without computing
 * anything again, a part of all that they save (input_reshard of PyTorch). */
WT_TEST(saved_shards__of_the_blocks_of_a_model)
{
    enum { LAYERS = 3, INPUT = 2 * 9 * 16, SIZE = 8 };
    struct lines l = lines_open();
    struct trained kept = train(&l, WEFT_RECOMPUTE_NONE, false), again, parts;

    again = train(&l, WEFT_RECOMPUTE_BLOCK, false);
    parts = train(&l, WEFT_RECOMPUTE_BLOCK, true);
    WT_ALL(near(again.loss, kept.loss) && near(again.norm, kept.norm));
    WT_ALL(near(parts.loss, kept.loss) && near(parts.norm, kept.norm));
    WT_EQ(parts.gathered, l.ways > 1 ? LAYERS : 0);
    WT_EQ(parts.bytes, l.ways > 1 ? LAYERS * share(INPUT, l.ways) * l.ways * SIZE : 0);
    /* the last block's result is kept by what follows, and the first one's input by nobody else */
    if (l.ways > 1) WT_EQ(again.kept - parts.kept, LAYERS * (INPUT - share(INPUT, l.ways)) * SIZE);
    parts = train(&l, WEFT_RECOMPUTE_NONE, true);
    WT_ALL(near(parts.loss, kept.loss) && near(parts.norm, kept.norm));
    if (l.ways > 1) WT_ALL(parts.kept < kept.kept && parts.gathered > LAYERS);
}

WT_TEST(saved_shards__are_refused_without_a_mesh)
{
    struct lines l = lines_open();
    weft_module *m = wt_own(weft_dropout_new(0.5));

    WT_FAILS(weft_module_use_saved_shards(NULL, l.tp), WEFT_ERR_ARG, "module is NULL");
    WT_ALL(weft_module_use_saved_shards(m, NULL) != WEFT_OK); /* there is no default mesh */
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "recompute"); }
