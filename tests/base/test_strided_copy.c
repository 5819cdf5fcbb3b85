/* test_strided_copy.c: strided copies, element by element against plain loops. */
#include <stdlib.h>
#include <string.h>

#include "base/elements/stream_copy.h"
#include "base/elements/strided_copy.h"
#include "support/mpi_check.h"

enum { ROOM = 1 << 16 };

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static int below(unsigned *state, int n) { return (int)(next_random(state) % (unsigned)n); }

/* Strides of a random order of dims in memory, sometimes with gaps. */
static void pick_strides(unsigned *state, int ndim, const int64_t *shape, int64_t *strides)
{
    int order[WEFT_MAX_DIMS];
    int64_t step = 1 + below(state, 2) * below(state, 2);

    for (int d = 0; d < ndim; d++) {
        int other = below(state, 2) ? d : below(state, d + 1);

        order[d] = order[other];
        order[other] = d;
    }
    for (int i = ndim - 1; i >= 0; i--) {
        strides[order[i]] = step;
        step *= shape[order[i]] + (below(state, 4) == 0);
    }
}

static void copy_plainly(int ndim, const int64_t *shape, const int64_t *src_stride,
                         const int64_t *dst_stride, size_t element, char *dst, const char *src)
{
    int64_t numel = 1;

    for (int d = 0; d < ndim; d++) numel *= shape[d];
    for (int64_t i = 0; i < numel; i++) {
        int64_t left = i, from = 0, to = 0;

        for (int d = ndim - 1; d >= 0; d--) {
            from += left % shape[d] * src_stride[d];
            to += left % shape[d] * dst_stride[d];
            left /= shape[d];
        }
        memcpy(dst + to * (int64_t)element, src + from * (int64_t)element, element);
    }
}

WT_UNIT(copy__moves_what_plain_loops_move_and_nothing_else)
{
    static const size_t elements[] = {1, 2, 4, 8};
    char *src = malloc(8 * ROOM), *dst = calloc(8, ROOM), *want = calloc(8, ROOM);
    unsigned state = 3;

    for (int i = 0; i < 8 * ROOM; i++) src[i] = (char)next_random(&state);
    for (int round = 0; round < 600; round++) {
        int ndim = below(&state, 4);
        size_t element = elements[below(&state, 4)];
        int64_t shape[4], src_stride[4], dst_stride[4];
        struct wf_strided_copy copy;

        for (int d = 0; d < ndim; d++) shape[d] = 1 + below(&state, ndim == 2 ? 70 : 24);
        pick_strides(&state, ndim, shape, src_stride);
        pick_strides(&state, ndim, shape, dst_stride);
        memset(dst, 0, 8 * ROOM);
        memset(want, 0, 8 * ROOM);
        wf_strided_copy_init(&copy, shape, src_stride, dst_stride, ndim, element);
        copy.src_offset = 16;
        copy.dst_offset = 8;
        wf_strided_copy_run(&copy, dst, src);
        copy_plainly(ndim, shape, src_stride, dst_stride, element, want + 8, src + 16);
        ck_assert(memcmp(dst, want, 8 * ROOM) == 0);
    }
    free(src);
    free(dst);
    free(want);
}

WT_UNIT(copy__of_contiguous_data_is_one_run)
{
    static const int64_t shape[3] = {4, 5, 6}, strides[3] = {30, 6, 1};
    struct wf_strided_copy copy;

    wf_strided_copy_init(&copy, shape, strides, strides, 3, 4);
    ck_assert_int_eq(copy.loops, 0);
    ck_assert_uint_eq(copy.run, 480);
}

/* A source that repeats its elements along a dim, and arrays without any. */
WT_UNIT(copy__repeats_elements_along_a_stride_of_0_and_copies_nothing_of_nothing)
{
    static const int64_t shape[2] = {20, 40}, none[2] = {20, 0}, packed[2] = {40, 1};
    static const int64_t repeats[2][2] = {{0, 1}, {1, 0}};
    int32_t src[40], dst[800];
    struct wf_strided_copy copy;

    for (int i = 0; i < 40; i++) src[i] = i;
    for (int k = 0; k < 2; k++) {
        wf_strided_copy_init(&copy, shape, repeats[k], packed, 2, 4);
        wf_strided_copy_run(&copy, dst, src);
        for (int i = 0; i < 800; i++) ck_assert_int_eq(dst[i], k ? i / 40 : i % 40);
    }
    wf_strided_copy_init(&copy, none, repeats[0], packed, 2, 4);
    wf_strided_copy_run(&copy, NULL, NULL);
}

WT_UNIT(copy__merges_dims_that_follow_each_other_on_both_sides)
{
    static const int64_t shape[4] = {2, 3, 4, 5}, src[4] = {120, 40, 10, 1},
                         dst[4] = {60, 20, 5, 1};
    struct wf_strided_copy copy;

    wf_strided_copy_init(&copy, shape, src, dst, 4, 8);
    ck_assert_int_eq(copy.loops, 1);
    ck_assert_int_eq(copy.count[0], 24);
    ck_assert_uint_eq(copy.run, 40);
}

static void check_copy(int ndim, const int64_t *shape, const int64_t *src_stride,
                       const int64_t *dst_stride, int64_t room, bool transposed)
{
    char *src = malloc((size_t)room), *dst = calloc(1, (size_t)room),
         *want = calloc(1, (size_t)room);
    struct wf_strided_copy copy;
    unsigned state = 5;

    for (int64_t i = 0; i < room; i++) src[i] = (char)next_random(&state);
    wf_strided_copy_init(&copy, shape, src_stride, dst_stride, ndim, 4);
    ck_assert(copy.transposed == transposed);
    wf_strided_copy_run(&copy, dst, src);
    copy_plainly(ndim, shape, src_stride, dst_stride, 4, want, src);
    ck_assert(memcmp(dst, want, (size_t)room) == 0);
    free(src);
    free(dst);
    free(want);
}

/* Operands of convolutions: channels last and first, taps between blocks of channels, and back. */
WT_UNIT(copy__transposes_where_the_source_runs_along_one_dim_or_two)
{
    check_copy(3, (int64_t[]){2, 35, 19}, (int64_t[]){665, 1, 35}, (int64_t[]){665, 19, 1}, 5320,
               true);
    check_copy(4, (int64_t[]){2, 9, 10, 32}, (int64_t[]){2880, 1, 9, 90},
               (int64_t[]){2880, 320, 32, 1}, 23040, true);
    check_copy(4, (int64_t[]){2, 32, 10, 9}, (int64_t[]){2880, 1, 32, 320},
               (int64_t[]){2880, 90, 9, 1}, 23040, true);
    check_copy(3, (int64_t[]){3, 2, 17}, (int64_t[]){2, 1, 6}, (int64_t[]){34, 17, 1}, 408, true);
    check_copy(2, (int64_t[]){40, 3}, (int64_t[]){1, 40}, (int64_t[]){3, 1}, 480, false);
}

/* Results of 16 MiB and more go past the caches, in lines where these are whole. */
WT_UNIT(copy__of_many_bytes_transposes_and_moves_rows_alike)
{
    enum { N = 2060 };

    check_copy(2, (int64_t[]){N, N}, (int64_t[]){1, N}, (int64_t[]){N, 1}, 4 * N * N, true);
    check_copy(2, (int64_t[]){N, 2048}, (int64_t[]){1, N}, (int64_t[]){2048, 1}, 4 * N * 2048,
               true);
    check_copy(2, (int64_t[]){N, N - 4}, (int64_t[]){N, 1}, (int64_t[]){N - 4, 1}, 4 * N * N,
               false);
}

/* A copy leaves what lies before and behind it. */
WT_UNIT(stream_copy__moves_the_bytes_of_a_row_and_no_others)
{
    enum { MOST = 400, EDGE = 80 };
    static void (*const copies[])(void *, const void *, size_t) = {wf_stream_copy,
                                                                   wf_stream_copy_backward};
    char from[MOST], to[MOST + 2 * EDGE], want[MOST + 2 * EDGE];

    for (int i = 0; i < MOST; i++) from[i] = (char)(i * 7 + 1);
    for (int k = 0; k < 2; k++)
        for (int at = 0; at < 65; at += 1 + at / 20)
            for (int bytes = 0; bytes + at < MOST; bytes += bytes < 140 ? 1 : 53) {
                memset(to, 0, sizeof to);
                memset(want, 0, sizeof want);
                copies[k](to + EDGE + at, from + at, (size_t)bytes);
                wf_stream_end();
                memcpy(want + EDGE + at, from + at, (size_t)bytes);
                ck_assert(memcmp(to, want, sizeof to) == 0);
            }
}

int main(void) { return wt_unit_main("strided_copy"); }
