/*
 * guard.h: which implicit redistributions and replications ops may make
 * (docs/concepts/dispatch.md). All of it per thread; regions nest by restoring the previous value.
 */
#pragma once

#include <weft/export.h>

/** What happens when an op would redistribute an operand without being asked to. */
typedef enum weft_guard {
    WEFT_GUARD_OFF = 0,
    WEFT_GUARD_WARN = 1,  /* a log line, once for each kind of call */
    WEFT_GUARD_ERROR = 2, /* WEFT_ERR_LAYOUT, before anything is sent */
    WEFT_GUARD_STRICT = 4 /* added to one of these: also what needs no communication */
} weft_guard;

/**
 * Watch implicit redistribution from now on, in forward and in backward. weft_redistribute,
 * weft_full_tensor and bringing a gradient to its leaf's layout are explicit and never refused.
 *
 *     weft_guard before = weft_guard_set(WEFT_GUARD_ERROR);
 *     ...
 *     weft_guard_set(before);
 *
 * ranks: every rank of the meshes in use alike; local
 * gives: the guard that was set before
 */
WEFT_API weft_guard weft_guard_set(weft_guard guard);

/** What happens when an op gets a plain tensor of several elements beside a distributed one. */
typedef enum weft_implicit_replication {
    WEFT_IMPLICIT_REPLICATION_OFF,    /* WEFT_ERR_LAYOUT */
    WEFT_IMPLICIT_REPLICATION_ON,     /* it is taken as replicated: equal on all ranks */
    WEFT_IMPLICIT_REPLICATION_CHECKED /* and a hash of it is compared over the mesh, each time */
} weft_implicit_replication;

/**
 * Let plain tensors mix with distributed ones from now on. Plain tensors of one element always do.
 *
 * ranks: every rank of the meshes in use alike; local, the check of a call is collective
 * gives: what was set before
 */
WEFT_API weft_implicit_replication weft_implicit_replication_set(weft_implicit_replication mode);
