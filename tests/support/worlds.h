/* worlds.h: what most cases with ranks begin and end with: a mesh, a scope, a ledger, and no leak.
 */
#pragma once

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/near.h"
#include "support/owned.h"

struct wt_world {
    weft_mesh *mesh;
    weft_scope *scope;
    weft_ledger *ledger;
    int64_t tensors;
    struct wt_world *own; /* what the case owns of it, and where */
    int place;
};

/** A mesh with one axis "tp" of all ranks, an open scope and ledger. The end of the case, or of a
 * row, closes them. */
struct wt_world wt_world_open(void);
/** "dp=..,tp=.." instead. The text takes printf arguments. */
struct wt_world wt_world_open_mesh(const char *format, ...) WEFT_PRINTF(1, 2);
/** "dp=2,tp=.." of an even number of ranks, "dp=1,tp=.." of an odd one. */
struct wt_world wt_world_open_two_axes(void);
/** Some axes of the mesh, as a mesh that the case owns. */
weft_mesh *wt_part(const struct wt_world *w, const char *axes);
/** Close them, once what is owned since is released; no tensor may be left, on any rank. */
void wt_world_close(struct wt_world *w);

/** Collectives of a kind (WEFT_COLL_COUNT: all) since open or the last call of wt_moved. */
int64_t wt_moved(struct wt_world *w, weft_coll kind);
/** `count` collectives of one kind and no other happened, on more than one rank; none on one. */
#define WT_MOVED(w, kind, count) wt_moved_only((w)->ledger, (kind), (count), __FILE__, __LINE__)
/** No collective happened. */
#define WT_STILL(w) wt_moved_only((w)->ledger, WEFT_COLL_COUNT, 0, __FILE__, __LINE__)
void wt_moved_only(weft_ledger *ledger, weft_coll kind, int count, const char *file, int line);

/** Element i of the tests' whole tensors; `which` tells operands apart. */
double wt_element(int which, int64_t i);

/** The whole tensor, plain, the same on every rank; 2 dims, or 3 with `c` > 0. */
weft_tensor *wt_whole(weft_dtype dtype, int which, int64_t a, int64_t b);
weft_tensor *wt_whole3(weft_dtype dtype, int which, int64_t a, int64_t b, int64_t c);

/** A plain f32 matrix of one value. */
weft_tensor *wt_constant(int64_t rows, int64_t columns, double value);

/** All elements, of the whole or of this rank's shard, are exactly this. */
bool wt_is_all(weft_tensor *t, double value);
bool wt_local_is_all(const weft_tensor *t, double value);

/** A whole tensor, spread over the world's mesh without communication. */
weft_tensor *wt_spread(struct wt_world *w, weft_tensor *whole, const char *placements);

/** A partial tensor with local terms that all are `t`. */
weft_tensor *wt_partial(struct wt_world *w, weft_tensor *t, weft_reduce reduce);

/** Redistribute, with placements as text. */
weft_tensor *wt_to(weft_tensor *t, const char *placements);

/** The placements are these. */
bool wt_is_placed(const weft_tensor *t, const char *placements);

/** A case within a world: opened before its body, which knows it as `w` (a pointer), and closed
 *  after it. */
#define WT_TEST_IN_WORLD(name, w) WT_TEST_IN(name, w, wt_world_open())
/** In the world that the expression `open` gives. */
#define WT_TEST_IN(name, w, open)                                                                  \
    static void in_##name(struct wt_world *w);                                                     \
    WT_TEST(name)                                                                                  \
    {                                                                                              \
        struct wt_world world = open;                                                              \
                                                                                                   \
        in_##name(&world);                                                                         \
        wt_world_close(&world);                                                                    \
    }                                                                                              \
    static void in_##name(struct wt_world *w CK_ATTRIBUTE_UNUSED)

/** Only where the condition holds. */
#define WT_TEST_IN_IF(name, w, condition, open)                                                    \
    WT_TEST_TIMES_IN(name, w, i_, (condition) ? 1 : 0, open)

/** For each `i` below `times`, in a world of its own. The report of a failure says which. */
#define WT_TEST_TIMES_IN_WORLD(name, w, i, times)                                                  \
    WT_TEST_TIMES_IN(name, w, i, times, wt_world_open())
#define WT_TEST_TIMES_IN(name, w, i, times, open)                                                  \
    static void in_##name(struct wt_world *w, int i);                                              \
    WT_TEST(name)                                                                                  \
    {                                                                                              \
        for (int time = 0; time < (times); time++) {                                               \
            struct wt_world world;                                                                 \
                                                                                                   \
            wt_row("time %d", time);                                                               \
            world = open;                                                                          \
            in_##name(&world, time);                                                               \
            wt_world_close(&world);                                                                \
        }                                                                                          \
    }                                                                                              \
    static void in_##name(struct wt_world *w CK_ATTRIBUTE_UNUSED, int i CK_ATTRIBUTE_UNUSED)
