/*
 * test_driver_kernels.c: what layers below the kernels do to device memory (driver_kernels.h),
 * beside what they do to memory of the host.
 */
#include "both_devices.h"

#include "base/elements/strided_copy.h"
#include "kernels/cuda/driver_kernels.h"

/* ---- strided copies ---- */

enum { BYTES = 1 << 17 };
static char source[BYTES], target[2][BYTES];

static uint64_t random_below(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

static int64_t extent_of(int ndim, const int64_t *shape, const int64_t *stride)
{
    int64_t last = 0;

    for (int d = 0; d < ndim; d++) last += (shape[d] - 1) * stride[d];
    return last + 1;
}

/* Strides of the dims in any order, with gaps now and then. gives: elements from first to last */
static int64_t random_strides(uint64_t *state, int ndim, const int64_t *shape, int64_t *stride)
{
    int order[2 * WEFT_MAX_DIMS];
    int64_t step = 1;

    for (int d = 0; d < ndim; d++) order[d] = d;
    for (int d = ndim - 1; d > 0 && random_below(state, 3); d--) {
        int other = (int)random_below(state, (uint64_t)d + 1), kept = order[d];

        order[d] = order[other];
        order[other] = kept;
    }
    for (int d = ndim - 1; d >= 0; d--) {
        stride[order[d]] = step;
        step *= shape[order[d]];
        if (random_below(state, 4) == 0) step += (int64_t)random_below(state, 3);
    }
    return extent_of(ndim, shape, stride);
}

static void check_copy(uint64_t *state, int ndim, const int64_t *shape, size_t element)
{
    int64_t from[2 * WEFT_MAX_DIMS], to[2 * WEFT_MAX_DIMS], bytes = (int64_t)element;
    struct wf_strided_copy copy;

    if (random_strides(state, ndim, shape, from) * bytes > BYTES - 64 ||
        random_strides(state, ndim, shape, to) * bytes > BYTES - 64)
        return;
    if (random_below(state, 5) == 0) from[random_below(state, (uint64_t)ndim)] = 0;
    wf_strided_copy_init(&copy, shape, from, to, ndim, element);
    copy.src_offset = (int64_t)random_below(state, 4) * bytes;
    copy.dst_offset = (int64_t)random_below(state, 4) * bytes;
    for (int i = 0; i < 2; i++) memset(target[i], 0x7b, BYTES);
    wf_cuda_strided_copy(&copy, target[0], source);
    wf_strided_copy_run(&copy, target[1], source);
    ck_assert_msg(memcmp(target[0], target[1], BYTES) == 0,
                  "copy of %d loops, %zu bytes together, tiled %d", copy.loops, copy.run,
                  copy.tiled);
}

WT_UNIT(strided_copies__are_the_hosts)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 17, 33, 64, 100};
    static const size_t elements[] = {1, 2, 4, 8};
    uint64_t state = 9;

    for (int i = 0; i < BYTES; i++) source[i] = (char)random_below(&state, 256);
    for (int i = 0; i < 4000; i++) {
        int ndim = 1 + (int)random_below(&state, i % 7 ? 4 : 8);
        int64_t shape[WEFT_MAX_DIMS], n = 1;

        for (int d = 0; d < ndim; d++)
            n *= shape[d] = sizes[random_below(&state, ndim > 4 ? 4 : 10)];
        if (n <= 20000) check_copy(&state, ndim, shape, elements[i % 4]);
    }
}

/* More loops than a map has dims: runs of runs, as the overlap of two shards has them. */
WT_UNIT(strided_copies__have_any_number_of_loops)
{
    struct wf_strided_copy copy = {.loops = 12, .run = 2};
    int64_t from = 2, to = 2;

    for (int i = 11; i >= 0; i--) {
        copy.count[i] = 2;
        copy.src_step[i] = from += 2 * (i % 3);
        copy.dst_step[i] = to;
        from *= 2;
        to = 2 * to + 2 * (i % 2);
        if (from > BYTES / 4) from = 2;
    }
    for (int i = 0; i < 2; i++) memset(target[i], 0x7b, BYTES);
    wf_cuda_strided_copy(&copy, target[0], source);
    wf_strided_copy_run(&copy, target[1], source);
    ck_assert_mem_eq(target[0], target[1], BYTES);
}

WT_UNIT(strided_copies__of_nothing_touch_nothing)
{
    static const int64_t shape[] = {3, 0}, strides[] = {1, 1};
    struct wf_strided_copy copy;

    wf_strided_copy_init(&copy, shape, strides, strides, 2, 4);
    wf_cuda_strided_copy(&copy, NULL, NULL);
}

/* ---- fill, divide, power ---- */

WT_UNIT(fill__repeats_an_element_at_any_address)
{
    static const uint64_t element = 0x0102030405060708;

    for (size_t bytes = 1; bytes <= 8; bytes *= 2)
        for (size_t first = 0; first < 3; first++)
            for (size_t count = 0; count < 70; count++) {
                memset(target[0], 0x7b, 1024);
                wf_cuda_fill_elements(target[0] + first * bytes, &element, bytes, count);
                for (size_t i = 0; i < 100 * bytes; i++) {
                    bool inside = i >= first * bytes && i < (first + count) * bytes;
                    char want = inside ? ((const char *)&element)[i % bytes] : 0x7b;

                    if (target[0][i] != want) ck_abort_msg("byte %zu of %zu", i, count * bytes);
                }
            }
}

WT_UNIT(divide__rounds_as_the_host_does)
{
    for (int t = 0; t < WEFT_C64; t++)
        for (int divisor = 1; divisor < 8; divisor++) {
            struct operand x = operand_new((weft_dtype)t, PLAIN, 1, (int64_t[]){101});
            double want[101];

            operand_whole(&x, 3, 100);
            for (int i = 0; i < 101; i++) {
                char element[8];

                wf_dtypes[t].store(element, x.values[i] / divisor);
                want[i] = wf_dtypes[t].load(element);
            }
            wf_cuda_divide_elements((weft_dtype)t, 101, x.data, divisor);
            operand_read(&x);
            expect_near("divide", &x, want, 0);
            expect_guards(&x);
            operand_free(&x);
        }
}

WT_UNIT(power__is_of_the_size)
{
    static const double powers[] = {0.5, 2, 3, 1 / 3.0, -1};

    for (int c = 0; c < 5 * FLOAT_DTYPES; c++) {
        weft_dtype dtype = float_dtypes[c % FLOAT_DTYPES];
        struct operand x = operand_noise(dtype, PLAIN, 1, (int64_t[]){101}, 5);
        double want[101];

        for (int i = 0; i < 101; i++) want[i] = pow(fabs(x.values[i]), powers[c / FLOAT_DTYPES]);
        wf_cuda_power_elements(dtype, 101, x.data, powers[c / FLOAT_DTYPES]);
        operand_read(&x);
        expect_near("power", &x, want, dtype == WEFT_F64 ? 1e-15 : dtype == WEFT_F32 ? 1e-7 : 4e-3);
        expect_guards(&x);
        operand_free(&x);
    }
}

/* Their order is that of the floats, with every NaN at the end that is asked for. */
WT_UNIT(float_keys__are_in_the_order_of_floats)
{
    static const double in_order[] = {-INFINITY, -1e9,    -3,  -1, -0x1p-14, -0x1p-24, -0.0,    0.0,
                                      0x1p-24,   0x1p-14, 0.5, 1,  2,        65504,    INFINITY};
    enum { N = sizeof in_order / sizeof *in_order };

    for (int c = 0; c < 2 * FLOAT_DTYPES; c++) {
        weft_dtype dtype = float_dtypes[c / 2];
        size_t element = weft_dtype_size(dtype);
        bool largest = c % 2;
        _Alignas(16) char from[8 * (N + 1)], to[8 * (N + 1)];
        int64_t wide[N + 1];
        int32_t narrow[N + 1];

        for (int i = 0; i < N; i++)
            wf_dtypes[dtype].store(from + (size_t)(largest ? i : i + 1) * element, in_order[i]);
        wf_dtypes[dtype].store(from + (size_t)(largest ? N : 0) * element, NAN);
        wf_cuda_keys_of_floats(dtype, largest, N + 1, dtype == WEFT_F64 ? (void *)wide : narrow,
                               from);
        wf_cuda_floats_of_keys(dtype, N + 1, to, dtype == WEFT_F64 ? (void *)wide : narrow);
        for (int i = 0; i <= N; i++) {
            double x = wf_dtypes[dtype].load(from + (size_t)i * element),
                   y = wf_dtypes[dtype].load(to + (size_t)i * element);

            ck_assert(isnan(x) ? isnan(y) : x == y && signbit(x) == signbit(y));
            if (i)
                ck_assert(dtype == WEFT_F64 ? wide[i - 1] <= wide[i] : narrow[i - 1] <= narrow[i]);
        }
    }
}

int main(void) { return wt_unit_main("driver_kernels"); }
