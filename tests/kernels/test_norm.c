/* test_norm.c: layer_norm and rms_norm against plain loops, and their gradients likewise. */
#include "cases.h"

static const struct sizes norm_shapes[] = {
    {1, {1}},       {1, {33}},       {2, {8, 8}},        {2, {0, 5}},     {2, {70, 33}},
    {2, {3, 768}},  {3, {2, 40, 7}}, {4, {2, 3, 2, 65}}, {3, {2, 0, 7}},  {2, {3, 1}},
    {2, {3, 8200}}, {2, {600, 8}},   {2, {2, 7000}},     {2, {2, 12288}}, {2, {3, 64}},
    {2, {3, 128}},  {2, {3, 132}},   {2, {3, 255}},      {2, {3, 256}},   {2, {3, 264}},
};
enum { NORM_SHAPES = sizeof norm_shapes / sizeof *norm_shapes };

static const double eps = 1e-3;

/* One call of any of the four kernels, its inputs, and what plain loops make of them. */
struct norm_case {
    bool layer;
    weft_dtype dtype, real;
    const struct sizes *s;
    int64_t rows, n;
    struct operand x, d, w, b, mean, rstd;
    double *y, *dx, *dw, *db;
};

static void plain_row(struct norm_case *c, int64_t r)
{
    const double *x = c->x.values + r * c->n, *d = c->d.values + r * c->n;
    double mean = 0, square = 0, e = 0, eh = 0, rstd;

    for (int64_t j = 0; j < c->n && c->layer; j++) mean += x[j] / (double)c->n;
    for (int64_t j = 0; j < c->n; j++) square += (x[j] - mean) * (x[j] - mean);
    rstd = 1 / sqrt(square / (double)c->n + eps);
    c->mean.values[r] = mean;
    c->rstd.values[r] = rstd;
    for (int64_t j = 0; j < c->n; j++) {
        double h = (x[j] - mean) * rstd, dw = d[j] * c->w.values[j];

        c->y[r * c->n + j] = h * c->w.values[j] + c->b.values[j];
        e += c->layer ? dw / (double)c->n : 0;
        eh += dw * h / (double)c->n;
        c->dw[j] += d[j] * h;
        c->db[j] += d[j];
    }
    for (int64_t j = 0; j < c->n; j++)
        c->dx[r * c->n + j] = rstd * (d[j] * c->w.values[j] - e - (x[j] - mean) * rstd * eh);
}

/* Without weight and bias these are ones and zeros. */
static struct norm_case case_new(bool layer, weft_dtype dtype, enum lie lie, const struct sizes *s,
                                 bool affine)
{
    struct norm_case c = {
        .layer = layer, .dtype = dtype, .s = s, .rows = 1, .n = s->n[s->ndim - 1]};

    c.real = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    for (int i = 0; i < s->ndim - 1; i++) c.rows *= s->n[i];
    c.x = operand_noise(dtype, lie, s->ndim, s->n, 1);
    c.d = operand_noise(dtype, lie == PLAIN ? PLAIN : nth_lie((int)lie + 1), s->ndim, s->n, 2);
    c.w = operand_noise(dtype, lie, 1, &c.n, 3);
    c.b = operand_noise(dtype, lie, 1, &c.n, 4);
    c.mean = operand_new(c.real, PLAIN, s->ndim - 1, s->n);
    c.rstd = operand_new(c.real, PLAIN, s->ndim - 1, s->n);
    for (int64_t i = 0; i < c.x.desc.numel; i++) c.x.values[i] += 2;
    operand_write(&c.x);
    for (int64_t j = 0; j < c.n; j++) {
        if (!affine) c.w.values[j] = 1;
        if (!affine || !layer) c.b.values[j] = 0;
    }
    c.y = calloc((size_t)c.x.desc.numel + 1, sizeof *c.y);
    c.dx = calloc((size_t)c.x.desc.numel + 1, sizeof *c.dx);
    c.dw = calloc((size_t)c.n + 1, sizeof *c.dw);
    c.db = calloc((size_t)c.n + 1, sizeof *c.db);
    for (int64_t r = 0; r < c.rows; r++) plain_row(&c, r);
    return c;
}

static void case_free(struct norm_case *c)
{
    struct operand *all[] = {&c->x, &c->d, &c->w, &c->b, &c->mean, &c->rstd};

    for (int i = 0; i < 6; i++) operand_free(all[i]);
    free(c->y);
    free(c->dx);
    free(c->dw);
    free(c->db);
}

static double bound(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 1e-12 : dtype == WEFT_F32 ? 1e-5 : 2e-2;
}

static void check_forward(bool layer, weft_dtype dtype, enum lie lie, const struct sizes *s,
                          bool affine)
{
    struct norm_case c = case_new(layer, dtype, lie, s, affine);
    struct operand y = operand_new(dtype, PLAIN, s->ndim, s->n);
    struct operand mean = operand_new(c.real, PLAIN, s->ndim - 1, s->n);
    struct operand rstd = operand_new(c.real, PLAIN, s->ndim - 1, s->n);
    struct operand *in[] = {&c.x, affine ? &c.w : NULL, affine ? &c.b : NULL};
    struct operand *out[] = {&y, layer ? &mean : &rstd, &rstd};
    struct wf_kernel_call k = {.op = "norm", .n_in = layer ? 3 : 2, .n_out = layer ? 3 : 2};
    struct wf_scalars scalars = {.s = {eps}};

    kernel_run(layer ? wf_cpu_layer_norm : wf_cpu_rms_norm, &k, out, in, &scalars);
    expect_near("norm", &y, c.y, bound(dtype));
    expect_near("rstd", &rstd, c.rstd.values, bound(c.real));
    if (layer) expect_near("mean", &mean, c.mean.values, bound(c.real));
    expect_guards(&y);
    expect_guards(&rstd);
    OPERANDS_FREE(&y, &mean, &rstd);
    case_free(&c);
}

/* `wanted`: 0 no gradient of parameters, 1 of the weight, 2 of all. */
static void check_grad(bool layer, weft_dtype dtype, enum lie lie, const struct sizes *s,
                       int wanted)
{
    struct norm_case c = case_new(layer, dtype, lie, s, wanted > 0);
    struct operand dx = operand_new(dtype, PLAIN, s->ndim, s->n);
    struct operand dw = operand_new(dtype, PLAIN, 1, &c.n), db = operand_new(dtype, PLAIN, 1, &c.n);
    struct operand *w = wanted > 0 ? &c.w : NULL;
    struct operand *layer_in[] = {&c.d, &c.x, w, &c.mean, &c.rstd},
                   *rms_in[] = {&c.d, &c.x, w, &c.rstd};
    struct operand *out[] = {&dx, wanted > 0 ? &dw : NULL, wanted > 1 ? &db : NULL};
    struct wf_kernel_call k = {.op = "norm_grad", .n_in = layer ? 5 : 4, .n_out = layer ? 3 : 2};
    double loose = wf_dtype_is_16_bit_float(dtype) ? 4 : 1 + (double)c.rows / 10;

    operand_write(&c.mean);
    operand_write(&c.rstd);
    kernel_run(layer ? wf_cpu_layer_norm_grad : wf_cpu_rms_norm_grad, &k, out,
               layer ? layer_in : rms_in, NULL);
    expect_near("dx", &dx, c.dx, 2 * bound(dtype));
    if (wanted > 0) expect_near("dweight", &dw, c.dw, loose * bound(dtype));
    if (wanted > 1 && layer) expect_near("dbias", &db, c.db, loose * bound(dtype));
    expect_guards(&dx);
    OPERANDS_FREE(&dx, &dw, &db);
    case_free(&c);
}

WT_UNIT(norms__equal_plain_loops)
{
    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < NORM_SHAPES * 8; i++)
            check_forward(i % 2, float_dtypes[t], i & 4 ? nth_lie(i / 8 + t) : PLAIN,
                          &norm_shapes[i / 8], i / 2 % 2);
}

WT_UNIT(norm_grads__equal_plain_loops)
{
    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < NORM_SHAPES * 12; i++)
            check_grad(i % 2, float_dtypes[t], i % 12 < 6 ? nth_lie(i / 12 + t) : PLAIN,
                       &norm_shapes[i / 12], i / 2 % 3);
}

/* More rows than a launch has groups of threads: each has several, or more than a warp. That is of
 * the registers of a warp, where ThreadSanitizer has nothing to look at but takes minutes. */
#ifdef __SANITIZE_THREAD__
enum { MOST_ROWS = 3000 };
#else
enum { MOST_ROWS = 66000 };
#endif

WT_UNIT(norms__of_many_rows)
{
    static const struct sizes many = {2, {5000, 8}}, wide = {2, {1050, 520}},
                              most = {2, {MOST_ROWS, 4}};

    EACH_ISA
    {
        check_forward(true, WEFT_F32, PLAIN, &many, true);
        check_forward(true, WEFT_F32, PLAIN, &most, true);
        check_grad(true, WEFT_BF16, PLAIN, &wide, 2);
        check_grad(false, WEFT_F32, PLAIN, &most, 1);
    }
}

WT_UNIT(layer_norm__large_mean_keeps_small_spread)
{
    static const int64_t shape[] = {2, 512};
    struct wf_scalars scalars = {.s = {0}};

    EACH_ISA
    {
        struct operand x = operand_new(WEFT_F32, PLAIN, 2, shape), *in[] = {&x, NULL, NULL};
        struct operand y = operand_new(WEFT_F32, PLAIN, 2, shape), *out[] = {&y, NULL, NULL};
        struct wf_kernel_call k = {.op = "layer_norm", .n_in = 3, .n_out = 3};

        for (int i = 0; i < 1024; i++) x.values[i] = 1000 + (i % 2 ? 0.25 : -0.25);
        operand_write(&x);
        kernel_run(wf_cpu_layer_norm, &k, out, in, &scalars);
        for (int i = 0; i < 1024; i++) ck_assert(fabs(y.values[i] - (i % 2 ? 1 : -1)) < 1e-5);
        OPERANDS_FREE(&x, &y);
    }
}

int main(void) { return wt_unit_main("norm"); }
