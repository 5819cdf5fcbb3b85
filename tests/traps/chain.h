/*
 * chain.h: a chain of random ops, done twice: on plain tensors and on distributed ones.
 *
 * All choices come from one number, so every rank makes the same ones and a chain can be made
 * again. Side 0 of everything is plain, side 1 is distributed over the chain's mesh.
 */
#pragma once

#include <weft/weft.h>

enum { CHAIN_LEAVES = 24, CHAIN_MESHES = 16, CHAIN_TEXT = 500, CHAIN_ROOM = 4096 };

struct chain {
    uint64_t state;
    bool meta;                     /* side 1 has no elements */
    weft_mesh *mesh;               /* of x */
    weft_mesh *made[CHAIN_MESHES]; /* to be released */
    int meshes;
    weft_tensor *x[2];
    weft_tensor *leaf[CHAIN_LEAVES][2];
    int leaves;
    char text[CHAIN_TEXT]; /* what was done so far */
    int used;
};

/** The next choice: 0 <= result < n, n > 0. */
int chain_pick(struct chain *c, int n);
/** True once in n. */
bool chain_once_in(struct chain *c, int n);
/** Add to the text. */
void chain_say(struct chain *c, const char *format, ...) WEFT_PRINTF(2, 3);
/** A random size of a dim, 0 and 1 among them. */
int64_t chain_size(struct chain *c);
/** From now on a new mesh: ranks of the world on one to three axes. */
void chain_mesh(struct chain *c);
/** Random placements for a tensor of this shape, none of them partial. */
void chain_placements(struct chain *c, weft_placement *p, int ndim, const int64_t *shape);
void chain_say_placements(struct chain *c, const weft_placement *p);
/** New operands with random elements in [-1, 1) and random placements; leaves that want a
 * gradient. */
void chain_leaf(struct chain *c, weft_tensor **t, int ndim, const int64_t *shape);
/** A tensor on the device that side 1 works on; wants a gradient as t does. */
weft_tensor *chain_place(const struct chain *c, weft_tensor *t);
/** Integers in [0, limit), which want none. */
void chain_indices(struct chain *c, weft_tensor **t, int ndim, const int64_t *shape, int limit);

/** On both sides, x becomes `call`, an expression of x and the side s. */
#define BOTH(c, call)                                                                              \
    for (int s = 0; s < 2; s++) {                                                                  \
        weft_tensor *x = (c)->x[s];                                                                \
        (c)->x[s] = (call);                                                                        \
    }

/** The shape of x. */
int chain_ndim(const struct chain *c);
int64_t chain_dim(const struct chain *c, int dim);
void chain_shape(const struct chain *c, int64_t *shape);

/** One random change of x's shape or layout; false when it does not fit. */
bool chain_view(struct chain *c);

/** One random step that fits the shape of x. */
void chain_step(struct chain *c);
/** A number from x: the loss, on both sides. */
void chain_loss(struct chain *c, weft_tensor **loss);
