/* shapes.h: tensors of any number of dims, and every order in which three axes may shard them. */
#pragma once

#include <weft/weft.h>

struct shape {
    int ndim;
    int64_t size[4];
};

/** Plain, every element its own value, positive when `positive`; the same on every rank. */
weft_tensor *shape_whole(const struct shape *shape, bool positive);

/** The placements as text: the mesh decides how many. */
weft_tensor *shape_spread(weft_mesh *mesh, weft_tensor *whole, const char *placements);

/** This rank's elements times a factor, a plain tensor that comes from nowhere: what it stands for
 * is for the caller to say. */
weft_tensor *shape_local(const weft_tensor *t, double factor);

enum { SHAPE_MOST_ORDERS = 120 };

/** Every way to shard the dims of a tensor over all of three axes; returns how many there are. */
int shape_orders(weft_placement (*orders)[WEFT_MAX_AXES], int ndim);

/** The local elements of two tensors of one layout are the same. */
bool shape_same_local(const weft_tensor *a, const weft_tensor *b);
