/*
 * test_padding.c: texts of several lengths in one batch, padded on the left or on the right, are
 * each read and written on as if they were alone; on any number of ranks.
 */
/* ranks: 1 2 3 4 8 */
/* mpi: 2 */
#include "support/near_modules.h"
#include "support/worlds.h"

enum { VOCAB = 23, WIDTH = 20, HEADS = 5, LONGEST = 9, ROWS = 3, MORE = 4, LAYERS = 2 };

static const int64_t lengths[ROWS] = {4, LONGEST, 1};
static const struct wt_tolerance close_to = {1e-10, 1e-10};

static weft_module *new_gpt(bool by_heads)
{
    (void)by_heads;
    return weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                      .context = LONGEST + MORE,
                                      .width = WIDTH,
                                      .heads = HEADS,
                                      .layers = LAYERS,
                                      .dtype = WEFT_F64});
}

static weft_module *new_llama(bool by_heads)
{
    return weft_llama((weft_llama_config){.vocab = VOCAB,
                                          .width = WIDTH,
                                          .heads = 10,
                                          .kv_heads = HEADS,
                                          .by_heads = by_heads,
                                          .layers = LAYERS,
                                          .dtype = WEFT_F64});
}

struct model {
    const char *name;
    weft_module *(*make)(bool by_heads);
    bool by_heads;
};
static const struct model models[] = {
    {"gpt", new_gpt, false}, {"llama", new_llama, false}, {"llama by heads", new_llama, true}};
enum { MODELS = sizeof models / sizeof *models };

static int64_t token(int64_t row, int64_t i) { return (7 * i + 5 * row + 3) % VOCAB; }

/* Where text number `row` begins and ends in a row of `columns`, of which it has the first or last.
 */
static int64_t first_of(int64_t row, bool left) { return left ? LONGEST - lengths[row] : 0; }

static int64_t end_of(int64_t row, bool left, int64_t columns)
{
    return left ? columns : lengths[row];
}

/* Columns [from, from + n) of all texts; what is padded is a token like any other. */
static weft_tensor *texts(int64_t from, int64_t n, bool left)
{
    weft_tensor *t = weft_empty(WEFT_I64, (int64_t[]){ROWS, n}, 2);

    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = from + i - first_of(row, left);

            ((int64_t *)weft_data(t))[row * n + i] = at < 0 ? 1 : token(row, at);
        }
    return t;
}

static weft_tensor *shown(int64_t columns, bool left)
{
    weft_tensor *t = weft_empty(WEFT_BOOL, (int64_t[]){ROWS, columns}, 2);

    for (int64_t i = 0; i < ROWS * columns; i++) {
        int64_t row = i / columns, at = i % columns;

        ((bool *)weft_data(t))[i] = at >= first_of(row, left) && at < end_of(row, left, columns);
    }
    return t;
}

/* One text alone, its first n tokens. */
static weft_tensor *alone(int64_t row, int64_t n)
{
    weft_tensor *t = weft_empty(WEFT_I64, (int64_t[]){1, n}, 2);

    for (int64_t i = 0; i < n; i++) ((int64_t *)weft_data(t))[i] = token(row, i);
    return t;
}

static weft_module *spread(struct wt_world *w, const struct model *model)
{
    weft_module *m;

    weft_manual_seed(11);
    m = model->make(model->by_heads);
    WT_EQ(weft_parallelize_module(m, w->mesh, weft_gpt_plan()), WEFT_OK);
    return wt_own(m);
}

/* A row of a case begins: one model, spread. */
static weft_module *row(struct wt_world *w, int i)
{
    wt_row("%s", models[i].name);
    return spread(w, &models[i]);
}

/* The logits of a text in a batch are those that it has alone. */
static bool is_as_alone(weft_module *m, weft_tensor *logits, bool left)
{
    bool good = true;

    for (int64_t row = 0; row < ROWS; row++) {
        int64_t first = first_of(row, left);
        weft_tensor *got =
            weft_slice(weft_slice(logits, 0, row, row + 1), 1, first, first + lengths[row]);

        good &= wt_near_tensors(got, weft_call(m, alone(row, lengths[row])), close_to);
    }
    return good;
}

/* trial 4.4 */
WT_TEST(padding__hides_what_is_not_there)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < MODELS; i++) {
        weft_module *m = row(&w, i);

        for (int left = 0; left < 2; left++) {
            weft_tensor *in[] = {texts(0, LONGEST, left), shown(LONGEST, left)};

            WT_ALL(is_as_alone(m, weft_call_n(m, in, 2), left));
        }
    }
}

/* Targets that are padded are -100: loss and gradients are those of the texts one by one. */
/* trial 4.4 */
WT_TEST(padding__has_no_part_in_loss_and_gradients)
{
    struct wt_world w = wt_world_open();
    weft_module *m = spread(&w, &models[1]), *one = spread(&w, &models[1]);
    weft_tensor *targets = texts(1, LONGEST, true), *mask = shown(LONGEST, true), *sum = NULL,
                *loss;
    int64_t count = 0;

    for (int64_t i = 0; i < ROWS * LONGEST; i++)
        if (!((bool *)weft_data(mask))[i]) ((int64_t *)weft_data(targets))[i] = -100;
    /* Mask and targets come in any order. */
    loss = weft_call_n(m, (weft_tensor *[]){texts(0, LONGEST, true), mask, targets}, 3);
    for (int64_t row = 0; row < ROWS; row++) {
        int64_t n = lengths[row];
        weft_tensor *next = weft_slice(alone(row, n + 1), 1, 1, n + 1);
        weft_tensor *each = weft_mul_scalar(weft_gpt_loss(one, alone(row, n), next), (double)n);

        sum = sum ? weft_add(sum, each) : each;
        count += n;
    }
    sum = weft_mul_scalar(sum, 1 / (double)count);
    WT_ALL(wt_near_tensors(loss, sum, close_to));
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_EQ(weft_backward(sum), WEFT_OK);
    WT_NEAR_GRADIENTS(m, one, close_to);
}

/* The prompts at once or in pieces, then token by token, with keys and values remembered: every
 * text is written on as it is alone, from position to position. */
static void check_written(struct wt_world *w, int i, int64_t chunk)
{
    weft_module *m = row(w, i), *one = spread(w, &models[i]);
    weft_tensor *mask = shown(LONGEST + MORE, true);

    weft_no_grad_open();
    WT_EQ(weft_module_cache(m, LONGEST + MORE), WEFT_OK);
    for (int64_t read = 0; read < LONGEST + MORE;) {
        int64_t n = read >= LONGEST ? 1 : LONGEST - read < chunk ? LONGEST - read : chunk;
        weft_tensor *logits = weft_gpt_next_masked(m, texts(read, n, true), mask);
        bool good = logits != NULL;

        read += n;
        for (int64_t row = 0; row < ROWS && read >= LONGEST; row++) {
            int64_t length = lengths[row] + read - LONGEST;

            good = wt_near_tensors(weft_slice(logits, 0, row, row + 1),
                                   weft_gpt_next(one, alone(row, length)), close_to) &&
                   good;
        }
        WT_ALL(good);
    }
    weft_no_grad_close();
}

/* trial 4.4 */
WT_TEST(padding__on_the_left_lets_texts_of_several_lengths_be_written_on)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < MODELS; i++) {
        check_written(&w, i, LONGEST);
        check_written(&w, i, 4);
    }
}

WT_TEST(padding__of_another_form_is_refused)
{
    struct wt_world w = wt_world_open();
    weft_module *m = spread(&w, &models[0]);
    weft_tensor *tokens = texts(0, LONGEST, true), *mask = shown(LONGEST, true);

    WT_FAILS(weft_gpt_next_masked(m, tokens, weft_slice(mask, 0, 0, 2)), WEFT_ERR_SHAPE,
             "a mask is [B, T] of bool");
    WT_FAILS(weft_gpt_next_masked(m, tokens, weft_cast(mask, WEFT_I64)), WEFT_ERR_SHAPE,
             "a mask is [B, T] of bool");
    WT_FAILS(weft_call_n(m, (weft_tensor *[]){tokens, mask, mask}, 3), WEFT_ERR_ARG,
             "two inputs are masks");
}

/* What a call that fails has read is forgotten. */
WT_TEST(padding__refused_leaves_caches_as_they_were)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < MODELS; i++) {
        weft_module *m = row(&w, i);
        weft_tensor *want, *first = texts(0, 4, true), *next = texts(4, 2, true);
        weft_tensor *mask = shown(LONGEST + MORE, true);

        weft_no_grad_open();
        WT_EQ(weft_module_cache(m, LONGEST + MORE), WEFT_OK);
        want = weft_gpt_next_masked(m, texts(0, 6, true), mask);
        WT_EQ(weft_module_cache(m, LONGEST + MORE), WEFT_OK);
        for (int call = 0; call < 2; call++) {
            for (int wrong = 4; wrong <= 6; wrong += 2) {
                WT_FAILS(weft_gpt_next_masked(m, call ? next : first, shown(wrong, true)),
                         WEFT_ERR_SHAPE, "all for which the cache has room");
                WT_EQ(weft_module_cached(m), 4 * call);
            }
            if (!call) WT_ALL(weft_gpt_next_masked(m, first, mask) != NULL);
        }
        WT_ALL(wt_near_tensors(weft_gpt_next_masked(m, next, mask), want, close_to));
        WT_EQ(weft_module_cache(m, 0), WEFT_OK);
        WT_FAILS(weft_gpt_next_masked(m, first, mask), WEFT_ERR_SHAPE,
                 "of 13 tokens whether they are there; there are 4");
        weft_no_grad_close();
    }
}

static weft_tensor *fails(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return weft_reshape(inputs[0], (int64_t[]){1}, 1);
}

/* The last layer fails after its attention and all layers before have remembered the tokens. */
WT_TEST(padding__failed_call_leaves_caches_as_they_were)
{
    static const weft_module_class class_fails = {.type = "fails", .forward = fails};
    struct wt_world w = wt_world_open();

    for (int i = 0; i < MODELS; i++) {
        weft_module *m = row(&w, i), *mlp;
        weft_tensor *want, *first = texts(0, 4, true), *next = texts(4, 2, true);

        weft_no_grad_open();
        WT_EQ(weft_module_cache(m, 6), WEFT_OK);
        want = weft_gpt_next(m, texts(0, 6, true));
        WT_EQ(weft_module_cache(m, 6), WEFT_OK);
        WT_ALL(weft_gpt_next(m, first) != NULL);
        mlp = weft_module_replace_child(m, "blocks.1.mlp", weft_module_new(&class_fails, NULL));
        WT_ALL(mlp && !weft_gpt_next(m, next));
        WT_FAILED(WEFT_ERR_SHAPE, "reshape");
        weft_module_release(weft_module_replace_child(m, "blocks.1.mlp", mlp));
        WT_EQ(weft_module_cached(m), 4);
        WT_ALL(wt_near_tensors(weft_gpt_next(m, next), want, close_to));
        weft_no_grad_close();
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "padding"); }
