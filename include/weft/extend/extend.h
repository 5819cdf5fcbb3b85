/*
 * extend.h: what extends and inspects the library, beside what a model is written with. weft.h
 * includes it; a file that needs one of these headers may name that one alone.
 *
 *     collective.h      collectives on plain tensors, for programs that keep their own account
 *     local_map.h       a function on this rank's shards
 *     register.h        ops and sharding rules of one's own
 *     guard.h           which redistributions and replications ops may make unasked
 *     layout.h          layouts on paper: who holds what
 *     dtensor_spec.h    a distributed tensor taken apart and put together
 *     redistribution.h  what a redistribution would do and cost
 *     compile_backend.h what runs the lists of compiled functions instead of the library
 *     step_graph.h      a step whose work on a GPU is captured once and launched again
 *     plan_cache.h      the cache of dispatch
 *     memory.h          bytes by category
 *     debug.h           the ledger of collectives, and the settings
 *     explain.h         pictures, explanations, traces, forecasts
 */
#pragma once

#include <weft/extend/collective.h>
#include <weft/extend/compile_backend.h>
#include <weft/extend/debug.h>
#include <weft/extend/dtensor_spec.h>
#include <weft/extend/explain.h>
#include <weft/extend/guard.h>
#include <weft/extend/layout.h>
#include <weft/extend/local_map.h>
#include <weft/extend/memory.h>
#include <weft/extend/plan_cache.h>
#include <weft/extend/redistribution.h>
#include <weft/extend/register.h>
#include <weft/extend/step_graph.h>
