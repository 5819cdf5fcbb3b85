/*
 * test_complex.c: complex numbers: views, arithmetic and its gradients against plain loops, moves
 * in every layout, and what refuses them.
 */
/* mpi: 2 4 */
#include <complex.h>
#include <stdlib.h>
#include <string.h>

#include <weft/factory.h>

#include "support/worlds.h"

static const char *const places[] = {"R", "S(0)", "S(1)"};
enum { PLACES = 3 };

/* [a,b] of c64, from [a,b,2] of f32 */
static weft_tensor *numbers(struct wt_world *w, int which, int64_t a, int64_t b, const char *placed)
{
    return weft_view_as_complex(wt_spread(w, wt_whole3(WEFT_F32, which, a, b, 2), placed));
}

static weft_tensor *leaf(weft_tensor *x) { return weft_set_requires_grad(weft_detach(x), true); }

static weft_tensor *weigh(struct wt_world *w, weft_tensor *x)
{
    weft_tensor *weights = wt_whole3(WEFT_F32, 7, weft_size(x, 0), weft_size(x, 1), 2);

    return weft_sum_all(weft_mul(weft_view_as_real(x), wt_spread(w, weights, "R")));
}

/* The whole of a c64 tensor; n: how many. The caller frees. */
static float complex *values_of(weft_tensor *x)
{
    double *parts = wt_values(weft_view_as_real(x));
    int64_t n = weft_numel(x);
    float complex *values = malloc((size_t)(n + 1) * sizeof *values);

    for (int64_t i = 0; i < n; i++) values[i] = (float)parts[2 * i] + (float)parts[2 * i + 1] * I;
    free(parts);
    return values;
}

static bool is_near(weft_tensor *x, const float complex *want)
{
    float complex *got = values_of(x);
    bool good = true;

    for (int64_t i = 0; i < weft_numel(x); i++)
        good &= cabsf(got[i] - want[i]) <= 1e-5f * (1 + cabsf(want[i]));
    free(got);
    return good;
}

/* VIEW-08 */
WT_TEST_TIMES_IN(views__there_and_back_send_nothing, w, k, 2 * PLACES * PLACES,
                 wt_world_open_two_axes())
{
    int64_t sizes[2][2] = {{24, 13}, {5, 3}};
    char placed[16];
    weft_tensor *whole = wt_whole3(WEFT_F32, 0, sizes[k % 2][0], sizes[k % 2][1], 2), *x, *y, *z;

    snprintf(placed, sizeof placed, "%s,%s", places[k / 2 % PLACES], places[k / 2 / PLACES]);
    x = wt_spread(w, whole, placed);
    wt_moved(w, WEFT_COLL_COUNT);
    y = weft_view_as_complex(x);
    z = weft_view_as_real(y);
    WT_STILL(w);
    WT_ALL(weft_tensor_dtype(y) == WEFT_C64 && weft_ndim(y) == 2);
    WT_ALL(wt_is_placed(y, placed) && wt_is_placed(z, placed));
    WT_ALL(weft_data(z) == weft_data(x));
    WT_ALL(wt_near_tensors(z, whole, WT_EXACT));
}

/* Pairs that do not lie together are copied, also where only some ranks' do not. */
WT_TEST_TIMES_IN_WORLD(views__of_what_lies_otherwise, w, k, PLACES)
{
    weft_tensor *x = wt_spread(w, wt_whole3(WEFT_F32, 0, 5, 3, 4), places[k]), *y;

    y = weft_slice(x, -1, 1, 3);
    WT_ALL(wt_near_tensors(weft_view_as_real(weft_view_as_complex(y)), y, WT_EXACT));
    y = weft_slice_step(x, -1, 0, 4, 2);
    WT_ALL(wt_near_tensors(weft_view_as_real(weft_view_as_complex(y)), y, WT_EXACT));
    y = weft_slice(weft_reshape(x, (int64_t[]){60}, 1), 0, 1, 59);
    y = weft_transpose(weft_reshape(y, (int64_t[]){2, 29}, 2), 0, 1);
    WT_ALL(wt_near_tensors(weft_view_as_real(weft_view_as_complex(y)), y, WT_EXACT));
    y = weft_transpose(numbers(w, 0, 5, 3, places[k]), 0, 1);
    WT_ALL(wt_has_shape(weft_view_as_real(y), 3, 3, 5, 2));
    WT_ALL(wt_near_tensors(weft_view_as_real(weft_contiguous(y)), weft_view_as_real(y), WT_EXACT));
}

/* Terms of sums and of averages stay so, and are reduced as complex numbers. */
WT_TEST_TIMES_IN_WORLD(views__of_terms, w, k, 2)
{
    weft_tensor *whole = wt_whole3(WEFT_F32, 0, 5, 3, 2), *y;
    weft_placement terms = weft_partial(k ? WEFT_AVG : WEFT_SUM);

    y = weft_view_as_complex(weft_from_local(whole, w->mesh, &terms, NULL));
    WT_ALL(wt_is_placed(y, k ? "P(avg)" : "P"));
    WT_STILL(w);
    y = wt_to(y, "R");
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_near_tensors(weft_view_as_real(y), weft_mul_scalar(whole, k ? 1 : wt_ranks()),
                           WT_WITHIN(1e-6)));
}

/* A last dim that is sharded comes together first. */
WT_TEST_IN_WORLD(views__need_whole_pairs, w)
{
    weft_tensor *whole = wt_whole3(WEFT_F32, 0, 5, 3, 2);
    weft_tensor *x = wt_spread(w, whole, "S(2)");

    wt_moved(w, WEFT_COLL_COUNT);
    x = weft_view_as_complex(x);
    WT_ALL(wt_moved(w, WEFT_COLL_COUNT) == (wt_ranks() > 1));
    WT_ALL(wt_near_tensors(weft_view_as_real(x), whole, WT_EXACT));
}

/* MATH-21 */
WT_TEST_TIMES_IN_WORLD(rotary__by_a_product_of_complex_numbers, w, k, 2 * PLACES)
{
    int64_t a = k < PLACES ? 6 : 5, b = k < PLACES ? 4 : 7, n = a * b;
    const char *placed = places[k % PLACES];
    weft_tensor *pairs =
        weft_set_requires_grad(wt_spread(w, wt_whole3(WEFT_F32, 0, a, b, 2), placed), true);
    weft_tensor *turn = leaf(numbers(w, 1, a, b, placed)), *x, *y, *conjugate;
    float complex *u, *v, *g, *want = malloc((size_t)n * sizeof *want);

    x = weft_view_as_complex(pairs);
    wt_moved(w, WEFT_COLL_COUNT);
    y = weft_mul(x, turn);
    conjugate = weft_conj(y);
    WT_STILL(w);
    u = values_of(x);
    v = values_of(turn);
    g = values_of(weft_view_as_complex(wt_whole3(WEFT_F32, 7, a, b, 2)));
    for (int64_t i = 0; i < n; i++) want[i] = u[i] * v[i];
    WT_ALL(is_near(y, want));
    for (int64_t i = 0; i < n; i++) want[i] = conjf(u[i] * v[i]);
    WT_ALL(is_near(conjugate, want));
    WT_ALL(weft_backward(weigh(w, conjugate)) == WEFT_OK);
    for (int64_t i = 0; i < n; i++) want[i] = conjf(g[i]) * conjf(v[i]);
    WT_ALL(is_near(weft_view_as_complex(weft_grad(pairs)), want));
    for (int64_t i = 0; i < n; i++) want[i] = conjf(g[i]) * conjf(u[i]);
    WT_ALL(weft_tensor_dtype(weft_grad(turn)) == WEFT_C64);
    WT_ALL(is_near(weft_grad(turn), want));
    free(u);
    free(v);
    free(g);
    free(want);
}

/* Sums, differences, numbers and real operands beside; one of them broadcast: its gradient is a
 * partial sum where the others are sharded. */
WT_TEST_TIMES_IN_WORLD(arithmetic__equals_plain_loops, w, k, PLACES)
{
    enum { A = 5, B = 3, N = A * B };
    weft_tensor *x = leaf(numbers(w, 0, A, B, places[k])), *row = leaf(numbers(w, 1, 1, B, "R"));
    weft_tensor *real = weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, 2, A, B), places[k]),
                                               true),
                *y;
    float complex *u = values_of(x), *v = values_of(row), *g, want[N];
    double *r = wt_values(real);

    y = weft_sub(weft_mul(weft_add(x, row), real),
                 weft_mul_scalar(weft_neg(weft_div_scalar(x, 4)), 0.5));
    for (int i = 0; i < N; i++) want[i] = (u[i] + v[i % B]) * (float)r[i] + u[i] / 8;
    WT_ALL(weft_tensor_dtype(y) == WEFT_C64 && is_near(y, want));
    g = values_of(weft_view_as_complex(wt_whole3(WEFT_F32, 7, A, B, 2)));
    WT_ALL(weft_backward(weigh(w, y)) == WEFT_OK);
    for (int i = 0; i < N; i++) want[i] = g[i] * (float)r[i] + g[i] / 8;
    WT_ALL(is_near(weft_grad(x), want));
    for (int i = 0; i < B; i++) want[i] = 0;
    for (int i = 0; i < N; i++) want[i % B] += g[i] * (float)r[i];
    WT_ALL(is_near(weft_grad(row), want));
    for (int i = 0; i < N; i++) r[i] = crealf(g[i] * conjf(u[i] + v[i % B]));
    WT_ALL(weft_tensor_dtype(weft_grad(real)) == WEFT_F32);
    WT_ALL(wt_near_full(weft_grad(real), r, WT_WITHIN(1e-5)));
    for (int i = 0; i < B; i++) want[i] = 0;
    for (int i = 0; i < N; i++) want[i % B] += u[i];
    WT_ALL(is_near(weft_sum(x, (int[]){0}, 1, false), want));
    free(u);
    free(v);
    free(g);
    free(r);
}

/* Between layouts, to plain and back, through views and copies. */
WT_TEST_TIMES_IN_WORLD(moves__keep_every_number, w, k, PLACES *PLACES)
{
    weft_tensor *x = numbers(w, 0, 7, 4, places[k % PLACES]), *y, *in[2];
    weft_tensor *whole = wt_whole3(WEFT_F32, 0, 7, 4, 2), *back;

    y = wt_to(x, places[k / PLACES]);
    WT_ALL(weft_tensor_dtype(y) == WEFT_C64 && wt_is_placed(y, places[k / PLACES]));
    WT_ALL(wt_near_tensors(weft_view_as_real(y), whole, WT_EXACT));
    WT_ALL(wt_near_tensors(weft_view_as_real(weft_clone(y)), whole, WT_EXACT));
    back = weft_from_local(weft_to_local(x, NULL), w->mesh,
                           (weft_placement[]){weft_tensor_placement(x, 0)}, (int64_t[]){7, 4});
    WT_ALL(wt_near_tensors(weft_view_as_real(back), whole, WT_EXACT));
    in[0] = weft_slice(x, 0, 0, 3);
    in[1] = weft_slice(x, 0, 3, 7);
    WT_ALL(wt_near_tensors(weft_view_as_real(weft_cat(in, 2, 0)), whole, WT_EXACT));
    WT_ALL(wt_near_tensors(weft_view_as_real(weft_reshape(y, (int64_t[]){28}, 1)),
                           weft_reshape(whole, (int64_t[]){28, 2}, 2), WT_EXACT));
    WT_ALL(
        wt_near_tensors(weft_view_as_real(weft_zeros_like(x)), weft_zeros_like(whole), WT_EXACT));
    y = weft_zeros_like(x);
    WT_ALL(weft_copy_(y, x) == WEFT_OK && wt_near_tensors(weft_view_as_real(y), whole, WT_EXACT));
    WT_ALL(weft_sub_(weft_add_(y, x), x) == y && weft_tensor_dtype(y) == WEFT_C64);
    WT_ALL(wt_near_tensors(weft_view_as_real(y), whole, WT_WITHIN(1e-6)));
}

/* Partial sums are reduced; what else is partial is not. */
WT_TEST_IN_WORLD(partial_sums__are_reduced, w)
{
    weft_tensor *term = weft_view_as_complex(wt_whole3(WEFT_F32, 0, 3, 4, 2)), *x;
    float complex *want = values_of(term);

    for (int i = 0; i < 12; i++) want[i] *= (float)wt_ranks();
    x = wt_partial(w, term, WEFT_SUM);
    WT_ALL(is_near(wt_to(x, "R"), want));
    WT_ALL(is_near(wt_to(x, "S(0)"), want));
    free(want);
    if (wt_ranks() == 1) return;
    WT_ALL(!wt_to(wt_partial(w, term, WEFT_MAX), "R") && weft_error_status() == WEFT_ERR_DTYPE);
    weft_error_clear();
}

WT_TEST_IN_WORLD(other_ops__refuse_complex_numbers_by_name, w)
{
    weft_tensor *x = numbers(w, 0, 4, 4, "S(0)");

#define REFUSED(call, name)                                                                        \
    WT_ALL(!(call) && weft_error_status() == WEFT_ERR_DTYPE &&                                     \
           strstr(weft_error_message(), name));                                                    \
    weft_error_clear()
    REFUSED(weft_exp(x), "exp: no kernel for c64");
    REFUSED(weft_div(x, x), "div: no kernel for c64");
    REFUSED(weft_lt(x, x), "lt: no kernel for c64");
    REFUSED(weft_matmul(x, x), "matmul: no kernel for c64");
    REFUSED(weft_amax(x, NULL, 0, false), "max: no kernel for c64");
    REFUSED(weft_softmax(x, -1), "softmax: no kernel for c64");
    REFUSED(weft_sort(x, 0, false, NULL), "sort: no kernel for c64");
    REFUSED(weft_mul_(x, x), "mul in place: not of c64");
    REFUSED(weft_cast(x, WEFT_F32), "cast: of c64 to f32");
    REFUSED(weft_add_scalar(x, 1), "add_scalar: no kernel for c64");
    REFUSED(weft_view_as_real(weft_view_as_real(x)), "view_as_real: needs c64");
    REFUSED(weft_view_as_complex(wt_whole(WEFT_F64, 0, 3, 2)), "view_as_complex: needs f32");
#undef REFUSED
    weft_item(weft_view_as_complex(wt_whole(WEFT_F32, 0, 1, 2)));
    WT_ALL(weft_error_status() == WEFT_ERR_DTYPE);
    weft_error_clear();
}

WT_TEST_IN_WORLD(text__shows_both_parts, w)
{
    weft_tensor *x = weft_view_as_complex(wt_whole(WEFT_F32, 0, 2, 2));
    char text[200], want[200];
    FILE *file = tmpfile();

    weft_tensor_print(x, file);
    rewind(file);
    WT_ALL(fgets(text, sizeof text, file));
    fclose(file);
    snprintf(want, sizeof want, "c64[2] [%.6g%+.6gi, %.6g%+.6gi]\n", wt_element(0, 0),
             wt_element(0, 1), wt_element(0, 2), wt_element(0, 3));
    WT_ALL(strcmp(text, want) == 0);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "complex"); }
