/* placement.c: checks lists of placements against a tensor and brings them into normal form. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/int_math.h"
#include "placement/layout.h"

/* ---- making ---- */

weft_placement weft_shard_segments(int dim, const int64_t *sizes, int count)
{
    weft_placement p = weft_shard(dim);
    int64_t divisor = 0;

    if (count < 0 || count > WEFT_MAX_SEGMENTS || (count && !sizes)) {
        p.n_segments = UINT8_MAX;
        return p;
    }
    for (int s = 0; s < count; s++)
        if (sizes[s] > 0) divisor = wf_gcd(divisor, sizes[s]); /* others are refused later, as 0 */
    if (count > 1) p.n_segments = (uint8_t)count;
    for (int s = 0; s < p.n_segments; s++) {
        int64_t size = sizes[s] > 0 ? sizes[s] / divisor : 0;

        p.segments[s] = size <= UINT16_MAX ? (uint16_t)size : 0;
    }
    return p;
}

weft_placement weft_norm_partial(double power)
{
    weft_placement p = weft_partial(WEFT_NORM);

    if (power == 0 || power == 1) return weft_partial(WEFT_SUM);
    if (isinf(power)) return weft_partial(power > 0 ? WEFT_MAX : WEFT_MIN);
    p.p = (float)power;
    return p;
}

/* ---- one placement ---- */

struct text {
    char of[WF_PLACEMENT_TEXT];
};

static struct text placement_name(weft_placement p)
{
    struct text text;

    weft_placements_format(&p, 1, text.of, sizeof text.of);
    return text;
}

static weft_status normalize_dim(weft_placement *p, int ndim, int axis, const char *who)
{
    int dim = p->dim < 0 ? p->dim + ndim : p->dim;

    WF_NEED(dim >= 0 && dim < ndim, WEFT_ERR_LAYOUT,
            "%s: %s on mesh axis %d, but the tensor has %d dims", who, placement_name(*p).of, axis,
            ndim);
    p->dim = (int8_t)dim;
    return WEFT_OK;
}

static weft_status normalize_shard(weft_placement *p, int axis, const char *who)
{
    int64_t sizes[WEFT_MAX_SEGMENTS];
    weft_placement given = *p;

    WF_NEED(given.cut <= WEFT_CUT_BALANCED, WEFT_ERR_ARG, "%s: unknown cut %d on mesh axis %d", who,
            given.cut, axis);
    WF_NEED(given.n_segments <= WEFT_MAX_SEGMENTS, WEFT_ERR_ARG,
            "%s: a shard of dim %d on mesh axis %d in more than %d segments", who, given.dim, axis,
            WEFT_MAX_SEGMENTS);
    for (int s = 0; s < given.n_segments; s++) {
        WF_NEED(given.segments[s] > 0, WEFT_ERR_ARG,
                "%s: %s on mesh axis %d: the size of segment %d is not 1 to %d", who,
                placement_name(given).of, axis, s, UINT16_MAX);
        sizes[s] = given.segments[s];
    }
    *p = weft_shard_segments(given.dim, sizes, given.n_segments);
    p->cut = given.cut;
    p->order = given.order;
    return WEFT_OK;
}

static weft_status normalize_partial(weft_placement *p, int axis, const char *who)
{
    WF_NEED(p->reduce < WEFT_REDUCE_COUNT, WEFT_ERR_ARG, "%s: unknown reduction %d on mesh axis %d",
            who, p->reduce, axis);
    if (p->reduce != WEFT_NORM) {
        *p = weft_partial((weft_reduce)p->reduce);
        return WEFT_OK;
    }
    *p = weft_norm_partial((double)p->p);
    WF_NEED(isfinite(p->p), WEFT_ERR_ARG, "%s: a norm of power %g on mesh axis %d", who,
            (double)p->p, axis);
    return WEFT_OK;
}

static weft_status normalize_one(weft_placement *p, int ndim, int axis, const char *who)
{
    switch (p->kind) {
    case WEFT_KIND_REPLICATE:
        *p = weft_replicate();
        return WEFT_OK;
    case WEFT_KIND_SHARD:
        WF_TRY(normalize_shard(p, axis, who));
        return normalize_dim(p, ndim, axis, who);
    case WEFT_KIND_STRIDED:
        WF_NEED(p->factor > 0, WEFT_ERR_ARG, "%s: %s on mesh axis %d: a dim has at least one piece",
                who, placement_name(*p).of, axis);
        *p = weft_strided_shard(p->dim, p->factor);
        return normalize_dim(p, ndim, axis, who);
    case WEFT_KIND_PARTIAL:
        return normalize_partial(p, axis, who);
    case WEFT_KIND_REFUSED:
        return WF_FAIL(WEFT_ERR_ARG, "%s: the text of the placements was refused", who);
    default:
        return WF_FAIL(WEFT_ERR_ARG, "%s: unknown placement kind %d on mesh axis %d", who, p->kind,
                       axis);
    }
}

/* ---- all of them ---- */

/* A sum of maxima is not a maximum of sums, and a list of placements has no order of reductions. */
static weft_status check_partial_reductions(const weft_placement *p, int n_axes, const char *who)
{
    int first = -1;

    for (int a = 0; a < n_axes; a++) {
        if (!weft_is_partial(p[a])) continue;
        if (first < 0) first = a;
        WF_NEED(weft_placement_equal(p[first], p[a]) || wf_partials_add_terms(p[first], p[a]),
                WEFT_ERR_LAYOUT,
                "%s: mixed partial reductions are not supported: %s on mesh axis %d and %s on axis "
                "%d have no one meaning",
                who, placement_name(p[first]).of, first, placement_name(p[a]).of, a);
    }
    return WEFT_OK;
}

/* Turns 0, 1, ... each once; those that follow the axes are written as no turns at all. */
static weft_status check_shard_order(weft_placement *p, int n_axes, int dim, const char *who)
{
    int count = 0, axis_of[WEFT_MAX_AXES];
    bool turns = false, natural = true;

    for (int a = 0; a < n_axes; a++) {
        if (!weft_shards(p[a], dim)) continue;
        axis_of[count++] = a;
        turns |= p[a].order > 0;
    }
    for (int i = 0; turns && i < count; i++) {
        const weft_placement *at = &p[axis_of[i]];

        WF_NEED(at->kind == WEFT_KIND_SHARD, WEFT_ERR_LAYOUT,
                "%s: dim %d has a strided shard on mesh axis %d and a shard order beside it", who,
                dim, axis_of[i]);
        WF_NEED(at->order < count, WEFT_ERR_LAYOUT,
                "%s: turn %d on mesh axis %d, but %d axes shard dim %d", who, at->order, axis_of[i],
                count, dim);
        for (int j = 0; j < i; j++)
            WF_NEED(p[axis_of[j]].order != at->order, WEFT_ERR_LAYOUT,
                    "%s: mesh axes %d and %d both take turn %d at dim %d", who, axis_of[j],
                    axis_of[i], at->order, dim);
        natural &= at->order == i;
    }
    for (int i = 0; natural && i < count; i++) p[axis_of[i]].order = 0;
    return WEFT_OK;
}

/* Segments are those of the whole dim: what another cut left has them only when it knew them. */
static weft_status check_segments(const weft_placement *p, int n_axes, int dim, const char *who)
{
    int axes[WEFT_MAX_AXES], n = wf_axes_sharding_dim(axes, dim, p, n_axes);

    for (int i = 1; i < n; i++) {
        const weft_placement *before = &p[axes[i - 1]], *now = &p[axes[i]];

        WF_NEED(!now->n_segments ||
                    memcmp(before->segments, now->segments, sizeof now->segments) == 0,
                WEFT_ERR_LAYOUT,
                "%s: %s on mesh axis %d would cut what %s on axis %d left, where its segments are "
                "no longer whole",
                who, placement_name(*now).of, axes[i], placement_name(*before).of, axes[i - 1]);
    }
    return WEFT_OK;
}

static void renormalize_dim(weft_placement *p, int n_axes, int dim)
{
    int axes[WEFT_MAX_AXES], n;
    bool natural = true, strided = false;

    for (int a = 0; a < n_axes; a++) strided |= p[a].kind == WEFT_KIND_STRIDED && p[a].dim == dim;
    for (int a = 0; strided && a < n_axes; a++)
        if (weft_shards(p[a], dim)) p[a].order = 0;
    n = wf_axes_sharding_dim(axes, dim, p, n_axes);
    for (int i = 1; i < n; i++) natural &= axes[i - 1] < axes[i];
    for (int i = 0; i < n; i++) {
        weft_placement *now = &p[axes[i]];

        now->order = natural ? 0 : (uint8_t)i;
        if (i == 0 || memcmp(now->segments, p[axes[i - 1]].segments, sizeof now->segments) == 0)
            continue;
        now->n_segments = 0;
        memset(now->segments, 0, sizeof now->segments);
    }
}

void wf_placements_renormalize(weft_placement *placements, int n_axes)
{
    for (int a = 0; a < n_axes; a++)
        if (wf_is_shard_or_strided(placements[a]))
            renormalize_dim(placements, n_axes, placements[a].dim);
}

weft_status wf_placements_normalize(weft_placement *out, const weft_placement *in, int n_axes,
                                    int ndim, const char *who)
{
    WF_NEED(in, WEFT_ERR_ARG, "%s: no placements given", who);
    for (int a = 0; a < n_axes; a++) {
        out[a] = in[a];
        WF_TRY(normalize_one(&out[a], ndim, a, who));
    }
    for (int d = 0; d < ndim; d++) {
        WF_TRY(check_shard_order(out, n_axes, d, who));
        WF_TRY(check_segments(out, n_axes, d, who));
    }
    return check_partial_reductions(out, n_axes, who);
}

weft_status wf_placements_check_segments(const weft_placement *placements, int n_axes,
                                         const int64_t *global, const char *who)
{
    for (int a = 0; a < n_axes; a++) {
        const weft_placement *p = &placements[a];
        int64_t sum = 0;

        for (int s = 0; s < p->n_segments; s++) sum += p->segments[s];
        WF_NEED(sum == 0 || global[p->dim] % sum == 0, WEFT_ERR_LAYOUT,
                "%s: %s on mesh axis %d: dim %d has %lld elements, no multiple of %lld", who,
                placement_name(*p).of, a, p->dim, (long long)global[p->dim], (long long)sum);
    }
    return WEFT_OK;
}
