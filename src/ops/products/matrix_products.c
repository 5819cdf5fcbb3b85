/* matrix_products.c: products by torch's names, of matrices, batches of them and vectors, as views
 * and calls of matmul and linear: a vector is never copied to be a matrix. */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/op_functions.h"
#include "ops/products/integer_products.h"
#include "tensor/scope.h"

static weft_status check_ndims(const char *name, const weft_tensor *a, int a_dims,
                               const weft_tensor *b, int b_dims)
{
    char text[2][200];

    WF_TRY(wf_tensor_need_alive(a, name));
    WF_TRY(wf_tensor_need_alive(b, name));
    if (weft_ndim(a) == a_dims && weft_ndim(b) == b_dims) return WEFT_OK;
    weft_tensor_format(a, text[0], sizeof text[0]);
    weft_tensor_format(b, text[1], sizeof text[1]);
    return WF_FAIL(WEFT_ERR_SHAPE, "%s: needs tensors of %d and %d dims: %s, %s", name, a_dims,
                   b_dims, text[0], text[1]);
}

/* t without dim d, whose size is 1. */
static weft_tensor *drop_dim(weft_tensor *t, int d)
{
    int64_t shape[WEFT_MAX_DIMS];
    int n = 0;

    if (!t) return NULL;
    for (int i = 0; i < weft_ndim(t); i++)
        if (i != d) shape[n++] = t->layout->desc.global[i];
    return wf_reshape_to(t, shape, n, NULL);
}

/* The vector as a matrix of one row, or of one column. */
static weft_tensor *as_row(weft_tensor *v)
{
    return wf_reshape_to(v, (int64_t[]){1, weft_size(v, 0)}, 2, NULL);
}

static weft_tensor *as_column(weft_tensor *v)
{
    return wf_reshape_to(v, (int64_t[]){weft_size(v, 0), 1}, 2, NULL);
}

static bool is_integer(const weft_tensor *t) { return wf_is_integer_product(weft_tensor_dtype(t)); }

/* x times w [k,n], as it lies. */
static weft_tensor *times_matrix(weft_tensor *x, weft_tensor *w, weft_tensor *bias)
{
    return weft_linear_with(x, w, bias, (weft_linear_options){.transposed = true});
}

static weft_tensor *row_times(weft_tensor *row, weft_tensor *b)
{
    weft_tensor *product;

    if (weft_ndim(b) == 2 && !is_integer(b)) return times_matrix(row, b, NULL);
    product = weft_matmul_t(as_row(row), b, false, false);
    return product ? drop_dim(product, weft_ndim(product) - 2) : NULL;
}

static weft_tensor *times_column(weft_tensor *a, weft_tensor *column)
{
    if (is_integer(a))
        return drop_dim(weft_matmul_t(a, as_column(column), false, false), weft_ndim(a) - 1);
    if (weft_ndim(a) == 2) return weft_linear(column, a, NULL, 1);
    return drop_dim(weft_linear(a, as_row(column), NULL, 1), weft_ndim(a) - 1);
}

/* One of them is a vector, or both are. */
static weft_tensor *matmul_of_vectors(weft_tensor *a, weft_tensor *b)
{
    WF_NEED_PTR(weft_ndim(a) > 0 && weft_ndim(b) > 0, WEFT_ERR_SHAPE,
                "matmul: both need a dim or more, not %d and %d", weft_ndim(a), weft_ndim(b));
    if (weft_ndim(a) > 1) return times_column(a, b);
    return weft_ndim(b) > 1 ? row_times(a, b) : weft_dot(a, b);
}

weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b)
{
    if (!a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(a, "matmul"));
    WF_TRY_PTR(wf_tensor_need_alive(b, "matmul"));
    if (a->layout->desc.ndim < 2 || b->layout->desc.ndim < 2) return matmul_of_vectors(a, b);
    return weft_matmul_t(a, b, false, false);
}

weft_tensor *weft_mm(weft_tensor *a, weft_tensor *b)
{
    if (!a || !b) return NULL;
    WF_TRY_PTR(check_ndims("mm", a, 2, b, 2));
    return weft_matmul_t(a, b, false, false);
}

weft_tensor *weft_bmm(weft_tensor *a, weft_tensor *b)
{
    if (!a || !b) return NULL;
    WF_TRY_PTR(check_ndims("bmm", a, 3, b, 3));
    WF_NEED_PTR(weft_size(a, 0) == weft_size(b, 0), WEFT_ERR_SHAPE,
                "bmm: batches of %lld and %lld matrices", (long long)weft_size(a, 0),
                (long long)weft_size(b, 0));
    return weft_matmul_t(a, b, false, false);
}

weft_tensor *weft_mv(weft_tensor *a, weft_tensor *v)
{
    if (!a || !v) return NULL;
    WF_TRY_PTR(check_ndims("mv", a, 2, v, 1));
    return times_column(a, v);
}

weft_tensor *weft_dot(weft_tensor *a, weft_tensor *b)
{
    if (!a || !b) return NULL;
    WF_TRY_PTR(check_ndims("dot", a, 1, b, 1));
    WF_NEED_PTR(weft_size(a, 0) == weft_size(b, 0), WEFT_ERR_SHAPE,
                "dot: vectors of %lld and %lld elements", (long long)weft_size(a, 0),
                (long long)weft_size(b, 0));
    return wf_reshape_to(weft_matmul_t(as_row(a), as_column(b), false, false), NULL, 0, NULL);
}

weft_tensor *weft_outer(weft_tensor *a, weft_tensor *b)
{
    if (!a || !b) return NULL;
    WF_TRY_PTR(check_ndims("outer", a, 1, b, 1));
    return weft_mul(as_column(a), b);
}

/* ---- beta t + alpha product ---- */

static weft_tensor *scaled(weft_tensor *t, double by)
{
    return by == 1 ? t : weft_mul_scalar(t, by);
}

/* An addend may repeat, the product may not: it has the result's shape. */
static weft_status check_addend(const char *name, const weft_tensor *t, const int64_t *shape,
                                int ndim)
{
    char text[200];

    if (wf_repeats_to(&t->layout->desc, shape, ndim)) return WEFT_OK;
    weft_tensor_format(t, text, sizeof text);
    return WF_FAIL(WEFT_ERR_SHAPE, "%s: %s does not repeat to the product's %d dims", name, text,
                   ndim);
}

static weft_tensor *add_scaled_product(const char *name, weft_tensor *t, weft_tensor *product,
                                       double beta, double alpha)
{
    if (!product) return NULL;
    WF_TRY_PTR(check_addend(name, t, product->layout->desc.global, weft_ndim(product)));
    if (beta == 0) return scaled(product, alpha); /* what is not a number in t does not count */
    return weft_add(scaled(product, alpha), scaled(t, beta));
}

static weft_tensor *addmm(weft_tensor *t, weft_tensor *a, weft_tensor *b, double beta, double alpha)
{
    bool is_row = weft_ndim(t) == 1 && weft_size(t, 0) == weft_size(b, 1) && !is_integer(b);

    /* the kernel adds a row, on one rank where the product is a sum of terms */
    if (is_row && alpha == 1 && beta != 0) return times_matrix(a, b, scaled(t, beta));
    return add_scaled_product("addmm", t, weft_matmul_t(a, b, false, false), beta, alpha);
}

weft_tensor *weft_addmm(weft_tensor *t, weft_tensor *a, weft_tensor *b, double beta, double alpha)
{
    weft_scope *scope;

    if (!t || !a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, "addmm"));
    WF_TRY_PTR(check_ndims("addmm", a, 2, b, 2));
    scope = weft_scope_open();
    return weft_scope_return(scope, addmm(t, a, b, beta, alpha));
}

/* beta t + alpha product(a, b) */
static weft_tensor *add_product(const char *who,
                                weft_tensor *(*product)(weft_tensor *, weft_tensor *),
                                weft_tensor *t, weft_tensor *a, weft_tensor *b, double beta,
                                double alpha)
{
    weft_scope *scope;

    if (!t || !a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, who));
    scope = weft_scope_open();
    return weft_scope_return(scope, add_scaled_product(who, t, product(a, b), beta, alpha));
}

weft_tensor *weft_baddbmm(weft_tensor *t, weft_tensor *a, weft_tensor *b, double beta, double alpha)
{
    return add_product("baddbmm", weft_bmm, t, a, b, beta, alpha);
}

weft_tensor *weft_addmv(weft_tensor *t, weft_tensor *a, weft_tensor *v, double beta, double alpha)
{
    return add_product("addmv", weft_mv, t, a, v, beta, alpha);
}

weft_tensor *weft_addr(weft_tensor *t, weft_tensor *a, weft_tensor *b, double beta, double alpha)
{
    return add_product("addr", weft_outer, t, a, b, beta, alpha);
}

/* ---- the product of all elements with all elements ---- */

/* Every dim of t followed by, or behind, one of size 1. */
static weft_tensor *between_ones(weft_tensor *t, int ndim, int at)
{
    int64_t shape[2 * WEFT_MAX_DIMS];
    int missing = ndim - weft_ndim(t);

    for (int d = 0; d < ndim; d++) {
        shape[2 * d + at] = d < missing ? 1 : t->layout->desc.global[d - missing];
        shape[2 * d + 1 - at] = 1;
    }
    return wf_reshape_to(t, shape, 2 * ndim, NULL);
}

weft_tensor *weft_kron(weft_tensor *a, weft_tensor *b)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *product;
    weft_scope *scope;
    int ndim;

    if (!a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(a, "kron"));
    WF_TRY_PTR(wf_tensor_need_alive(b, "kron"));
    ndim = weft_ndim(a) > weft_ndim(b) ? weft_ndim(a) : weft_ndim(b);
    WF_NEED_PTR(2 * ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "kron: of at most %d dims, not %d",
                WEFT_MAX_DIMS / 2, ndim);
    scope = weft_scope_open();
    product = weft_mul(between_ones(a, ndim, 0), between_ones(b, ndim, 1));
    for (int d = 0; product && d < ndim; d++)
        shape[d] = product->layout->desc.global[2 * d] * product->layout->desc.global[2 * d + 1];
    return weft_scope_return(scope, product ? wf_reshape_to(product, shape, ndim, NULL) : NULL);
}
