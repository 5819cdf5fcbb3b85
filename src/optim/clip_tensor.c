/*
 * clip_tensor.c: clipping by ops alone: the norm stays a tensor, so that nothing waits for it, and
 * a compiled step has it in its list.
 *
 * Norms of gradients with the same placements are joined and reduced together: one small all-reduce
 * per kind of placements. Norms of norms are the norm of all elements.
 */
#include <math.h>

#include <weft/autograd.h>
#include <weft/dtensor.h>
#include <weft/in_place.h>
#include <weft/ops.h>

#include "base/array_grow.h"
#include "base/call_context.h"
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "optim/clip.h"

/* Norms of one layout; the tensors are the open scope's. */
struct alike {
    weft_tensor **norms;
    int n;
};

struct groups {
    struct alike *of;
    int n;
};

static bool have_one_layout(const weft_tensor *a, const weft_tensor *b)
{
    weft_mesh *mesh = weft_tensor_mesh(a);

    if (mesh != weft_tensor_mesh(b) || weft_tensor_dtype(a) != weft_tensor_dtype(b)) return false;
    for (int x = 0; mesh && x < weft_mesh_ndim(mesh); x++)
        if (!weft_placement_equal(weft_tensor_placement(a, x), weft_tensor_placement(b, x)))
            return false;
    return true;
}

static void add_to_group(struct groups *groups, weft_tensor *norm)
{
    struct alike *alike = NULL;

    for (int i = 0; i < groups->n && !alike; i++)
        if (have_one_layout(groups->of[i].norms[0], norm)) alike = &groups->of[i];
    if (!alike) {
        groups->of = wf_array_grow(groups->of, groups->n, sizeof *groups->of);
        alike = &groups->of[groups->n++];
        *alike = (struct alike){0};
    }
    alike->norms = wf_array_grow(alike->norms, alike->n, sizeof(weft_tensor *));
    alike->norms[alike->n++] = norm;
}

static void free_groups(struct groups *groups)
{
    for (int i = 0; i < groups->n; i++) wf_free(groups->of[i].norms);
    wf_free(groups->of);
}

/* The norm of several numbers, on every rank. */
static weft_tensor *norm_of_norms(weft_tensor *const *norms, int n, double p)
{
    weft_tensor *all = n > 1 ? weft_stack(norms, n, 0) : norms[0];

    if (all && weft_tensor_mesh(all)) all = weft_full_tensor(all);
    return n > 1 ? weft_norm(all, p, NULL, 0, false) : all;
}

/* Of 16-bit floats in f32. Of no elements every norm is 0, but an infinite one is none. */
static weft_tensor *norm_of_gradient(weft_tensor *grad, double p)
{
    if (wf_dtype_is_16_bit_float(weft_tensor_dtype(grad))) grad = weft_cast(grad, WEFT_F32);
    return weft_norm(grad, p, NULL, 0, false);
}

/* One element of f32, of f64 where all gradients are; NULL with an error, or without gradients. */
static weft_tensor *norm_of_all(weft_tensor *const *grads, int n_grads, double p)
{
    struct groups groups = {0};
    weft_tensor **norms, *norm = NULL;
    weft_dtype dtype = WEFT_F64;
    bool failed = false;

    for (int i = 0; i < n_grads && !failed; i++) {
        weft_tensor *one = norm_of_gradient(grads[i], weft_numel(grads[i]) > 0 ? p : 1);

        failed = !one;
        if (one && weft_tensor_dtype(one) != WEFT_F64) dtype = WEFT_F32;
        if (one) add_to_group(&groups, one);
    }
    norms = wf_calloc((size_t)groups.n + 1, sizeof *norms);
    for (int i = 0; i < groups.n && !failed; i++) {
        norms[i] = weft_cast(norm_of_norms(groups.of[i].norms, groups.of[i].n, p), dtype);
        failed = !norms[i];
    }
    if (!failed && groups.n) norm = norm_of_norms(norms, groups.n, p);
    free_groups(&groups);
    wf_free(norms);
    return norm;
}

/* max_norm / (norm + 1e-6), at most 1; and 1 where that is no number. */
static weft_tensor *factor_of(weft_tensor *norm, double max_norm)
{
    weft_tensor *factor = weft_rdiv_scalar(weft_add_scalar(norm, 1e-6), max_norm);

    return weft_where_scalar(weft_eq(factor, factor), weft_clamp_max(factor, 1), 1);
}

static weft_tensor *clip_gradients(weft_tensor *const *grads, int n, double max_norm, double p)
{
    weft_tensor *norm = norm_of_all(grads, n, p), *factor;

    if (!norm && weft_error_status() == WEFT_OK && n == 0) return weft_full(WEFT_F32, NULL, 0, 0);
    if (!norm || max_norm == 0) return norm;
    factor = factor_of(norm, max_norm);
    for (int i = 0; i < n; i++)
        if (!factor || !weft_mul_(grads[i], factor)) return NULL;
    return norm;
}

weft_tensor *weft_clip_grad_norm_tensor(weft_module *module, double max_norm, double p)
{
    struct wf_call_context before = wf_current_context;
    weft_tensor **grads = NULL, *norm = NULL;
    weft_scope *scope;
    int n = 0;

    WF_NEED_PTR(module, WEFT_ERR_ARG, "clip: the module is NULL");
    WF_TRY_PTR(wf_clip_check_norm(max_norm, p));
    wf_current_context.phase = WF_OPTIM;
    scope = weft_scope_open();
    weft_no_grad_open();
    if (wf_clip_collect_gradients(module, &grads, &n) == WEFT_OK)
        norm = clip_gradients(grads, n, max_norm, p);
    (void)weft_no_grad_close();
    norm = weft_scope_return(scope, norm);
    wf_current_context = before;
    wf_free(grads);
    return norm;
}
