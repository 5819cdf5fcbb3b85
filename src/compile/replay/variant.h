/*
 * variant.h: the lists of a function for one kind of inputs: forward, and backward where results
 * require gradients.
 */
#pragma once

#include <weft/compile.h>

#include "compile/passes/passes.h"
#include "compile/record/guards.h"
#include "compile/replay/program.h"
#include "compile/tools/profile.h"

struct wf_taped_call;

/** A leaf or an input whose gradient a backward list gives, in the order of its results. */
struct wf_gradient_target {
    weft_tensor *leaf; /* one reference; NULL: an input */
    int input;         /* -1: a leaf */
    /* where a node of the list delivers it: */
    bool is_last_use; /* nothing else is read of its bytes or lies in them */
    bool leaf_is_read_later;
};

struct wf_variant {
    struct wf_guards *guards;
    struct wf_op_list *forward, *backward; /* backward: NULL until the first backward, or none */
    struct wf_op_list *forward_moves,
        *backward_moves; /* as they were before lowering, for printing */
    struct wf_program *forward_program, *backward_program; /* NULL: not ready */
    uint64_t steps;             /* wf_op_list_steps of the forward list, as it was recorded */
    bool differentiable;        /* some result requires a gradient */
    int calls_without_backward; /* since it was recorded, while the first backward has not come */
    struct wf_saved_bytes saved;
    bool reaches[WF_COMPILED_INPUTS]; /* backward from some result: these inputs */
    struct wf_gradient_target *targets;
    int n_targets;
    struct wf_taped_call *idle;          /* of calls whose tape is gone */
    struct wf_layout **gradient_layouts; /* of the results, as the backward list reads them */
    char *passes_off;
    weft_mesh *mesh; /* whose ranks run it together; one reference, NULL: of no mesh */
    char *unusable;  /* why it will never run; NULL: it can */
    char *name;
    weft_compile_backend *backend; /* NULL: the library's own */
    bool graph;                    /* lists on a GPU are launched as graphs */
    struct wf_compile_times times;
    int64_t backward_replays;
    int refs; /* calls may outlive the compiled function */
};

void wf_variant_release(struct wf_variant *variant); /* NULL is allowed */

/** Forget what the backward list gives; with the results of the list. */
void wf_variant_free_gradient_targets(struct wf_variant *variant);

/** Its lists are there and may run. */
bool wf_variant_is_ready(const struct wf_variant *variant);

/** Run the forward list. in: as the guards say. */
weft_status wf_variant_replay(struct wf_variant *variant, weft_tensor *const *in,
                              weft_tensor **out);

/** What the capture of a forward leaves for the capture of its backward. */
struct wf_captured_forward {
    weft_tensor **aliases;         /* the inputs as leaves of the inner tape; n_in of them */
    weft_tensor **out;             /* the inner results; n_out of them */
    struct wf_known_block *blocks; /* that are alive, one reference each, and their storages */
    int n_in, n_out, n_blocks;
    uint64_t tape_start; /* nodes that were on the tape before are not the inner tape's */
};

/** Release the inner tape, by its inputs and results / all of it. */
void wf_captured_forward_drop_tape(struct wf_captured_forward *captured);
void wf_captured_forward_free(struct wf_captured_forward *captured);

/** The block in which a storage of the forward list lies in this run. */
struct wf_block *wf_variant_block(const struct wf_variant *variant,
                                  const struct wf_program_run *run, int storage,
                                  weft_tensor *const *in);

/** Make programs of the lists, when all of them are there. */
weft_status wf_variant_finish(struct wf_variant *variant);

/** Unusable where it is for one rank, or ranks would do other collectives than each other. ranks:
 * all of its mesh, also those on which something failed */
void wf_variant_agree_across_ranks(struct wf_variant *variant);
