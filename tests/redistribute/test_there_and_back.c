/*
 * test_there_and_back.c: random meshes, shapes, sources and targets through the public functions,
 * forward and backward, against the tensor that one process would hold (traps 3 and 11 of other
 * libraries: factors of n in gradients, inner axes that are not undone first). Some ranks may be
 * outside the mesh. Plans of every kind of placement on more ranks: test_run.c.
 */
/* ranks: 2 3 4 6 8 */
/* mpi: 2 4 */
#include <stdlib.h>
#include <string.h>

#include "redistribute/shapes.h"
#include "support/worlds.h"

enum { ROUNDS = 150 };

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static int below(unsigned *state, int n) { return (int)(next_random(state) % (unsigned)n); }

struct scene {
    char mesh[64];
    int n_axes;
    struct shape shape;
    weft_placement from[WEFT_MAX_AXES], to[WEFT_MAX_AXES];
    bool async;
};

static weft_placement pick(unsigned *state, int ndim, bool sums)
{
    switch (below(state, sums ? 7 : 6)) {
    case 0:
    case 1:
        return weft_replicate();
    case 2:
        return weft_strided_shard(below(state, ndim), 2 + below(state, 2));
    case 3:
        return weft_shard_balanced(below(state, ndim));
    case 6:
        return weft_partial(WEFT_SUM);
    default:
        return weft_shard(below(state, ndim));
    }
}

/* Only shards may be asked to become partial. */
static struct scene pick_scene(unsigned *state)
{
    struct scene s = {.n_axes = 1 + below(state, 3), .shape.ndim = 1 + below(state, 3)};
    int left = wt_ranks(), length = 0;

    for (int d = 0; d < s.shape.ndim; d++) s.shape.size[d] = 1 + below(state, 9);
    for (int a = 0; a < s.n_axes; a++) {
        int size = a == s.n_axes - 1 ? left : 1 + below(state, left);

        left /= size;
        length += snprintf(s.mesh + length, sizeof s.mesh - (size_t)length, "%sx%d=%d",
                           a ? "," : "", a, size);
        s.from[a] = pick(state, s.shape.ndim, true);
        s.to[a] = pick(state, s.shape.ndim, s.from[a].kind == WEFT_KIND_SHARD);
    }
    s.async = below(state, 3) == 0;
    return s;
}

static bool has_sums(const struct scene *s, const weft_placement *p)
{
    for (int a = 0; a < s->n_axes; a++)
        if (weft_is_partial(p[a])) return true;
    return false;
}

/* The first rank of each partial axis holds the value, the others zeros. */
static weft_tensor *spread(const struct scene *s, weft_mesh *mesh, weft_tensor *whole,
                           const weft_placement *p)
{
    weft_placement whole_there[WEFT_MAX_AXES];
    weft_tensor *part;
    double factor = 1;

    memcpy(whole_there, p, sizeof whole_there);
    for (int a = 0; a < s->n_axes; a++) {
        if (!weft_is_partial(p[a])) continue;
        whole_there[a] = weft_replicate();
        if (weft_mesh_coordinate(mesh, a) > 0) factor = 0;
    }
    part = weft_distribute_tensor(whole, mesh, whole_there, -1);
    if (!has_sums(s, p) || !part) return part;
    return weft_from_local(shape_local(part, factor), mesh, p, s->shape.size);
}

static void without_sums(const struct scene *s, const weft_placement *p, weft_placement *out)
{
    for (int a = 0; a < s->n_axes; a++) out[a] = weft_is_partial(p[a]) ? weft_replicate() : p[a];
}

/* The source is remade as a leaf, for its gradient; that comes replicated where it was partial. */
static void check_scene(const struct scene *s)
{
    struct wt_world w = wt_world_open_mesh("%s", s->mesh);
    weft_redistribute_options options = {.async = s->async};
    weft_tensor *whole = shape_whole(&s->shape, false), *x, *y, *g;
    weft_placement back[WEFT_MAX_AXES], seed[WEFT_MAX_AXES];
    char text[128], other[128];

    weft_placements_format(s->from, s->n_axes, text, sizeof text);
    weft_placements_format(s->to, s->n_axes, other, sizeof other);
    wt_note("%s: %s to %s", s->mesh, text, other);
    weft_no_grad_open();
    x = spread(s, w.mesh, whole, s->from);
    weft_no_grad_close();
    WT_ALL(x != NULL);
    weft_set_requires_grad(x, true);
    y = weft_redistribute_with(x, s->to, &options);
    WT_ALL(y != NULL);
    if (!has_sums(s, s->to))
        WT_ALL(shape_same_local(y, spread(s, w.mesh, whole, s->to)));
    else
        WT_ALL(shape_same_local(weft_full_tensor(y), whole) || !weft_mesh_is_member(w.mesh));
    without_sums(s, s->to, seed);
    without_sums(s, s->from, back);
    g = weft_add_scalar(whole, 3);
    WT_ALL(weft_backward_from(y, weft_distribute_tensor(g, w.mesh, seed, -1)) == WEFT_OK);
    WT_ALL(shape_same_local(weft_grad(x), weft_distribute_tensor(g, w.mesh, back, -1)));
    wt_note(" ");
    wt_world_close(&w);
}

static void check_seed(unsigned seed)
{
    unsigned state = seed;

    for (int i = 0; i < ROUNDS; i++) {
        struct scene s = pick_scene(&state);

        check_scene(&s);
    }
}

WT_TEST(random__first_seed) { check_seed(1); }
WT_TEST(random__second_seed) { check_seed(20260401); }
WT_TEST(random__third_seed) { check_seed(0xC0FFEE); }

int main(int argc, char **argv) { return wt_main(argc, argv, "redistribution there and back"); }
