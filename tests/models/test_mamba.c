/*
 * test_mamba.c: the state-space model of examples/mamba in f64 against PyTorch's numbers
 * (make_mamba.py): logits, every gradient, losses and weights of three steps of AdamW, and what is
 * sent. 10 channels and 19 words divide by few numbers of ranks; with 8 some have no channel.
 */
/* mpi: 3 */
#include "mamba/model.h"
#include "support/given.h"
#include "support/golden.h"

enum { VOCAB = 19, LAYERS = 2, BATCH = 2, CONTEXT = 8 };
enum { WIDTH = 6, INNER = 10, STATE = 3, RANK = 2, TAPS = 4 };

static const struct mamba config = {.vocab = VOCAB,
                                    .layers = LAYERS,
                                    .mixer = {.width = WIDTH,
                                              .inner = INNER,
                                              .state = STATE,
                                              .rank = RANK,
                                              .taps = TAPS,
                                              .dtype = WEFT_F64}};

static weft_module *spread_model(const struct wt_golden *golden)
{
    weft_module *m;

    weft_manual_seed(1);
    m = wt_own(mamba_new(config));
    WT_ALL(m != NULL);
    WT_ALL(!golden || wt_golden_load(golden, m));
    WT_EQ(weft_parallelize_module_strict(m, wt_own(given_mesh()), mamba_plan), WEFT_OK);
    return m;
}

static weft_tensor *whole_numbers(int64_t step, int64_t start)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i + start) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

static weft_tensor *logits(weft_module *m) { return weft_call(m, whole_numbers(7, 3)); }

static weft_tensor *loss_of(weft_module *m)
{
    return weft_call_n(m, (weft_tensor *[]){whole_numbers(7, 3), whole_numbers(5, 1)}, 2);
}

WT_TEST(mamba__equals_pytorch)
{
    struct wt_golden *golden = wt_golden_open("mamba");

    wt_golden_train(golden, spread_model(golden), logits, loss_of, 1e-10);
}

static int64_t sent(const weft_ledger *ledger, weft_coll kind, weft_direction direction)
{
    return weft_ledger_count(ledger, kind, direction, NULL);
}

/* Forward the embedding's sum, two sums of each mixer, and the loss's maximum and sums; backward of
 * each mixer the gradients of its input and of what dt, B and C are made of, and the head's. The
 * convolution and the scan send nothing. */
WT_TEST(mamba__sends_two_sums_a_mixer)
{
    weft_module *m = spread_model(NULL);
    weft_ledger *ledger = wt_own(weft_ledger_open());
    int64_t several = wt_ranks() > 1;
    weft_scope *scope = weft_scope_open();

    wt_step_on_loss(scope, loss_of(m), NULL);
    WT_EQ(sent(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_FORWARD),
          several * (1 + 2 * LAYERS + 2));
    WT_EQ(sent(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_BACKWARD), several * (2 * LAYERS + 1));
    WT_EQ(sent(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY), several * (1 + 4 * LAYERS + 3));
}

/* Of every parameter of a mixer but none each rank has its own channels. */
WT_TEST(mamba__is_split_by_channels)
{
    weft_module *m = spread_model(NULL), *mixer = weft_module_child(m, "blocks.1.mixer");
    int64_t channels = weft_chunk_size(INNER, wt_ranks(), weft_world_rank());
    static const struct {
        const char *name, *layout;
        int64_t numbers; /* of a channel */
    } rows[] = {
        {"in.weight", "S(1)", 2 * WIDTH}, {"conv.weight", "S(0)", TAPS},
        {"conv.bias", "S(0)", 1},         {"select.weight", "S(1)", RANK + 2 * STATE},
        {"step.weight", "S(0)", RANK},    {"step.bias", "S(0)", 1},
        {"scan.A_log", "S(0)", STATE},    {"scan.D", "S(0)", 1},
        {"out.weight", "S(1)", WIDTH},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_tensor *t = weft_module_parameter(mixer, rows[i].name);

        WT_ALL(given_is(t, rows[i].layout));
        WT_ALL(weft_local_numel(t) == channels * rows[i].numbers);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "mamba"); }
