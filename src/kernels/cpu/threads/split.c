/* split.c: see the header. */
#include "kernels/cpu/threads/split.h"

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "kernels/cpu/threads/pool.h"

/* A call of less bytes is done before another thread has woken up. */
enum { LEAST_BYTES = 512 << 10, MAX_PARTS = 64, PIECE = 64 };

/* The dim of each operand that is cut; -1: the part sees all of it. */
struct cut {
    int in[WF_MAX_IN], out[WF_MAX_OUT];
};

struct part {
    struct wf_kernel_call call;
    int64_t in_offset[WF_MAX_IN], out_offset[WF_MAX_OUT]; /* bytes */
    struct wf_tensor_desc in[WF_MAX_IN], out[WF_MAX_OUT];
};

struct split {
    struct wf_kernel_call whole;
    int n;
    struct part *part;
};

struct work {
    const struct split *split;
    void *const *out;
    const void *const *in;
    const struct wf_scalars *scalars;
};

/* ---- where a kernel may be cut ---- */

static int first_large_dim(const struct wf_tensor_desc *x)
{
    int d = 0;

    while (d < x->ndim && x->shape[d] == 1) d++;
    return d < x->ndim ? d : -1;
}

static struct cut cut_nothing(void)
{
    struct cut cut;

    for (int i = 0; i < WF_MAX_IN; i++) cut.in[i] = -1;
    for (int j = 0; j < WF_MAX_OUT; j++) cut.out[j] = -1;
    return cut;
}

/* Operands broadcast against the result. */
static struct cut cut_pointwise(const struct wf_kernel_call *k)
{
    struct cut cut = cut_nothing();
    int d = cut.out[0] = first_large_dim(k->out[0]);

    for (int i = 0; i < k->n_in && d >= 0; i++) {
        int own = k->in[i] ? d - (k->out[0]->ndim - k->in[i]->ndim) : -1;

        if (own >= 0 && k->in[i]->shape[own] != 1) cut.in[i] = own;
    }
    return cut;
}

/* Rows along a dim, all operands alike. */
static struct cut cut_beside_dim(const struct wf_kernel_call *k, int64_t dim)
{
    struct cut cut = cut_nothing();
    int d = first_large_dim(k->out[0]);

    if (d < 0 || d == dim) return cut;
    cut.out[0] = d;
    for (int i = 0; i < k->n_in; i++) cut.in[i] = d;
    return cut;
}

/* The first dim of x that is kept, where the result begins with it. Numbers beside x are left. */
static struct cut cut_reduction(const struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct cut cut = cut_nothing();
    int own = 0;

    if (k->n_in != 1) return cut;
    for (int d = 0; d < x->ndim; d++) {
        bool reduced = k->attrs->reduce.dims >> d & 1;

        if (!reduced && x->shape[d] > 1) {
            cut.in[0] = d;
            cut.out[0] = y->ndim == x->ndim ? d : own;
            return cut;
        }
        own += !reduced;
    }
    return cut;
}

/* x [*,n], weights [n] -> y [*,n] and numbers [*] */
static struct cut cut_norm(const struct wf_kernel_call *k)
{
    struct cut cut = cut_nothing();
    int d = first_large_dim(k->in[0]);

    if (d < 0 || d >= k->in[0]->ndim - 1) return cut;
    cut.in[0] = d;
    for (int j = 0; j < k->n_out; j++) cut.out[j] = d;
    return cut;
}

static struct cut cut_of_kernel(enum wf_kernel kernel, const struct wf_kernel_call *k)
{
    switch (kernel) {
#define POINTWISE(name) case WF_KERNEL_##name:
#define WF_UNARY(name, ...) POINTWISE(name) POINTWISE(name##_grad)
#define WF_UNARY_BY_OPS(name, ...) POINTWISE(name)
#define WF_BINARY(name, ...) POINTWISE(name)
#define WF_TERNARY(name, ...) POINTWISE(name)
#define WF_WHOLE_BINARY(name, ...) POINTWISE(name)
#define WF_COMPARE(name, ...) POINTWISE(name)
#define WF_TEST(name, ...) POINTWISE(name)
#include "kernels/pointwise.def"
    case WF_KERNEL_where:
    case WF_KERNEL_cast:
    case WF_KERNEL_copy:
        return cut_pointwise(k);
    case WF_KERNEL_softmax:
    case WF_KERNEL_softmax_grad:
    case WF_KERNEL_log_softmax:
    case WF_KERNEL_log_softmax_grad:
        return cut_beside_dim(k, k->attrs->dim.dim);
    case WF_KERNEL_cumsum:
    case WF_KERNEL_cumprod:
    case WF_KERNEL_cumprod_grad:
    case WF_KERNEL_linear_scan:
    case WF_KERNEL_linear_scan_grad:
        return cut_beside_dim(k, k->attrs->scan.dim);
    case WF_KERNEL_sum:
    case WF_KERNEL_max:
    case WF_KERNEL_min:
    case WF_KERNEL_prod:
    case WF_KERNEL_count_nonzero:
    case WF_KERNEL_norm:
        return cut_reduction(k);
    case WF_KERNEL_layer_norm:
    case WF_KERNEL_rms_norm:
        return cut_norm(k);
    default:
        return cut_nothing();
    }
}

/* ---- parts ---- */

static bool is_large(const struct wf_tensor_desc *t)
{
    return t->numel * wf_dtypes[t->dtype].size >= LEAST_BYTES;
}

/* Elements [first, first + n) of a dim. gives: bytes from the tensor's first element to the box's
 */
static int64_t narrow(struct wf_tensor_desc *box, const struct wf_tensor_desc *whole, int dim,
                      int64_t first, int64_t n)
{
    *box = *whole;
    if (dim < 0) return 0;
    box->shape[dim] = n;
    box->numel = whole->numel / whole->shape[dim] * n;
    box->offset[dim] += first;
    return first * whole->stride[dim] * wf_dtypes[whole->dtype].size;
}

/* What lies before the cut dim of a row-major box has size 1, so the box stays row-major. */
static weft_status prepare_part(struct part *part, wf_kernel_prepare *prepare,
                                const struct wf_kernel_call *k, const struct cut *cut,
                                int64_t first, int64_t n)
{
    struct wf_kernel_call *call = &part->call;

    *call = *k;
    for (int i = 0; i < k->n_in; i++) {
        if (!k->in[i]) continue;
        part->in_offset[i] = narrow(&part->in[i], k->in[i], cut->in[i], first, n);
        call->in[i] = &part->in[i];
    }
    for (int j = 0; j < k->n_out; j++) {
        if (!k->out[j]) continue;
        part->out_offset[j] = narrow(&part->out[j], k->out[j], cut->out[j], first, n);
        call->out[j] = &part->out[j];
    }
    return prepare(call);
}

static void run_part(const void *work, int i)
{
    const struct work *w = work;
    const struct part *part = &w->split->part[i];
    const void *in[WF_MAX_IN];
    void *out[WF_MAX_OUT];

    for (int j = 0; j < part->call.n_in; j++)
        in[j] = w->in[j] ? (const char *)w->in[j] + part->in_offset[j] : NULL;
    for (int j = 0; j < part->call.n_out; j++)
        out[j] = w->out[j] ? (char *)w->out[j] + part->out_offset[j] : NULL;
    part->call.run(&part->call, out, in, w->scalars);
}

static void run_split(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                      const struct wf_scalars *scalars)
{
    const struct split *split = k->prep;
    struct work work = {split, out, in, scalars};

    if (wf_knobs.threads < split->n || !wf_pool_run(split->n, run_part, &work))
        split->whole.run(&split->whole, out, in, scalars);
}

static void free_split(void *prep)
{
    struct split *split = prep;

    wf_kernel_call_drop(&split->whole);
    for (int i = 0; i < split->n; i++) wf_kernel_call_drop(&split->part[i].call);
    wf_free(split->part);
    wf_free(split);
}

/* Parts of an even number of pieces; less than n where there are not so many. */
static weft_status make_parts(struct split *split, wf_kernel_prepare *prepare,
                              const struct wf_kernel_call *k, const struct cut *cut, int64_t n)
{
    int64_t size = k->out[0]->shape[cut->out[0]], piece = size >= n * 8 * PIECE ? PIECE : 1;
    int64_t pieces = (size + piece - 1) / piece, first = 0;

    if (n > pieces) n = pieces;
    split->part = wf_calloc((size_t)n, sizeof *split->part);
    for (int i = 0; i < n; i++) {
        int64_t end = pieces * (i + 1) / n * piece;

        if (end > size) end = size;
        split->n = i + 1;
        WF_TRY(prepare_part(&split->part[i], prepare, k, cut, first, end - first));
        first = end;
    }
    return WEFT_OK;
}

weft_status wf_prepare_on_threads(enum wf_kernel kernel, wf_kernel_prepare *prepare,
                                  struct wf_kernel_call *k)
{
    struct wf_kernel_call given = *k;
    struct cut cut;
    struct split *split;
    int64_t n = wf_knobs.threads < MAX_PARTS ? wf_knobs.threads : MAX_PARTS;

    if (n < 2 || !k->out[0] ||
        !(is_large(k->out[0]) || (k->n_in && k->in[0] && is_large(k->in[0]))))
        return prepare(k);
    cut = cut_of_kernel(kernel, k);
    if (cut.out[0] < 0 || !k->out[0]->contiguous || k->out[0]->numel == 0) return prepare(k);
    split = WF_NEW(struct split);
    split->whole = given;
    k->prep = split;
    k->drop = free_split;
    WF_TRY(prepare(&split->whole));
    WF_TRY(make_parts(split, prepare, &given, &cut, n));
    k->run = run_split;
    return WEFT_OK;
}
