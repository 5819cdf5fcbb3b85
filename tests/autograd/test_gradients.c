/* test_gradients.c: every gradient against central differences, in f64, on plain tensors. */
#include <math.h>
#include <stdlib.h>

#include <weft/autograd.h>
#include <weft/ops.h>

#include "autograd/sampled.h"
#include "dtensor/convert/init.h"
#include "kernels/kernels.h"
#include "support/mpi_check.h"

static void set_up(void)
{
    wf_kernels_choose_isa();
    wf_dtensor_init();
    weft_error_clear();
}

static bool differentiable(const struct wt_op_case *sample)
{
    bool whole =
        sample->op == WF_OP_cast && !weft_dtype_is_float((weft_dtype)sample->attrs.cast.dtype);

    return wf_ops[sample->op].vjp && !whole;
}

static weft_tensor *loss_of(const struct wt_sampled *s, weft_tensor *const *in)
{
    weft_tensor *y = wt_sampled_call(s, in);

    ck_assert_msg(y != NULL, "%s: %s", wt_op_case_text(s->sample, WEFT_F64), weft_error_message());
    return weft_sum_all(weft_mul(y, wt_weights_like(y)));
}

static double loss_value(const struct wt_sampled *s)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[WF_MAX_IN] = {0};
    double value;

    for (int i = 0; i < s->n_in; i++) in[i] = wt_sampled_plain(s, i);
    value = weft_item(loss_of(s, in));
    weft_scope_close(scope);
    return value;
}

/* d loss / d operand i [e], from both sides. */
static double difference(struct wt_sampled *s, int i, int64_t e)
{
    const double h = 1e-5;
    double at = s->value[i][e], above, below;

    s->value[i][e] = at + h;
    above = loss_value(s);
    s->value[i][e] = at - h;
    below = loss_value(s);
    s->value[i][e] = at;
    return (above - below) / (2 * h);
}

static void compare(struct wt_sampled *s, int i, weft_tensor *grad)
{
    const double bound = 2e-8;

    ck_assert_msg(grad != NULL, "%s: input %d has no gradient: %s",
                  wt_op_case_text(s->sample, WEFT_F64), i, weft_error_message());
    ck_assert_int_eq(weft_numel(grad), s->operand[i].numel);
    for (int64_t e = 0; e < s->operand[i].numel; e++) {
        double got = ((double *)weft_data(grad))[e], want = difference(s, i, e);

        ck_assert_msg(fabs(got - want) <= bound * (1 + fabs(want)),
                      "%s: input %d, element %lld: %.12g, differences give %.12g",
                      wt_op_case_text(s->sample, WEFT_F64), i, (long long)e, got, want);
    }
}

/* Gradients of all inputs together, or of one alone. */
static void check_sample(const struct wt_op_case *sample, int only)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[WF_MAX_IN] = {0};
    struct wt_sampled s;

    wt_sampled_open(&s, sample);
    for (int i = 0; i < s.n_in; i++) {
        in[i] = wt_sampled_plain(&s, i);
        if (wt_sampled_has_gradient(&s, i) && (only < 0 || only == i))
            weft_set_requires_grad(in[i], true);
    }
    ck_assert_msg(weft_backward(loss_of(&s, in)) == WEFT_OK, "%s: %s",
                  wt_op_case_text(sample, WEFT_F64), weft_error_message());
    for (int i = 0; i < s.n_in; i++)
        if (weft_requires_grad(in[i])) compare(&s, i, weft_grad(in[i]));
    wt_sampled_close(&s);
    weft_scope_close(scope);
}

WT_UNIT_TIMES(gradients__equal_central_differences, wt_op_case_count)
{
    const struct wt_op_case *sample = &wt_op_cases[_i];
    struct wt_operand operand[WF_MAX_IN];
    int n;

    if (!differentiable(sample) || !(sample->dtypes >> WEFT_F64 & 1)) return;
    n = wt_operands(operand, sample, WEFT_F64);
    check_sample(sample, -1);
    for (int i = 0; n > 1 && i < n; i++)
        if (operand[i].present && operand[i].domain != 'm' && weft_dtype_is_float(operand[i].dtype))
            check_sample(sample, i);
}

/* ---- functions that are more than one row ---- */

typedef weft_tensor *composite(weft_tensor *x, weft_tensor *y);

static weft_tensor *cross_entropy(weft_tensor *x, weft_tensor *y)
{
    int64_t targets[] = {1, 0, 3, -100, 2};

    (void)y;
    return weft_cross_entropy(x, weft_from_data(WEFT_I64, (int64_t[]){5}, 1, targets), -100);
}

/* Classes first, every option, single losses weighed by y. */
static weft_tensor *cross_entropy_with(weft_tensor *x, weft_tensor *y)
{
    int64_t targets[] = {1, 0, -100, 4};
    weft_tensor *weight = weft_from_data(WEFT_F64, (int64_t[]){5}, 1, (double[]){1, 2, 0, 3, 0.5});
    weft_cross_entropy_options options = {
        .weight = weight, .smoothing = 0.2, .z_loss = 0.3, .reduction = WEFT_LOSS_NONE};
    weft_tensor *target = weft_from_data(WEFT_I64, (int64_t[]){4}, 1, targets), *losses;

    options.class_dim = -2;
    losses = weft_cross_entropy_with(x, target, options);
    return weft_sum_all(weft_mul(losses, weft_select(y, 0, 0)));
}

static weft_tensor *soft_cross_entropy(weft_tensor *x, weft_tensor *y)
{
    return weft_cross_entropy_with(x, y,
                                   (weft_cross_entropy_options){.smoothing = 0.2, .z_loss = 0.3});
}

static weft_tensor *pieces(weft_tensor *x, weft_tensor *y)
{
    weft_tensor *piece[3];

    if (weft_split(piece, x, 1, (int64_t[]){1, 2, 1}, 3) != WEFT_OK) return NULL;
    piece[2] = weft_cat((weft_tensor *[]){piece[1], piece[0], piece[1]}, 3, -1);
    return weft_sum_all(weft_mul(weft_square(piece[2]), weft_transpose(y, 0, -1)));
}

static weft_tensor *used_twice(weft_tensor *x, weft_tensor *y)
{
    weft_tensor *z = weft_mul(x, x);

    return weft_add(weft_mean_all(weft_mul(z, z)),
                    weft_sum_all(weft_mul(weft_select(z, 0, -1), weft_select(y, 1, 0))));
}

static weft_tensor *strided(weft_tensor *x, weft_tensor *y)
{
    weft_tensor *flat = weft_reshape(weft_transpose(x, 0, 1), (int64_t[]){-1}, 1);

    return weft_sum_all(
        weft_mul(weft_mul(flat, flat), weft_reshape(weft_transpose(y, 0, 1), (int64_t[]){20}, 1)));
}

static const struct {
    composite *f;
    int64_t x[2], y[2];
} composites[] = {
    {weft_mse, {5, 4}, {5, 4}},           {weft_mse, {5, 4}, {1, 4}},
    {cross_entropy, {5, 4}, {1, 1}},      {pieces, {5, 4}, {5, 5}},
    {used_twice, {5, 4}, {4, 2}},         {strided, {5, 4}, {4, 5}},
    {cross_entropy_with, {5, 4}, {1, 4}}, {soft_cross_entropy, {5, 4}, {5, 4}},
};

static void fill(double *values, int64_t n, int which)
{
    for (int64_t e = 0; e < n; e++) values[e] = 2 * wt_noise(9, (uint64_t)which, (uint64_t)e) - 1;
}

static double composite_value(int c, const double *x, const double *y)
{
    weft_scope *scope = weft_scope_open();
    double value = weft_item(composites[c].f(weft_from_data(WEFT_F64, composites[c].x, 2, x),
                                             weft_from_data(WEFT_F64, composites[c].y, 2, y)));

    weft_scope_close(scope);
    return value;
}

WT_UNIT_TIMES(gradients__of_composites_equal_central_differences,
              (int)(sizeof composites / sizeof *composites))
{
    enum { ROOM = 32 };
    const double h = 1e-5;
    double x[ROOM], y[ROOM];
    weft_scope *scope = weft_scope_open();
    weft_tensor *t;

    fill(x, ROOM, 0);
    fill(y, ROOM, 1);
    t = weft_set_requires_grad(weft_from_data(WEFT_F64, composites[_i].x, 2, x), true);
    ck_assert_msg(weft_backward(composites[_i].f(
                      t, weft_from_data(WEFT_F64, composites[_i].y, 2, y))) == WEFT_OK,
                  "%s", weft_error_message());
    for (int64_t e = 0; e < weft_numel(t); e++) {
        double at = x[e], above, want;

        x[e] = at + h;
        above = composite_value(_i, x, y);
        x[e] = at - h;
        want = (above - composite_value(_i, x, y)) / (2 * h);
        x[e] = at;
        ck_assert_double_eq_tol(((double *)weft_data(weft_grad(t)))[e], want, 1e-8);
    }
    weft_scope_close(scope);
}

/* Header of ops.h: ties share the gradient. */
WT_UNIT(gradients__are_shared_by_equal_elements)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *a = weft_set_requires_grad(weft_full(WEFT_F64, (int64_t[]){3}, 1, 2), true);
    weft_tensor *b = weft_set_requires_grad(weft_full(WEFT_F64, (int64_t[]){3}, 1, 2), true);

    ck_assert_int_eq(
        weft_backward(weft_add(weft_sum_all(weft_maximum(a, b)), weft_amax(a, NULL, 0, false))),
        WEFT_OK);
    ck_assert_double_eq_tol(((double *)weft_data(weft_grad(a)))[1], 0.5 + 1.0 / 3, 1e-15);
    ck_assert_double_eq_tol(((double *)weft_data(weft_grad(b)))[1], 0.5, 1e-15);
    weft_scope_close(scope);
}

/* a^b at a = 0 and at b = 0, where its formula has 0 times infinity; as in PyTorch. */
WT_UNIT(gradients__of_powers_of_zero)
{
    static const double base[] = {0, 0, 0, 2, 0}, power[] = {0, 1, 2, 0, 0.5};
    static const double to_base[] = {0, 1, 0, 0, INFINITY},
                        to_power[] = {0, 0, 0, 0.6931471805599453, 0};
    weft_scope *scope = weft_scope_open();
    weft_tensor *a =
        weft_set_requires_grad(weft_from_data(WEFT_F64, (int64_t[]){5}, 1, base), true);
    weft_tensor *b =
        weft_set_requires_grad(weft_from_data(WEFT_F64, (int64_t[]){5}, 1, power), true);

    ck_assert_int_eq(weft_backward(weft_sum_all(weft_pow(a, b))), WEFT_OK);
    for (int i = 0; i < 5; i++) {
        double da = ((double *)weft_data(weft_grad(a)))[i];
        double db = ((double *)weft_data(weft_grad(b)))[i];

        ck_assert_msg(da == to_base[i], "d %g^%g: %g", base[i], power[i], da);
        ck_assert_msg(fabs(db - to_power[i]) < 1e-15, "d %g^%g: %g", base[i], power[i], db);
    }
    weft_scope_close(scope);
}

/* More pieces than an op has inputs, some of them empty: element i of the whole is i, and so is its
 * gradient. */
WT_UNIT(gradients__of_many_pieces_joined)
{
    enum { MOST = 70 };
    static const int counts[] = {1, 8, 9, 17, MOST};
    weft_scope *scope = weft_scope_open();
    double number[MOST];
    weft_tensor *piece[MOST], *whole, *weights;

    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int n = counts[c], at = 0;

        for (int i = 0; i < MOST; i++) number[i] = i;
        for (int i = 0; i < n; i++) {
            int64_t size = i % 3 != 1;

            piece[i] =
                weft_set_requires_grad(weft_from_data(WEFT_F64, &size, 1, number + at), true);
            at += (int)size;
        }
        whole = weft_cat(piece, n, 0);
        weights = weft_from_data(WEFT_F64, (int64_t[]){at}, 1, number);
        ck_assert_int_eq(weft_numel(whole), at);
        ck_assert_int_eq(weft_backward(weft_sum_all(weft_mul(whole, weights))), WEFT_OK);
        for (int i = 0; i < at; i++) ck_assert(((double *)weft_data(whole))[i] == i);
        for (int i = 0; i < n; i++)
            if (weft_numel(piece[i]))
                ck_assert(*(double *)weft_data(weft_grad(piece[i])) ==
                          *(double *)weft_data(piece[i]));
    }
    weft_scope_close(scope);
}

int main(void) { return wt_unit_main_with("gradients", set_up, NULL); }
