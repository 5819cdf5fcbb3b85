/*
 * compile_backend.h: running the lists of compiled functions in another way
 * (docs/concepts/compile.md). A backend gets each list when it is complete, may look at it, and
 * gives back what runs it. PyTorch: torch._dynamo.register_backend.
 *
 * Stability: experimental: fields and kinds of nodes will be added.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/dtype.h>
#include <weft/error.h>
#include <weft/types.h>

/** What runs of a function, in order; as long as the compiled function lives. */
typedef struct weft_list weft_list;
/** One run of it, while it lasts. */
typedef struct weft_list_run weft_list_run;

enum { WEFT_LIST_MAX_IN = 8, WEFT_LIST_MAX_OUT = 4 };

typedef enum weft_list_kind {
    WEFT_LIST_KERNEL, /* of an op, from `in` to `out` */
    WEFT_LIST_FUSED,  /* of several ops, piece by piece */
    WEFT_LIST_UPDATE, /* an optimizer changes parameters, or one of them, which it does not name:
                         those of a list are run in their order */
    WEFT_LIST_COPY,
    WEFT_LIST_FILL,
    WEFT_LIST_START, /* of a collective, from in[0] to out[0] */
    WEFT_LIST_WAIT,  /* for a collective that was started */
    WEFT_LIST_DIVIDE,
    WEFT_LIST_POWER,
    WEFT_LIST_DELIVER /* in[0] is added to the gradient of a parameter, whose gradient hook may take
                         it: data parallelism, or an optimizer that updates in backward. Run at
                         most once, and no earlier node after it; what is not run is added after
                         the run */
} weft_list_kind;

/** Where an operand lies, and how its elements do on this rank. */
typedef struct weft_list_operand {
    int storage;    /* operands of one number share bytes; -1: there is none */
    int64_t offset; /* bytes from the storage's beginning to the first element */
    weft_device device;
    bool has_shape; /* false: bytes of a copy or a collective */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS];
} weft_list_operand;

typedef struct weft_list_node {
    const char *op, *module; /* module NULL: of none */
    weft_list_kind kind;
    bool in_place; /* out[0] was there before */
    int n_in, n_out;
    weft_list_operand in[WEFT_LIST_MAX_IN], out[WEFT_LIST_MAX_OUT];
} weft_list_node;

/** Nodes of the list. ranks: any; local */
WEFT_API int weft_list_node_count(const weft_list *list);

/** Node i; all zero beyond the last. ranks: any; local */
WEFT_API weft_list_node weft_list_node_at(const weft_list *list, int i);

/** Let the library run node i. Collectives must start in the same order on all ranks, and nodes
 *  run in the list's order are right.
 *  ranks: as the node: all of the mesh for a collective */
WEFT_API void weft_list_run_node(const weft_list_run *run, int i);

/** The first element of an operand in this run, in memory of its device; NULL for one that there is
 *  not.
 *  ranks: any; local */
WEFT_API void *weft_list_run_address(const weft_list_run *run, const weft_list_operand *operand);

/** What runs a list: called once per run, and released with the list. */
typedef struct weft_list_runner {
    void (*run)(const weft_list_run *run, void *state); /* NULL: the library runs it */
    void (*release)(void *state);                       /* NULL: nothing is to be done */
    void *state;
} weft_list_runner;

/** Looks at a list and says what runs it.
 *  gives: an error's status ends the call that made the list */
typedef weft_status weft_compile_backend(const weft_list *list, weft_list_runner *runner);

/**
 * A backend that weft_compile_config.backend can name, on this rank from now on.
 *
 * ranks: all that compile with it; local
 * fails: WEFT_ERR_ARG without a name or function, for names that are taken and beyond 16 of them
 */
WEFT_API weft_status weft_compile_backend_register(const char *name, weft_compile_backend *backend);

/** Name of backend i of this rank: "weft", the library itself, "in_order", which the library runs
 *  without passes, then those registered; NULL beyond the last.
 *  ranks: any; local */
WEFT_API const char *weft_compile_backend_name(int i);
