/*
 * types.h: the handles and enumerations that headers of several layers name, so that none has to
 * include another for a name alone. Programs get it with any other header.
 */
#pragma once

typedef struct weft_mesh weft_mesh;     /* mesh.h */
typedef struct weft_tensor weft_tensor; /* tensor.h */

/** Where the elements of a tensor are (docs/concepts/devices.md). */
typedef enum weft_device {
    WEFT_CPU,
    WEFT_META, /* nowhere: shape, dtype and placements only (docs/concepts/ownership.md) */
    WEFT_CUDA, /* this rank's GPU */
    WEFT_DEVICES
} weft_device;

/** How the terms of several ranks become one value. */
typedef enum weft_reduce {
    WEFT_SUM,
    WEFT_AVG,
    WEFT_PRODUCT,
    WEFT_MAX,
    WEFT_MIN,
    WEFT_MASKED, /* a sum in which, per element, at most one rank's term is not zero */
    WEFT_NORM,   /* (sum of |term|^p)^(1/p) */
    WEFT_REDUCE_COUNT
} weft_reduce;

/** The kinds of collectives that a ledger counts (extend/debug.h). */
typedef enum weft_coll {
    WEFT_COLL_ALL_REDUCE,
    WEFT_COLL_ALL_GATHER,
    WEFT_COLL_REDUCE_SCATTER,
    WEFT_COLL_ALL_TO_ALL,
    WEFT_COLL_BROADCAST,
    WEFT_COLL_SCATTER,
    WEFT_COLL_GATHER,
    WEFT_COLL_SEND,
    WEFT_COLL_RECV,
    WEFT_COLL_BARRIER,
    WEFT_COLL_REDUCE, /* a reduce-scatter whose whole result goes to one rank */
    WEFT_COLL_COUNT
} weft_coll;
