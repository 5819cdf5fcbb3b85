/*
 * test_device.c: tensors on a GPU as a program uses them: copies there and back, what waits for the
 * device and what does not, devices that do not go together, gradients through copies, memory,
 * files. The device is that of the environment: the test driver, whose memory the host cannot
 * touch, or another.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "device/device.h"
#include "support/scratch.h"
#include "support/worlds.h"
#include "tensor/tensor.h"

enum { ROWS = 5, COLUMNS = 7 };

static int64_t synchronizations(const struct wt_world *w)
{
    return weft_ledger_synchronizations(w->ledger, WEFT_DIRECTION_ANY).count;
}

/* A matrix on the CPU, whatever is the default. */
static weft_tensor *on_cpu(int which, int64_t rows, int64_t columns)
{
    return weft_to_device(wt_whole(WEFT_F32, which, rows, columns), WEFT_CPU);
}

static bool holds_elements(const weft_tensor *t, int which, int64_t first)
{
    int64_t n = weft_local_numel(t);
    double *got = malloc((size_t)(n + 1) * sizeof *got);
    bool same = weft_read_f64(t, got, n) == WEFT_OK;

    for (int64_t i = 0; i < n && same; i++) same = got[i] == (float)wt_element(which, first + i);
    free(got);
    return same;
}

WT_TEST_IN_WORLD(device__tensors_are_made_where_the_mesh_is, w)
{
    weft_tensor *t = wt_whole(WEFT_F32, 0, ROWS, COLUMNS), *spread = wt_spread(w, t, "S(0)");

    WT_EQ(weft_mesh_device(w->mesh), wt_device());
    WT_EQ(weft_tensor_device(t), wt_device());
    WT_EQ(weft_tensor_device(spread), wt_device());
    WT_EQ(
        weft_tensor_device(weft_make_zeros((weft_spec){.ndim = 1, .shape = {3}, .mesh = w->mesh})),
        wt_device());
    WT_ALL(holds_elements(spread, 0, weft_local_offset(spread, 0) * COLUMNS));
}

/* Memory that nobody uses is the pool's until it is trimmed. */
WT_TEST_IN_WORLD(device__says_what_there_is, w)
{
    int64_t unused, total, after;
    weft_device here = wt_device(); /* an assertion of its own: not within what a rank may skip */
    weft_scope *inner = weft_scope_open();

    WT_ALL(weft_device_count(WEFT_CPU) == 1 && weft_device_count(here) >= 1);
    weft_make_ones((weft_spec){.ndim = 1, .shape = {1 << 20}, .mesh = w->mesh});
    weft_scope_close(inner);
    weft_device_synchronize(here);
    WT_ALL(weft_device_memory(here, &unused, &total) == WEFT_OK);
    WT_ALL(unused <= total && (total > 0) == (here == WEFT_CUDA));
    WT_ALL(weft_memory_on(here, WEFT_MEMORY_CATEGORIES).cached > 0);
    weft_memory_trim();
    WT_ALL(weft_memory_on(here, WEFT_MEMORY_CATEGORIES).cached == 0);
    WT_ALL(weft_device_memory(here, &after, &total) == WEFT_OK);
    WT_ALL(after > unused || here == WEFT_CPU);
    WT_FAILS(weft_device_memory(here, NULL, &total), WEFT_ERR_ARG, "no room");
}

WT_TEST(device__what_a_program_sets_goes_before_the_mesh)
{
    weft_device before = weft_set_default_device(WEFT_CPU);
    struct wt_world w = wt_world_open();
    weft_spec spec = {.ndim = 1, .shape = {3}};

    WT_EQ(weft_tensor_device(wt_whole(WEFT_F32, 0, 2, 2)), WEFT_CPU);
    spec.device = wt_device();
    WT_EQ(weft_tensor_device(weft_make_ones(spec)), wt_device());
    WT_EQ(weft_tensor_device(wt_spread(&w, on_cpu(0, ROWS, 2), "S(0)")), wt_device());
    wt_world_close(&w);
    weft_set_default_device(before);
}

WT_TEST_IN_WORLD(device__copies_go_there_and_back, w)
{
    for (int dtype = 0; dtype < WEFT_C64; dtype++) {
        weft_tensor *t = weft_cast(on_cpu(0, ROWS, COLUMNS), (weft_dtype)dtype), *there, *back;
        bool same;

        there = weft_to_device(t, wt_device());
        back = weft_to_device(weft_to_device(weft_transpose(there, 0, 1), WEFT_CPU), WEFT_CPU);
        WT_EQ(weft_tensor_device(there), wt_device());
        WT_EQ(weft_tensor_device(back), WEFT_CPU);
        WT_ALL(weft_equal(&same, back, weft_transpose(t, 0, 1)) == WEFT_OK && same);
        WT_ALL(weft_to_device(there, wt_device()) == there);
    }
    WT_EQ(weft_numel(weft_to_device(weft_to_device(on_cpu(0, 0, 3), wt_device()), WEFT_CPU)), 0);
}

/* More than the pieces of a copy, and more pinned memory than is held back. */
WT_TEST_IN_WORLD(device__large_copies_go_piece_by_piece, w)
{
    int64_t rows = 1021, columns = 3001;
    weft_tensor *t = on_cpu(0, rows, columns), *sum = NULL;
    bool same;

    for (int i = 0; i < 12; i++) {
        weft_tensor *there = weft_to_device(t, wt_device());

        sum = sum ? weft_maximum(sum, there) : there;
    }
    WT_ALL(weft_equal(&same, weft_to_device(sum, WEFT_CPU), t) == WEFT_OK && same);
}

WT_TEST_IN_WORLD(device__only_reads_wait, w)
{
    weft_module *layer = wt_own(weft_linear_new((weft_linear_config){.in = {COLUMNS}, .out = {3}}));
    weft_tensor *x, *loss;
    weft_optim *optim;
    double norm;

    WT_EQ(weft_module_to_device(layer, wt_device()), WEFT_OK);
    optim = wt_own(weft_sgd(layer, (weft_sgd_config){.lr = 0.1}));
    x = wt_whole(WEFT_F32, 0, ROWS, COLUMNS);
    loss = weft_mean_all(weft_call(layer, x));
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_EQ(synchronizations(w), 0);
    WT_EQ(weft_clip_grad_norm(layer, 1, &norm), WEFT_OK);
    WT_EQ(synchronizations(w), 1);
    WT_EQ(weft_step(optim), WEFT_OK);
    WT_EQ(synchronizations(w), 1);
    WT_ALL(isfinite(weft_item(loss)));
    WT_EQ(synchronizations(w), 2);
    WT_EQ(weft_ledger_synchronizations(w->ledger, WEFT_DIRECTION_OPTIM).count, 1);
}

WT_TEST_IN_WORLD(device__larger_tensors_of_another_are_refused, w)
{
    weft_tensor *there = wt_whole(WEFT_F32, 0, ROWS, COLUMNS), *here = on_cpu(1, ROWS, COLUMNS);

    WT_FAILS(weft_add(there, here), WEFT_ERR_ARG,
             "add: input 1 is on the CPU while others are on a GPU; weft_to_device copies it");
    WT_FAILS(weft_mul(here, there), WEFT_ERR_ARG, "mul: input 0 is on the CPU");
}

/* A number of the CPU is copied in each call, and its gradient comes back to it. */
WT_TEST_IN_WORLD(device__numbers_of_the_cpu_go_along, w)
{
    weft_tensor *there = wt_whole(WEFT_F32, 0, ROWS, COLUMNS), *y;
    weft_tensor *number =
        weft_set_requires_grad(weft_to_device(wt_constant(1, 1, 3), WEFT_CPU), true);

    y = weft_sum_all(weft_mul(there, number));
    WT_ALL(y && weft_backward(y) == WEFT_OK);
    WT_EQ(weft_tensor_device(y), wt_device());
    WT_EQ(weft_tensor_device(weft_grad(number)), WEFT_CPU);
    WT_ALL(fabs(weft_item(weft_grad(number)) - weft_item(weft_sum_all(there))) < 1e-5);
    y = weft_add(wt_spread(w, there, "S(0)"), weft_detach(number));
    WT_ALL(y != NULL);
    WT_EQ(weft_tensor_device(y), wt_device());
}

WT_TEST_IN_WORLD(device__gradients_go_back_to_where_a_tensor_came_from, w)
{
    weft_tensor *here = weft_set_requires_grad(on_cpu(0, ROWS, COLUMNS), true), *y;

    y = weft_sum_all(weft_square(weft_from_local(here, w->mesh, NULL, NULL)));
    WT_EQ(weft_tensor_device(y), wt_device());
    WT_EQ(weft_backward(y), WEFT_OK);
    WT_EQ(weft_tensor_device(weft_grad(here)), WEFT_CPU);
    WT_ALL(wt_near_tensors(weft_grad(here), weft_mul_scalar(here, 2), WT_EXACT));
}

WT_TEST_IN_WORLD(device__memory_is_counted_by_device, w)
{
    int64_t here = weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live,
            there = weft_memory_on(wt_device(), WEFT_MEMORY_ACTIVATIONS).live;
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = weft_empty(WEFT_F32, (int64_t[]){100, 100}, 2);

    WT_ALL(t != NULL);
    WT_EQ(weft_memory_on(wt_device(), WEFT_MEMORY_ACTIVATIONS).live, there + 40000);
    WT_EQ(weft_memory_of(WEFT_MEMORY_ACTIVATIONS).live, here);
    weft_memory_count_as(t, WEFT_MEMORY_WEIGHTS);
    WT_EQ(weft_memory_on(wt_device(), WEFT_MEMORY_ACTIVATIONS).live, there);
    weft_scope_close(scope);
    WT_EQ(weft_memory_on(wt_device(), WEFT_MEMORY_WEIGHTS).live, 0);
}

/* What one rank alone knows ends the job beside others. */
WT_TEST_IN_WORLD(device__out_of_memory_is_an_error_with_a_sentence, w)
{
    int64_t more[] = {(int64_t)1 << 20, (int64_t)1 << 20};

    if (wt_ranks() == 1) {
        WT_FAILS(weft_empty(WEFT_F64, more, 2), WEFT_ERR_MEMORY,
                 "no memory on the GPU for 8796093022208 bytes of activations");
    }
    WT_ALL(wt_whole(WEFT_F32, 0, ROWS, COLUMNS) != NULL);
}

/* The collectives of tensors begin on the host when their bytes are there; one of the host begins
 * in between. */
WT_TEST_IN_WORLD(device__collectives_begin_in_the_programs_order, w)
{
    weft_redistribute_options async = {.async = true};
    weft_placement whole = weft_replicate();
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 8 * ROWS, COLUMNS), "S(0)"),
                *b = wt_spread(w, wt_whole(WEFT_F32, 1, 8 * ROWS, COLUMNS), "S(1)");

    for (int i = 0; i < 10; i++) {
        weft_tensor *all_a = weft_redistribute_with(a, &whole, &async),
                    *all_b = weft_redistribute_with(b, &whole, &async), *number;

        number = weft_mesh_all_reduce(weft_to_device(wt_constant(1, 1, 1), WEFT_CPU), WEFT_SUM,
                                      w->mesh, 0);
        WT_EQ(weft_tensor_device(number), WEFT_CPU);
        WT_EQ(weft_item(number), wt_ranks());
        WT_ALL(holds_elements(weft_to_local(weft_wait(all_b), NULL), 1, 0));
        WT_ALL(holds_elements(weft_to_local(weft_wait(all_a), NULL), 0, 0));
    }
}

/* The source of a collective in flight is overwritten as soon as a program may, and its memory used
 * again. */
WT_TEST_IN_WORLD(device__memory_in_flight_is_not_used_again, w)
{
    weft_redistribute_options async = {.async = true};
    weft_placement whole = weft_replicate();

    for (int i = 0; i < 20; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *part = wt_spread(w, wt_whole(WEFT_F32, i, 3 * ROWS, COLUMNS), "S(0)");
        weft_tensor *all = weft_redistribute_with(part, &whole, &async);

        if (wt_ranks() > 1) WT_EQ(weft_fill_(part, -1), WEFT_OK); /* else it is the result */
        for (int k = 0; k < 4; k++) WT_ALL(weft_full_like(part, -2) != NULL);
        WT_ALL(holds_elements(weft_to_local(weft_wait(all), NULL), i, 0));
        weft_scope_close(scope);
    }
}

WT_TEST_IN_WORLD(device__files_are_read_and_written, w)
{
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F32, 0, 3 * ROWS, COLUMNS), "S(0)"),
                *turned = weft_transpose(wt_whole(WEFT_F32, 1, ROWS, COLUMNS), 0, 1), *again;
    weft_named_tensor named[] = {{"t", t}, {"turned", turned}};
    const char *path = wt_scratch("device.safetensors"), *folder = wt_scratch("device");
    weft_state *state = wt_own(weft_state_new());
    weft_weights *weights;

    WT_EQ(weft_weights_write(path, named, 2), WEFT_OK);
    weights = wt_own(weft_weights_open(path));
    again = weft_weights_read(weights, "t", 0, w->mesh, weft_placements(w->mesh, "S(1)"));
    WT_EQ(weft_tensor_device(again), wt_device());
    WT_ALL(wt_near_tensors(again, t, WT_EXACT));
    WT_ALL(wt_near_tensors(weft_weights_read(weights, "turned", 0, NULL, NULL), turned, WT_EXACT));
    WT_EQ(weft_state_add_tensor(state, "t", t), WEFT_OK);
    WT_EQ(weft_checkpoint_save(folder, state), WEFT_OK);
    again = weft_full_like(t, 0);
    WT_EQ(weft_copy_(again, t), WEFT_OK);
    WT_ALL(weft_fill_(t, 0) == WEFT_OK && weft_checkpoint_load(folder, state) == WEFT_OK);
    WT_ALL(wt_near_tensors(t, again, WT_EXACT));
}

WT_TEST_IN_WORLD(device__a_module_moves_with_its_ties, w)
{
    weft_gpt_config config = {
        .vocab = 11, .context = 4, .width = 8, .heads = 2, .layers = 1, .tied = true};
    weft_device before = weft_set_default_device(WEFT_CPU);
    weft_module *gpt = wt_own(weft_gpt(config));

    weft_set_default_device(before);
    WT_EQ(weft_module_to_device(gpt, wt_device()), WEFT_OK);
    WT_ALL(weft_module_parameter(gpt, "head.weight") == weft_module_parameter(gpt, "wte.weight"));
    WT_EQ(weft_tensor_device(weft_module_parameter(gpt, "wte.weight")), wt_device());
    WT_ALL(weft_requires_grad(weft_module_parameter(gpt, "wte.weight")));
    WT_FAILS(weft_module_to_device(gpt, WEFT_META), WEFT_ERR_ARG,
             "module_to_device: there are no elements on device");
}

/* Nothing is left waiting, and pinned memory of copies comes back. */
WT_TEST_IN_WORLD(device__a_steady_state_asks_the_device_for_nothing, w)
{
    int64_t calls = 0;

    for (int i = 0; i < 12; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *t = wt_spread(w, on_cpu(0, 3 * ROWS, COLUMNS), "S(0)");

        if (i == 8) calls = wf_pool_system_calls();
        WT_ALL(weft_full_tensor(weft_gelu(t)) != NULL);
        weft_scope_close(scope);
    }
    WT_EQ(wf_pool_system_calls(), calls);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "device")); }
