/*
 * guard.h: which implicit redistributions and replications ops may make
 * (docs/concepts/dispatch.md). All of it per thread; at most 64 regions of each kind nest.
 */
#pragma once

#include <weft/error.h>

/** What happens when an op would redistribute an operand without being asked to. */
typedef enum weft_guard {
    WEFT_GUARD_OFF = 0,
    WEFT_GUARD_WARN = 1,  /* a log line, once for each kind of call */
    WEFT_GUARD_ERROR = 2, /* WEFT_ERR_LAYOUT, before anything is sent */
    WEFT_GUARD_STRICT = 4 /* added to one of these: also what needs no communication */
} weft_guard;

/**
 * Watch implicit redistribution until the region is closed, in forward and in backward.
 * weft_redistribute, weft_full_tensor and bringing a gradient to its leaf's layout are explicit and
 * never refused.
 *
 *     weft_guard_open(WEFT_GUARD_ERROR);
 *     ...
 *     weft_guard_close();
 *
 * ranks: every rank of the meshes in use alike; local
 * fails: close: WEFT_ERR_STATE when none is open, which changes nothing; open: when 64 are
 */
WEFT_API weft_status weft_guard_open(weft_guard guard);
WEFT_API weft_status weft_guard_close(void);

/** What holds now. ranks: any; local */
WEFT_API weft_guard weft_guard_current(void);

/** What happens when an op gets a plain tensor of several elements beside a distributed one. */
typedef enum weft_implicit_replication {
    WEFT_IMPLICIT_REPLICATION_OFF,    /* WEFT_ERR_LAYOUT */
    WEFT_IMPLICIT_REPLICATION_ON,     /* it is taken as replicated: equal on all ranks */
    WEFT_IMPLICIT_REPLICATION_CHECKED /* and a hash of it is compared over the mesh, each time */
} weft_implicit_replication;

/**
 * Let plain tensors mix with distributed ones until the region is closed. Plain tensors of one
 * element always do.
 *
 * ranks: every rank of the meshes in use alike; local, the check of a call is collective
 * fails: as weft_guard_open and weft_guard_close
 */
WEFT_API weft_status weft_implicit_replication_open(weft_implicit_replication mode);
WEFT_API weft_status weft_implicit_replication_close(void);

/** What holds now. ranks: any; local */
WEFT_API weft_implicit_replication weft_implicit_replication_current(void);
