/*
 * test_threads.c: calls that a rank divides among its threads give the bits of one thread, whatever
 * the shapes.
 */
#include <string.h>

#include "base/settings/knob.h"
#include "operands.h"

#include <weft/weft.h>

typedef weft_tensor *called(weft_tensor *x, weft_tensor *y);

static weft_tensor *add(weft_tensor *x, weft_tensor *y) { return weft_add(x, y); }
static weft_tensor *lgamma_of(weft_tensor *x, weft_tensor *y) { return (void)y, weft_lgamma(x); }
static weft_tensor *gelu(weft_tensor *x, weft_tensor *y) { return (void)y, weft_gelu(x); }
static weft_tensor *sin_of(weft_tensor *x, weft_tensor *y) { return (void)y, weft_sin(x); }
static weft_tensor *less(weft_tensor *x, weft_tensor *y) { return weft_lt(x, y); }
static weft_tensor *remainder_of(weft_tensor *x, weft_tensor *y) { return weft_remainder(x, y); }
static weft_tensor *half(weft_tensor *x, weft_tensor *y)
{
    return (void)y, weft_cast(x, WEFT_BF16);
}
static weft_tensor *add_row(weft_tensor *x, weft_tensor *y)
{
    return weft_add(x, weft_slice(y, 0, 0, 1));
}
static weft_tensor *turned(weft_tensor *x, weft_tensor *y)
{
    return (void)y, weft_exp(weft_transpose(x, 0, 1));
}
static weft_tensor *softmax(weft_tensor *x, weft_tensor *y) { return (void)y, weft_softmax(x, 1); }
static weft_tensor *softmax_down(weft_tensor *x, weft_tensor *y)
{
    return (void)y, weft_softmax(x, 0);
}
static weft_tensor *sums(weft_tensor *x, weft_tensor *y)
{
    return (void)y, weft_sum(x, (int[]){1}, 1, false);
}
static weft_tensor *sums_down(weft_tensor *x, weft_tensor *y)
{
    return (void)y, weft_sum(x, (int[]){0}, 1, true);
}
static weft_tensor *largest(weft_tensor *x, weft_tensor *y)
{
    return (void)y, weft_amax(x, (int[]){1}, 1, true);
}
static weft_tensor *norms(weft_tensor *x, weft_tensor *y)
{
    return (void)y, weft_layer_norm(x, NULL, NULL, 1e-5);
}
static weft_tensor *scan(weft_tensor *x, weft_tensor *y) { return weft_linear_scan(x, y, NULL, 1); }

static called *const calls[] = {add,       lgamma_of, gelu,   sin_of,  less,         remainder_of,
                                half,      add_row,   turned, softmax, softmax_down, sums,
                                sums_down, largest,   norms,  scan};
enum { CALLS = sizeof calls / sizeof *calls };

static weft_tensor *random_matrix(const int64_t *shape, int seed)
{
    weft_tensor *x = weft_empty(WEFT_F32, shape, 2);
    float *at = weft_data(x);
    uint32_t state = (uint32_t)seed;

    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        state = state * 1664525u + 1013904223u;
        at[i] = (float)(state >> 8) / 8388608.0f - 0.75f;
    }
    return x;
}

/* Each call once on one thread and once on so many, by one plan. */
static void compare_with_one_thread(const int64_t *shape, int64_t threads)
{
    for (int c = 0; c < CALLS; c++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = random_matrix(shape, 1 + c), *y = random_matrix(shape, 100 + c), *many,
                    *one;
        size_t bytes;

        wf_knobs.threads = threads;
        many = calls[c](x, y);
        wf_knobs.threads = 1;
        one = calls[c](x, y);
        ck_assert(many && one);
        bytes = (size_t)weft_numel(one) * weft_dtype_size(weft_tensor_dtype(one));
        ck_assert_msg(memcmp(weft_data(many), weft_data(one), bytes) == 0,
                      "call %d of %dx%d on %d threads", c, (int)shape[0], (int)shape[1],
                      (int)threads);
        weft_scope_close(scope);
    }
}

WT_UNIT(threads__give_the_bits_of_one)
{
    static const int64_t shapes[][2] = {{701, 301},  {1, 262147}, {3, 100003},
                                        {2, 131072}, {100003, 3}, {5, 7}};

    ck_assert_int_eq(weft_init(NULL, NULL), WEFT_OK);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int64_t threads = 2; threads < 6; threads += 3)
            compare_with_one_thread(shapes[s], threads);
    ck_assert_int_eq(weft_finalize(), WEFT_OK); /* plans are freed */
}

int main(void) { return wt_unit_main("threads"); }
