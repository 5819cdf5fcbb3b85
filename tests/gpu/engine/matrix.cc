/*
 * matrix.cc: products and loads of matrix fragments that the 32 lanes of a warp hold together, in
 * the layouts of PTX's mma.m16n8k16 and ldmatrix. Sums are taken in f64 and rounded to f32 once;
 * tensor cores add in an order of their own and may round more often.
 */
#include <math.h>
#include <string.h>

#include "multiprocessor.h"
#include "sanitizers.h"

namespace engine
{

enum { rows = 16, inner = 16, columns = 8 };

static double value_of_bf16(uint32_t bits)
{
    uint32_t wide = bits << 16;
    float f;

    __builtin_memcpy(&f, &wide, sizeof f);
    return f;
}

static double value_of_f16(uint32_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction ? NAN : INFINITY)
                                    : ldexp(1024 + fraction, exponent - 25);

    return bits & 0x8000 ? -value : value;
}

/* Lane 4 g + t holds rows g and g + 8 of a and d, columns 2 t and 2 t + 1 (and 8 further in a), and
 * column g of b. */
template <double value_of(uint32_t)> static void finish_product(const lanes &all)
{
    double a[rows][inner], b[inner][columns];

    for (int i = 0; i < warp_size; i++) {
        const matrix_product &m = *static_cast<matrix_product *>(all.of[i]);
        int g = i >> 2, t = (i & 3) * 2;

        for (int k = 0; k < 4; k++)
            for (int half = 0; half < 2; half++)
                a[g + (k & 1) * 8][t + half + (k >> 1) * 8] =
                    value_of(m.a[k] >> 16 * half & 0xffff);
        for (int k = 0; k < 2; k++)
            for (int half = 0; half < 2; half++)
                b[t + half + k * 8][g] = value_of(m.b[k] >> 16 * half & 0xffff);
    }
    for (int i = 0; i < warp_size; i++) {
        matrix_product &m = *static_cast<matrix_product *>(all.of[i]);

        for (int k = 0; k < 4; k++) {
            int row = (i >> 2) + (k >> 1) * 8, column = (i & 3) * 2 + (k & 1);
            double sum = m.d[k];

            for (int j = 0; j < inner; j++) sum += a[row][j] * b[j][column];
            m.d[k] = static_cast<float>(sum);
        }
    }
}

static void meet_whole_warp(meeting &m)
{
    const multiprocessor &on = this_multiprocessor();

    if (on.thread_count - on.running->warp * warp_size < warp_size)
        fail("%s in a warp of fewer than 32 lanes", m.name);
    m.mask = ~0u;
    meet_lanes(m);
}

void multiply_bf16(matrix_product &m)
{
    m.finish = finish_product<value_of_bf16>;
    meet_whole_warp(m);
}

void multiply_f16(matrix_product &m)
{
    m.finish = finish_product<value_of_f16>;
    meet_whole_warp(m);
}

/* Matrix k has its rows at the addresses of lanes 8 k to 8 k + 7; lane i gets two elements of row
 * i / 4 (transposed: of column i / 4). */
static void finish_load(const lanes &all)
{
    for (int i = 0; i < warp_size; i++) {
        matrix_load &m = *static_cast<matrix_load *>(all.of[i]);

        for (int k = 0; k < 4; k++) {
            uint32_t both = 0;

            for (int half = 0; half < 2; half++) {
                int row = m.transposed ? (i & 3) * 2 + half : i >> 2;
                int column = m.transposed ? i >> 2 : (i & 3) * 2 + half;
                const void *from = static_cast<matrix_load *>(all.of[8 * k + row])->row;

                both |= static_cast<uint32_t>(static_cast<const uint16_t *>(from)[column])
                        << 16 * half;
            }
            m.result[k] = both;
        }
    }
}

void meet(matrix_load &m)
{
    shared_at(shared_address(m.row), 16);
    if (reinterpret_cast<uintptr_t>(m.row) & 15)
        fail("%s: a row at an address that 16 does not divide", m.name);
    tsan_read(m.row, 16);
    m.finish = finish_load;
    meet_whole_warp(m);
}

} // namespace engine
