/*
 * einsum.c: sums of products named by letters, as a product of elements, a linear or a matmul.
 *
 * Dims are turned in place by views and stay dims of their own, so that whichever of them is
 * sharded may stay so. Only where there is a batch beside several dims of a kind those are joined.
 */
#include "ops/products/einsum.h"

#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/products/integer_products.h"
#include "tensor/scope.h"

/* An operand and its letters. */
struct term {
    weft_tensor *t;
    wf_letters letters;
};

static int64_t size_of_letter(const struct term *x, char letter)
{
    const char *at = strchr(x->letters, letter);

    return at ? x->t->layout->desc.global[at - x->letters] : 1;
}

/* Sum over the dims of some letters. */
static void sum_out(struct term *x, const char *letters)
{
    int dims[WEFT_MAX_DIMS], n = 0, left = 0;

    if (!x->t || !*letters) return;
    for (int d = 0; x->letters[d]; d++)
        if (strchr(letters, x->letters[d])) dims[n++] = d;
    x->t = weft_sum(x->t, dims, n, false);
    for (int d = 0; x->letters[d]; d++)
        if (!strchr(letters, x->letters[d])) x->letters[left++] = x->letters[d];
    x->letters[left] = '\0';
}

/* The dims in the order of `letters`, which are all of its own. */
static weft_tensor *in_order(const struct term *x, const char *letters)
{
    int order[WEFT_MAX_DIMS], n = 0;
    bool same = true;

    if (!x->t) return NULL;
    for (; letters[n]; n++) {
        order[n] = (int)(strchr(x->letters, letters[n]) - x->letters);
        same &= order[n] == n;
    }
    return same ? x->t : weft_permute(x->t, order);
}

/* Letters of up to three groups behind one another. */
static void join(char *joined, const char *a, const char *b, const char *c)
{
    char *at = joined;

    for (const char *from = a; *from;) *at++ = *from++;
    for (const char *from = b; *from;) *at++ = *from++;
    for (const char *from = c; *from;) *at++ = *from++;
    *at = '\0';
}

/* A dim for each letter of the result, of size 1 where the operand has it not. */
static weft_tensor *aligned(const struct term *x, const char *out)
{
    int64_t shape[WEFT_MAX_DIMS];
    wf_letters own = "";
    int n = 0, ndim = (int)strlen(out);

    for (int d = 0; d < ndim; d++) {
        shape[d] = size_of_letter(x, out[d]);
        if (strchr(x->letters, out[d])) own[n++] = out[d];
    }
    own[n] = '\0';
    return wf_reshape_to(in_order(x, own), shape, ndim, NULL);
}

/* Two operands that have no letter of their own, and no batch: the second is a matrix of one row.
 */
static weft_tensor *all_contracted(weft_tensor *a, weft_tensor *b, int k)
{
    int64_t shape[WEFT_MAX_DIMS + 1] = {1};

    WF_NEED_PTR(k < WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "einsum: %d contracted dims are too many", k);
    memcpy(shape + 1, b->layout->desc.global, (size_t)k * sizeof *shape);
    return wf_reshape_to(weft_linear(a, wf_reshape_to(b, shape, k + 1, NULL), NULL, k), NULL, 0,
                         NULL);
}

/* left x right^T over any number of contracted dims: without a batch no dims have to be joined.
 * `order`: the result's letters */
static weft_tensor *by_linear(const struct term *in, const struct wf_einsum_dims *dims, char *order)
{
    int k = (int)strlen(dims->contracting), x = *dims->right ? 0 : 1;
    const char *rows = x ? dims->right : dims->left, *columns = x ? dims->left : dims->right;
    weft_tensor *left, *right;
    wf_letters letters;

    join(letters, rows, dims->contracting, "");
    left = in_order(&in[x], letters);
    join(letters, columns, dims->contracting, "");
    right = in_order(&in[1 - x], letters);
    join(order, rows, columns, "");
    if (!left || !right) return NULL;
    return *columns ? weft_linear(left, right, NULL, k) : all_contracted(left, right, k);
}

static int64_t size_of_letters(const struct term *x, const char *letters)
{
    int64_t size = 1;

    for (; *letters; letters++) size *= size_of_letter(x, *letters);
    return size;
}

/* [batch..., rows, columns]: two groups of letters, each joined to one dim. */
static weft_tensor *as_matrices(const struct term *x, const char *batch, const char *rows,
                                const char *columns)
{
    int n = (int)strlen(batch);
    int64_t shape[WEFT_MAX_DIMS];
    wf_letters letters;

    WF_NEED_PTR(n + 2 <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "einsum: a batch of %d dims is too much",
                n);
    join(letters, batch, rows, columns);
    for (int d = 0; d < n; d++) shape[d] = size_of_letter(x, batch[d]);
    shape[n] = size_of_letters(x, rows);
    shape[n + 1] = size_of_letters(x, columns);
    return wf_reshape_to(in_order(x, letters), shape, n + 2, NULL);
}

static weft_tensor *by_matmul(const struct term *in, const struct wf_einsum_dims *dims, char *order)
{
    weft_tensor *a = as_matrices(&in[0], dims->batch, dims->left, dims->contracting);
    weft_tensor *b = as_matrices(&in[1], dims->batch, dims->contracting, dims->right);
    int64_t shape[WEFT_MAX_DIMS];
    int n = 0;

    if (!a || !b) return NULL;
    join(order, dims->batch, dims->left, dims->right);
    for (; order[n]; n++)
        shape[n] = size_of_letter(&in[strchr(in[0].letters, order[n]) ? 0 : 1], order[n]);
    return wf_reshape_to(weft_matmul_t(a, b, false, false), shape, n, NULL);
}

/* Dims of one element that the other operand repeats are left out; other sizes must agree. */
static weft_status match_sizes(struct term *in, const char *equation)
{
    wf_letters single[WF_EINSUM_OPERANDS] = {"", ""};
    int n[WF_EINSUM_OPERANDS] = {0};

    for (const char *c = in[0].letters; *c; c++) {
        int64_t a = size_of_letter(&in[0], *c), b = size_of_letter(&in[1], *c);

        if (!strchr(in[1].letters, *c) || a == b) continue;
        WF_NEED(a == 1 || b == 1, WEFT_ERR_SHAPE, "einsum: \"%s\": '%c' is %lld and %lld", equation,
                *c, (long long)a, (long long)b);
        single[a == 1 ? 0 : 1][n[a == 1 ? 0 : 1]++] = *c;
    }
    for (int i = 0; i < WF_EINSUM_OPERANDS; i++) {
        single[i][n[i]] = '\0';
        sum_out(&in[i], single[i]);
    }
    return WEFT_OK;
}

static weft_tensor *contract_two(struct wf_einsum *e, struct term *in, const char *equation)
{
    struct wf_einsum_dims dims;
    struct term result;
    bool joined;

    WF_TRY_PTR(match_sizes(in, equation));
    for (int i = 0; i < 2; i++) memcpy(e->in[i], in[i].letters, sizeof e->in[i]);
    wf_einsum_classify(&dims, e);
    for (int i = 0; i < 2; i++) sum_out(&in[i], dims.summed[i]);
    if (!in[0].t || !in[1].t) return NULL;
    if (!*dims.contracting) return weft_mul(aligned(&in[0], e->out), aligned(&in[1], e->out));
    joined = *dims.batch || wf_is_integer_product(weft_tensor_dtype(in[0].t));
    result.t = (joined ? by_matmul : by_linear)(in, &dims, result.letters);
    return in_order(&result, e->out);
}

static weft_tensor *contract_one(const struct wf_einsum *e, struct term *in)
{
    struct wf_einsum_dims dims;

    wf_einsum_classify(&dims, e);
    sum_out(in, dims.summed[0]);
    return in_order(in, e->out);
}

weft_tensor *weft_einsum(const char *equation, weft_tensor *const *in, int n)
{
    struct term terms[WF_EINSUM_OPERANDS];
    int ndims[WF_EINSUM_OPERANDS];
    struct wf_einsum e;
    weft_scope *scope;

    WF_NEED_PTR(equation && in, WEFT_ERR_ARG, "einsum: no equation, or no operands");
    WF_NEED_PTR(n >= 1 && n <= WF_EINSUM_OPERANDS, WEFT_ERR_ARG,
                "einsum: of one operand or two, not of %d", n);
    for (int i = 0; i < n; i++) {
        if (!in[i]) return NULL;
        WF_TRY_PTR(wf_tensor_need_alive(in[i], "einsum"));
        ndims[i] = weft_ndim(in[i]);
        terms[i].t = in[i];
    }
    WF_TRY_PTR(wf_einsum_parse(&e, equation, ndims, n));
    for (int i = 0; i < n; i++) memcpy(terms[i].letters, e.in[i], sizeof e.in[i]);
    scope = weft_scope_open();
    return weft_scope_return(scope,
                             n == 1 ? contract_one(&e, terms) : contract_two(&e, terms, equation));
}

/* Letter number d of the first operand; of the second one its own, or that of the dim it is
 * contracted with. */
static char letter_of(int d) { return (char)(d < 26 ? 'a' + d : 'A' + d - 26); }

weft_tensor *weft_tensordot(weft_tensor *a, weft_tensor *b, const int *a_dims, const int *b_dims,
                            int n)
{
    char equation[8 * WEFT_MAX_DIMS + 8], *at = equation, out[2 * WEFT_MAX_DIMS + 1], *to = out;
    char second[WEFT_MAX_DIMS] = {0};
    bool contracted[WEFT_MAX_DIMS] = {0};

    if (!a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(a, "tensordot"));
    WF_TRY_PTR(wf_tensor_need_alive(b, "tensordot"));
    WF_NEED_PTR(n >= 0 && n <= WEFT_MAX_DIMS && ((a_dims && b_dims) || n == 0), WEFT_ERR_ARG,
                "tensordot: %d dims, but no lists of them", n);
    for (int i = 0; i < n; i++) {
        int d = wf_normalize_dim(a_dims[i], weft_ndim(a), "tensordot");
        int f = d < 0 ? d : wf_normalize_dim(b_dims[i], weft_ndim(b), "tensordot");

        if (f < 0) return NULL;
        WF_NEED_PTR(!contracted[d] && !second[f], WEFT_ERR_ARG, "tensordot: a dim is named twice");
        contracted[d] = true;
        second[f] = letter_of(d);
    }
    for (int d = 0; d < weft_ndim(a); d++) {
        *at++ = letter_of(d);
        if (!contracted[d]) *to++ = letter_of(d);
    }
    *at++ = ',';
    for (int d = 0; d < weft_ndim(b); d++) {
        *at++ = second[d] ? second[d] : letter_of(WEFT_MAX_DIMS + d);
        if (!second[d]) *to++ = letter_of(WEFT_MAX_DIMS + d);
    }
    *to = '\0';
    WF_NEED_PTR(to - out <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE,
                "tensordot: the result would have %d dims", (int)(to - out));
    memcpy(at, "->", 2);
    memcpy(at + 2, out, sizeof out);
    return weft_einsum(equation, (weft_tensor *[]){a, b}, 2);
}
