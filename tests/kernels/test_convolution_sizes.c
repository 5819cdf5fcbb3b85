/* test_convolution_sizes.c: convolutions with sizes of 1, and with windows of which none lies
 * within the image; oneDNN has layouts and kernels of its own for both. */
#include "plain_convolution.h"

/* Sizes that a convolution has 1 of, a bit each. The other sizes are 2 images, 2 groups, 16
 * channels (a block of oneDNN's), places of 3 and 4, kernels of 3. */
enum size_of_1 { IMAGES, GROUPS, IN, OUT, FIRST_PLACES, LAST_PLACES, KERNEL, SIZES_OF_1 };

static struct conv_case case_with_ones(int dims, bool grouped, unsigned ones)
{
    const int64_t kernel = ones >> KERNEL & 1 ? 1 : 3;
    struct conv_case c = {.dims = dims,
                          .grouped = grouped,
                          .bias = true,
                          .n = ones >> IMAGES & 1 ? 1 : 2,
                          .groups = grouped && !(ones >> GROUPS & 1) ? 2 : 1,
                          .in = ones >> IN & 1 ? 1 : 16,
                          .out = ones >> OUT & 1 ? 1 : 16};

    for (int d = 0; d < MOST_PLACES; d++) {
        bool one =
            (d == 0 && ones >> FIRST_PLACES & 1) || (d == dims - 1 && ones >> LAST_PLACES & 1);

        c.size[d] = d >= dims || one ? 1 : d == 0 ? 4 : 3;
        c.kernel[d] = d < dims ? kernel : 1;
        c.attrs.stride[d] = c.attrs.dilation[d] = 1;
        c.attrs.before[d] = c.attrs.after[d] = (int32_t)(d < dims ? kernel / 2 : 0);
    }
    return c;
}

/* _i: whether there are groups, and the sizes of 1. */
WT_UNIT_TIMES(conv__sizes_of_1_equal_loops, 2 << SIZES_OF_1)
{
    const bool grouped = _i & 1;
    const unsigned ones = (unsigned)_i >> 1;

    if (!grouped && !(ones >> GROUPS & 1)) return;
    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int dims = 1; dims <= MOST_PLACES; dims++) {
            struct conv_case c = case_with_ones(dims, grouped, ones);

            check_conv(&c, float_dtypes[t], (enum lie)((_i + dims) % LIES));
        }
}

/* Along one dim: size, kernel, stride, dilation, padding before and after. */
struct along {
    int64_t size, kernel;
    int32_t stride, dilation, before, after;
};

/* oneDNN 2.6, 3.7 or 3.12 gives wrong results for each, or ends the process. */
static const struct {
    int64_t n, groups, in, out;
    struct along along[MOST_PLACES]; /* size 0: there is no such dim */
} degenerate_cases[] = {
    /* only padding is read */
    {2, 2, 32, 17, {{1, 1, 3, 2, 2, 1}}},
    {1, 1, 17, 32, {{1, 1, 2, 2, 3, 2}}},
    {1, 2, 2, 2, {{4, 4, 1, 1, 1, 1}, {1, 1, 2, 2, 1, 1}}},
    {3, 1, 16, 16, {{5, 3, 1, 1, 0, 1}, {5, 2, 1, 1, 1, 1}, {1, 2, 2, 2, 3, 3}}},
    /* one window with a stride */
    {3, 1, 1, 16, {{3, 2, 2, 1, 0, 1}, {1, 4, 1, 1, 3, 3}, {4, 3, 3, 1, 0, 0}}},
    {3, 1, 1, 17, {{7, 5, 1, 1, 1, 2}, {1, 4, 2, 1, 2, 1}}},
    {1, 1, 1, 8, {{4, 3, 1, 1, 1, 1}, {5, 5, 3, 1, 1, 0}}},
    {2, 16, 1, 2, {{3, 2, 1, 1, 1, 0}, {4, 3, 2, 1, 0, 0}}},
    {2, 1, 32, 32, {{1, 3, 2, 1, 1, 1}}},
    {2, 1, 16, 16, {{4, 4, 2, 1, 1, 1}, {4, 1, 1, 1, 0, 0}, {3, 3, 1, 1, 1, 1}}},
    /* all windows reach into the padding */
    {2, 1, 1, 16, {{1, 3, 1, 1, 1, 1}, {3, 3, 1, 1, 1, 1}, {3, 3, 1, 1, 1, 1}}},
    {2, 1, 16, 16, {{2, 3, 1, 1, 1, 1}, {2, 1, 1, 1, 0, 0}, {3, 3, 1, 1, 1, 1}}},
    {2, 1, 16, 16, {{1, 2, 2, 1, 1, 0}, {2, 5, 1, 1, 2, 2}, {3, 3, 1, 1, 1, 1}}},
    {2, 16, 1, 2, {{1, 3, 1, 1, 3, 0}, {4, 3, 1, 1, 2, 1}, {4, 4, 1, 1, 2, 0}}},
    {3, 1, 16, 8, {{1, 5, 2, 1, 3, 3}}},
    {2, 1, 3, 32, {{3, 3, 2, 1, 1, 1}, {7, 5, 1, 1, 1, 0}, {5, 4, 1, 1, 0, 0}}},
};
enum { DEGENERATE_CASES = sizeof degenerate_cases / sizeof *degenerate_cases };

static struct conv_case degenerate_case(int i)
{
    struct conv_case c = {.bias = true,
                          .grouped = degenerate_cases[i].groups > 1,
                          .n = degenerate_cases[i].n,
                          .groups = degenerate_cases[i].groups,
                          .in = degenerate_cases[i].in,
                          .out = degenerate_cases[i].out};

    for (int d = 0; d < MOST_PLACES; d++) {
        struct along a = degenerate_cases[i].along[d];

        if (a.size == 0) a = (struct along){1, 1, 1, 1, 0, 0};
        c.dims += degenerate_cases[i].along[d].size > 0;
        c.size[d] = a.size;
        c.kernel[d] = a.kernel;
        c.attrs.stride[d] = a.stride;
        c.attrs.dilation[d] = a.dilation;
        c.attrs.before[d] = a.before;
        c.attrs.after[d] = a.after;
    }
    return c;
}

WT_UNIT_TIMES(conv__degenerate_windows_equal_loops, DEGENERATE_CASES)
{
    const struct conv_case c = degenerate_case(_i);

    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int lie = 0; lie < LIES; lie++) check_conv(&c, float_dtypes[t], (enum lie)lie);
}

int main(void) { return wt_unit_main("convolution_sizes"); }
