/* worlds.c: meshes, tensors and counts for cases with ranks. */
#include "support/worlds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

static void close_world(void *own)
{
    struct wt_world w = *(struct wt_world *)own;

    free(own);
    weft_ledger_close(w.ledger);
    weft_scope_close(w.scope);
    weft_mesh_release(w.mesh);
    WT_EQ(wf_tensor_live_count(), w.tensors);
}

static struct wt_world open_on(weft_mesh *mesh)
{
    struct wt_world w = {.mesh = mesh, .tensors = wf_tensor_live_count()};

    WT_ALL(mesh != NULL);
    w.scope = weft_scope_open();
    w.ledger = weft_ledger_open();
    w.own = malloc(sizeof *w.own);
    if (!w.own) abort();
    w.place = wt_own_with(w.own, close_world);
    *w.own = w;
    return w;
}

struct wt_world wt_world_open(void)
{
    return open_on(weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks()));
}

struct wt_world wt_world_open_mesh(const char *format, ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return open_on(weft_mesh_new(WEFT_CPU, "%s", text));
}

struct wt_world wt_world_open_two_axes(void)
{
    int dp = wt_ranks() % 2 ? 1 : 2;

    return wt_world_open_mesh("dp=%d,tp=%d", dp, wt_ranks() / dp);
}

weft_mesh *wt_part(const struct wt_world *w, const char *axes)
{
    return wt_own(weft_mesh_sub(w->mesh, axes));
}

void wt_world_close(struct wt_world *w)
{
    if (!wt_owns(w->own, w->place)) return; /* with one that was opened before it */
    *w->own = *w;
    wt_release_owned(w->place);
}

int64_t wt_moved(struct wt_world *w, weft_coll kind)
{
    int64_t count = weft_ledger_count(w->ledger, kind, WEFT_DIRECTION_ANY, NULL);

    weft_ledger_reset(w->ledger);
    return count;
}

void wt_moved_only(weft_ledger *ledger, weft_coll kind, int count, const char *file, int line)
{
    int64_t of_kind = weft_ledger_count(ledger, kind, WEFT_DIRECTION_ANY, NULL);
    int64_t all = weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);
    int64_t wanted = wt_ranks() > 1 ? count : 0;

    weft_ledger_reset(ledger);
    if (of_kind != wanted || all != wanted)
        wt_note("%lld of the kind and %lld collectives, not %lld", (long long)of_kind,
                (long long)all, (long long)wanted);
    wt_all(of_kind == wanted && all == wanted, "collectives are counted", file, line);
}

double wt_element(int which, int64_t i)
{
    return which == 0 ? (double)((i * 37 + 11) % 101) / 50 - 1
                      : (double)((i * 53 + 7 * which) % 97) / 48 - 1;
}

weft_tensor *wt_constant(int64_t rows, int64_t columns, double value)
{
    return weft_full(WEFT_F32, (int64_t[]){rows, columns}, 2, value);
}

bool wt_is_all(weft_tensor *t, double value)
{
    weft_scope *scope = weft_scope_open();
    double *got = wt_values(t);
    bool good = got != NULL;

    for (int64_t i = 0; good && i < weft_numel(t); i++) good = got[i] == value;
    if (!good && got) wt_note("element 0 is %g, not %g", got[0], value);
    free(got);
    weft_scope_close(scope);
    return good;
}

bool wt_local_is_all(const weft_tensor *t, double value)
{
    double room[1024];
    bool good = t && weft_read_f64(t, room, 1024) == WEFT_OK;

    for (int64_t i = 0; good && i < weft_local_numel(t); i++) good = room[i] == value;
    if (!good && t && weft_local_numel(t)) wt_note("local element 0 is %g, not %g", room[0], value);
    return good;
}

static weft_tensor *filled(weft_dtype dtype, int which, int ndim, const int64_t *shape)
{
    weft_tensor *t = weft_empty(WEFT_F64, shape, ndim);
    double *data = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) data[i] = wt_element(which, i);
    return weft_cast(t, dtype);
}

weft_tensor *wt_whole(weft_dtype dtype, int which, int64_t a, int64_t b)
{
    return filled(dtype, which, 2, (int64_t[]){a, b});
}

weft_tensor *wt_whole3(weft_dtype dtype, int which, int64_t a, int64_t b, int64_t c)
{
    return filled(dtype, which, 3, (int64_t[]){a, b, c});
}

weft_tensor *wt_spread(struct wt_world *w, weft_tensor *whole, const char *placements)
{
    weft_placement p[WEFT_MAX_AXES];

    weft_placements_parse(p, WEFT_MAX_AXES, placements);
    return weft_distribute_tensor(whole, w->mesh, p, -1);
}

weft_tensor *wt_partial(struct wt_world *w, weft_tensor *t, weft_reduce reduce)
{
    weft_placement p = weft_partial(reduce);

    return weft_from_local(t, w->mesh, &p, NULL);
}

weft_tensor *wt_to(weft_tensor *t, const char *placements)
{
    weft_placement p[WEFT_MAX_AXES];

    weft_placements_parse(p, WEFT_MAX_AXES, placements);
    return weft_redistribute(t, p);
}

bool wt_is_placed(const weft_tensor *t, const char *placements)
{
    weft_placement p[WEFT_MAX_AXES] = {{0}};
    int n = weft_placements_parse(p, WEFT_MAX_AXES, placements);
    char what[128];

    if (!t) return false;
    for (int a = 0; a < n; a++) {
        if (weft_placement_equal(weft_tensor_placement(t, a), p[a])) continue;
        weft_tensor_format(t, what, sizeof what);
        wt_note("%s is not %s", what, placements);
        return false;
    }
    return true;
}
