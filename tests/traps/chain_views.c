/* chain_views.c: the steps of a chain that change shape or layout and compute nothing. */
#include "traps/chain.h"

/* ---- shapes ---- */

/* Dims d and d+1 become one. */
static bool step_merge(struct chain *c)
{
    int64_t shape[WEFT_MAX_DIMS];
    int n = chain_ndim(c), d;

    if (n < 2) return false;
    d = chain_pick(c, n - 1);
    chain_shape(c, shape);
    shape[d] *= shape[d + 1];
    for (int e = d + 1; e < n - 1; e++) shape[e] = shape[e + 1];
    chain_say(c, "merge %d", d);
    BOTH(c, weft_reshape(x, shape, n - 1))
    return true;
}

/* Dim d becomes two, the first or the second of them with `factor` elements. */
static bool step_divide(struct chain *c)
{
    int64_t shape[WEFT_MAX_DIMS + 1], factor = 1 + chain_pick(c, 4);
    int n = chain_ndim(c), d;

    if (n == 0 || n > 3) return false;
    d = chain_pick(c, n);
    if (chain_dim(c, d) % factor) return false;
    for (int e = 0; e < n; e++) shape[e + (e > d)] = chain_dim(c, e);
    shape[d + 1] = factor;
    shape[d] /= factor;
    if (chain_once_in(c, 2)) {
        shape[d + 1] = shape[d];
        shape[d] = factor;
    }
    chain_say(c, "divide %d by %d", d, (int)factor);
    BOTH(c, weft_reshape(x, shape, n + 1))
    return true;
}

static bool step_permute(struct chain *c)
{
    int order[WEFT_MAX_DIMS], n = chain_ndim(c);

    for (int d = 0; d < n; d++) order[d] = d;
    for (int d = n - 1; d > 0; d--) {
        int other = chain_pick(c, d + 1), kept = order[d];

        order[d] = order[other];
        order[other] = kept;
    }
    chain_say(c, "permute");
    for (int d = 0; d < n; d++) chain_say(c, " %d", order[d]);
    BOTH(c, weft_permute(x, order))
    return true;
}

static bool step_slice(struct chain *c)
{
    int d, start, end, size;

    if (chain_ndim(c) == 0) return false;
    d = chain_pick(c, chain_ndim(c));
    size = (int)chain_dim(c, d);
    start = chain_pick(c, size + 1);
    end = start + chain_pick(c, size - start + 1);
    if (size > 0 && chain_once_in(c, 3)) {
        chain_say(c, "select %d at %d", d, start % size);
        BOTH(c, weft_select(x, d, start % size))
        return true;
    }
    chain_say(c, "slice %d %d:%d", d, start, end);
    BOTH(c, weft_slice(x, d, start, end))
    return true;
}

/* Two pieces, joined the other way round. */
static bool step_swap(struct chain *c)
{
    int64_t sizes[2];
    int d;

    if (chain_ndim(c) == 0) return false;
    d = chain_pick(c, chain_ndim(c));
    sizes[0] = chain_pick(c, (int)chain_dim(c, d) + 1);
    sizes[1] = chain_dim(c, d) - sizes[0];
    chain_say(c, "swap %d at %d", d, (int)sizes[0]);
    for (int s = 0; s < 2; s++) {
        weft_tensor *piece[2], *swapped[2];

        if (weft_split(piece, c->x[s], d, sizes, 2) != WEFT_OK) piece[0] = piece[1] = NULL;
        swapped[0] = piece[1];
        swapped[1] = piece[0];
        c->x[s] = weft_cat(swapped, 2, d);
    }
    return true;
}

static bool step_cat(struct chain *c)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *y[2];
    int d;

    if (chain_ndim(c) == 0) return false;
    d = chain_pick(c, chain_ndim(c));
    if (chain_dim(c, d) > 20) return false;
    chain_shape(c, shape);
    shape[d] = chain_size(c);
    chain_say(c, "cat %d ", d);
    chain_leaf(c, y, chain_ndim(c), shape);
    BOTH(c, weft_cat((weft_tensor *[]){x, y[s], x}, 3, d))
    return true;
}

static bool step_expand(struct chain *c)
{
    int64_t shape[WEFT_MAX_DIMS];
    int n = chain_ndim(c), more;

    if (n > 3) return false;
    more = chain_pick(c, 2);
    if (more) shape[0] = 1 + chain_pick(c, 3);
    for (int d = 0; d < n; d++)
        shape[d + more] = chain_dim(c, d) == 1 ? chain_size(c) : chain_dim(c, d);
    chain_say(c, "expand");
    for (int d = 0; d < n + more; d++) chain_say(c, " %lld", (long long)shape[d]);
    BOTH(c, weft_expand(x, shape, n + more))
    return true;
}

static bool step_contiguous(struct chain *c)
{
    chain_say(c, "contiguous");
    BOTH(c, weft_contiguous(x))
    return true;
}

/* ---- layouts ---- */

static bool is_sum(weft_placement p) { return weft_is_partial(p) && p.reduce == WEFT_SUM; }

/* A shard may become a partial sum, and what is partial may stay so. */
static bool step_redistribute(struct chain *c)
{
    weft_placement p[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS];
    bool sums = true;

    chain_shape(c, shape);
    chain_placements(c, p, chain_ndim(c), shape);
    for (int a = 0; a < weft_mesh_ndim(c->mesh); a++) {
        weft_placement now = weft_tensor_placement(c->x[1], a);

        if (!weft_is_partial(now)) continue;
        sums &= is_sum(now);
        if (!chain_once_in(c, 3)) continue;
        p[a] = now;
        for (int b = 0; b < weft_mesh_ndim(c->mesh); b++)
            p[b].order = 0; /* a turn may be free now */
    }
    for (int a = 0; a < weft_mesh_ndim(c->mesh); a++) {
        weft_placement now = weft_tensor_placement(c->x[1], a);

        if (weft_is_replicate(p[a]) && sums && (weft_is_shard(now) || is_sum(now)))
            p[a] = weft_partial(WEFT_SUM);
    }
    chain_say(c, "to ");
    chain_say_placements(c, p);
    c->x[1] = weft_redistribute_with(c->x[1], p,
                                     &(weft_redistribute_options){.async = chain_once_in(c, 3)});
    return true;
}

/* To another mesh, where the chain goes on. */
static bool step_remesh(struct chain *c)
{
    weft_placement p[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS];

    if (c->meshes + 3 > CHAIN_MESHES || !chain_once_in(c, 2)) return false;
    chain_say(c, "to mesh ");
    chain_mesh(c);
    chain_shape(c, shape);
    chain_placements(c, p, chain_ndim(c), shape);
    chain_say_placements(c, p);
    c->x[1] = weft_redistribute_to_mesh(c->x[1], c->mesh, p);
    return true;
}

/* Every rank hands in a term. What a rank computes from a replicated tensor by itself has a part of
 * the gradient only, which to_local must be told; equal terms of an average or a maximum have all
 * of it. */
static bool step_partial(struct chain *c)
{
    static const weft_reduce reductions[] = {WEFT_SUM, WEFT_SUM, WEFT_AVG, WEFT_MAX, WEFT_MIN};
    weft_placement partial = weft_partial(reductions[chain_pick(c, 5)]);
    weft_placement p[WEFT_MAX_AXES], gradient[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS];
    double share = 1;

    for (int a = 0; a < weft_mesh_ndim(c->mesh); a++) {
        p[a] = gradient[a] = weft_tensor_placement(c->x[1], a);
        if (weft_is_partial(p[a])) return false;
        if (!weft_is_replicate(p[a])) continue;
        p[a] = partial;
        if (!is_sum(partial)) continue;
        gradient[a] = partial;
        share /= weft_mesh_axis_size(c->mesh, a);
    }
    chain_shape(c, shape);
    chain_say(c, "partial ");
    chain_say_placements(c, p);
    c->x[1] = weft_drop_grad_types(weft_mul_scalar(weft_to_local(c->x[1], gradient), share));
    c->x[1] = weft_from_local(c->x[1], c->mesh, p, shape);
    return true;
}

/* Out to this rank's shard and back. */
static bool step_local(struct chain *c)
{
    weft_placement p[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS];

    for (int a = 0; a < weft_mesh_ndim(c->mesh); a++) {
        p[a] = weft_tensor_placement(c->x[1], a);
        if (weft_is_partial(p[a])) return false;
    }
    chain_shape(c, shape);
    chain_say(c, "local*2");
    c->x[0] = weft_mul_scalar(c->x[0], 2);
    c->x[1] = weft_from_local(weft_mul_scalar(weft_to_local(c->x[1], NULL), 2), c->mesh, p, shape);
    return true;
}

bool chain_view(struct chain *c)
{
    static bool (*const steps[])(struct chain *) = {
        step_merge,        step_merge,        step_divide,       step_divide,     step_permute,
        step_slice,        step_swap,         step_cat,          step_expand,     step_local,
        step_redistribute, step_redistribute, step_redistribute, step_contiguous, step_partial,
        step_remesh,       step_partial,
    };

    return steps[chain_pick(c, sizeof steps / sizeof *steps)](c);
}
