/* test_small_integers.c: i16 and i8 in files: written, read as they are, in any layout, cast. */
#include <stdio.h>
#include <string.h>

#include "support/scratch.h"
#include "support/worlds.h"

/* -128 .. 127 and wider. */
static weft_tensor *made(weft_dtype dtype, int64_t rows)
{
    weft_tensor *t = weft_empty(dtype, (int64_t[]){rows, 3}, 2);

    for (int64_t i = 0; i < 3 * rows; i++) {
        int value = (int)(i * 37 % 256) - 128;

        if (dtype == WEFT_I8)
            ((int8_t *)weft_data(t))[i] = (int8_t)value;
        else
            ((int16_t *)weft_data(t))[i] = (int16_t)(value * 256);
    }
    return t;
}

WT_TEST_IN_WORLD(small_integers__go_through_files, w)
{
    static const weft_dtype dtypes[] = {WEFT_I8, WEFT_I16};
    static const int64_t rows[] = {8, 5};
    static const weft_placement shard = {.kind = WEFT_KIND_SHARD};

    for (int k = 0; k < 4; k++) {
        const char *path = wt_scratch("small_integers");
        weft_tensor *want = made(dtypes[k % 2], rows[k / 2]), *got;
        weft_tensor *t = wt_spread(w, weft_mul_scalar(want, 1), "S(0)");
        weft_state *state = weft_state_new();
        weft_weights *file;

        WT_EQ(weft_state_add_tensor(state, "t", t), WEFT_OK);
        WT_EQ(weft_checkpoint_save(path, state), WEFT_OK);
        WT_EQ(weft_fill_(t, 0), WEFT_OK);
        WT_EQ(weft_checkpoint_load(path, state), WEFT_OK);
        WT_ALL(weft_tensor_dtype(t) == dtypes[k % 2] && wt_near_tensors(t, want, WT_EXACT));
        path = wt_scratch("small_integers.safetensors");
        WT_EQ(weft_weights_write(path, &(weft_named_tensor){"t", t}, 1), WEFT_OK);
        file = weft_weights_open(path);
        WT_ALL(file != NULL);
        got = weft_weights_read(file, "t", 0, w->mesh, &shard);
        WT_ALL(weft_tensor_dtype(got) == dtypes[k % 2] && wt_near_tensors(got, want, WT_EXACT));
        weft_weights_close(file);
        weft_state_release(state);
    }
}

WT_TEST_TIMES_IN_WORLD(complex_numbers__go_through_files, w, k, 2)
{
    static const weft_placement shard = {.kind = WEFT_KIND_SHARD};
    const char *path = wt_scratch("complex");
    weft_tensor *want = wt_whole3(WEFT_F32, 0, k ? 8 : 5, 3, 2), *got;
    weft_tensor *t = weft_clone(weft_view_as_complex(wt_spread(w, want, "S(0)")));
    weft_state *state = weft_state_new();
    weft_weights *file;

    WT_EQ(weft_state_add_tensor(state, "t", t), WEFT_OK);
    WT_EQ(weft_checkpoint_save(path, state), WEFT_OK);
    WT_EQ(weft_fill_(t, 0), WEFT_OK);
    WT_EQ(weft_checkpoint_load(path, state), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_view_as_real(t), want, WT_EXACT));
    path = wt_scratch("complex.safetensors");
    WT_EQ(weft_weights_write(path, &(weft_named_tensor){"t", t}, 1), WEFT_OK);
    file = weft_weights_open(path);
    got = weft_weights_read(file, "t", 0, w->mesh, &shard);
    WT_ALL(wt_near_tensors(weft_view_as_real(got), want, WT_EXACT));
    weft_weights_close(file);
    weft_state_release(state);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "small_integers")); }
