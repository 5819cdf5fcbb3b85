/* chain.c: the choices, and the leaves that a chain begins with. */
#include "traps/chain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/mpi_check.h"

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t next(struct chain *c)
{
    uint64_t z = c->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int chain_pick(struct chain *c, int n) { return (int)(next(c) >> 33) % n; }

bool chain_once_in(struct chain *c, int n) { return chain_pick(c, n) == 0; }

void chain_say(struct chain *c, const char *format, ...)
{
    size_t room = (size_t)(CHAIN_TEXT - c->used);
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(c->text + c->used, room, format, args);
    va_end(args);
    c->used = n < (int)room ? c->used + n : CHAIN_TEXT - 1;
}

int64_t chain_size(struct chain *c)
{
    if (chain_once_in(c, 12)) return 0;
    return chain_once_in(c, 6) ? 1 : 2 + chain_pick(c, 7);
}

/* ---- meshes ---- */

static void random_order(struct chain *c, int *ranks)
{
    for (int r = 0; r < wt_ranks(); r++) ranks[r] = r;
    for (int r = wt_ranks() - 1; r > 0 && chain_once_in(c, 2); r--) {
        int other = chain_pick(c, r + 1), kept = ranks[r];

        ranks[r] = ranks[other];
        ranks[other] = kept;
    }
}

/* Merged axes let redistribution merge collectives. */
static void merge_axes(struct chain *c, int n_axes)
{
    static const char *const merge[] = {"a,b", "b,c", "a,b,c"};
    const char *which = merge[n_axes == 2 ? 0 : chain_pick(c, 3)];
    weft_mesh *part = weft_mesh_sub(c->mesh, which);

    chain_say(c, "merged %s: ", which);
    c->made[c->meshes++] = part;
    c->made[c->meshes++] = weft_mesh_flatten(part, "merged");
}

/* Some meshes leave ranks out, some have ranks in an order of their own. */
void chain_mesh(struct chain *c)
{
    static const char *const names[] = {"a", "a,b", "a,b,c"};
    int left = wt_ranks(), n_axes = 1 + chain_pick(c, 3), sizes[3], ranks[64];
    char text[64];

    if (chain_once_in(c, 6)) left = 1 + chain_pick(c, left);
    for (int a = 0; a < n_axes; a++) {
        sizes[a] = a == n_axes - 1 ? left : 1 + chain_pick(c, left);
        while (left % sizes[a]) sizes[a]--;
        left /= sizes[a];
    }
    random_order(c, ranks);
    c->mesh = weft_mesh_from_ranks(WEFT_CPU, sizes, n_axes, names[n_axes - 1], ranks);
    c->made[c->meshes++] = c->mesh;
    weft_mesh_format(c->mesh, text, sizeof text);
    chain_say(c, "%s of %d ranks: ", text, wt_ranks());
    if (n_axes > 1 && chain_once_in(c, 2)) merge_axes(c, n_axes);
}

/* ---- placements ---- */

static weft_placement random_shard(struct chain *c, int ndim)
{
    int dim = chain_pick(c, ndim);

    switch (chain_pick(c, 8)) {
    case 0:
        return weft_shard_balanced(dim);
    case 1:
        return weft_strided_shard(dim, 1 + chain_pick(c, 3));
    default:
        return weft_shard(dim);
    }
}

/* The axes that shard a dim; true when all of them do it plainly. */
static bool axes_of(const weft_placement *p, int n_axes, int dim, int *axes, int *count)
{
    bool plain = true;

    *count = 0;
    for (int a = 0; a < n_axes; a++) {
        if (!weft_shards(p[a], dim)) continue;
        plain &= weft_is_shard(p[a]);
        axes[(*count)++] = a;
    }
    return plain;
}

/* Axes that share a dim may cut it in any order; one alone may cut it in segments. */
static void vary(struct chain *c, weft_placement *p, int ndim, const int64_t *shape)
{
    static const int64_t segments[][3] = {{1, 1, 0}, {2, 1, 0}, {1, 1, 1}, {2, 1, 1}};
    int axes[WEFT_MAX_AXES], n;

    for (int d = 0; d < ndim; d++) {
        const int64_t *sizes = segments[chain_pick(c, 4)];
        int shift = chain_pick(c, WEFT_MAX_AXES);

        if (!axes_of(p, weft_mesh_ndim(c->mesh), d, axes, &n)) continue;
        for (int i = 0; n > 1 && i < n; i++) p[axes[i]] = weft_in_turn(p[axes[i]], (i + shift) % n);
        if (n == 1 && chain_once_in(c, 4) && shape[d] % (sizes[0] + sizes[1] + sizes[2]) == 0)
            p[axes[0]] = weft_shard_segments(d, sizes, sizes[2] ? 3 : 2);
    }
}

void chain_placements(struct chain *c, weft_placement *p, int ndim, const int64_t *shape)
{
    for (int a = 0; a < weft_mesh_ndim(c->mesh); a++)
        p[a] = ndim > 0 && !chain_once_in(c, 3) ? random_shard(c, ndim) : weft_replicate();
    vary(c, p, ndim, shape);
}

void chain_say_placements(struct chain *c, const weft_placement *p)
{
    char text[128];

    weft_placements_format(p, weft_mesh_ndim(c->mesh), text, sizeof text);
    chain_say(c, "%s", text);
}

/* ---- leaves ---- */

static void say_shape(struct chain *c, int ndim, const int64_t *shape)
{
    chain_say(c, "[");
    for (int d = 0; d < ndim; d++) chain_say(c, "%s%lld", d ? "," : "", (long long)shape[d]);
    chain_say(c, "] ");
}

weft_tensor *chain_place(const struct chain *c, weft_tensor *t)
{
    bool wanted = weft_requires_grad(t);

    if (!c->meta) return t;
    t = weft_to_device(t, WEFT_META);
    return wanted ? weft_set_requires_grad(t, true) : t;
}

static void spread(struct chain *c, weft_tensor **t)
{
    weft_placement p[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS];

    for (int d = 0; d < weft_ndim(t[0]); d++) shape[d] = weft_size(t[0], d);
    chain_placements(c, p, weft_ndim(t[0]), shape);
    chain_say_placements(c, p);
    t[1] = weft_distribute_tensor(chain_place(c, t[0]), c->mesh, p, -1);
}

void chain_leaf(struct chain *c, weft_tensor **t, int ndim, const int64_t *shape)
{
    double *data;

    t[0] = weft_empty(WEFT_F64, shape, ndim);
    data = weft_data(t[0]);
    for (int64_t i = 0; i < weft_numel(t[0]); i++)
        data[i] = (double)(next(c) >> 11) / (double)(1ll << 52) - 1;
    weft_set_requires_grad(t[0], true);
    say_shape(c, ndim, shape);
    spread(c, t);
    if (c->leaves == CHAIN_LEAVES) abort();
    c->leaf[c->leaves][0] = t[0];
    c->leaf[c->leaves++][1] = t[1];
}

void chain_indices(struct chain *c, weft_tensor **t, int ndim, const int64_t *shape, int limit)
{
    int32_t *data;

    t[0] = weft_empty(WEFT_I32, shape, ndim);
    data = weft_data(t[0]);
    for (int64_t i = 0; i < weft_numel(t[0]); i++) data[i] = chain_pick(c, limit);
    say_shape(c, ndim, shape);
    spread(c, t);
}

int chain_ndim(const struct chain *c) { return weft_ndim(c->x[0]); }

int64_t chain_dim(const struct chain *c, int dim) { return weft_size(c->x[0], dim); }

void chain_shape(const struct chain *c, int64_t *shape)
{
    for (int d = 0; d < chain_ndim(c); d++) shape[d] = chain_dim(c, d);
}
