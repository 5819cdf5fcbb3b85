/* fused_steps.h: a fused node: what fused_make.c decides and fused.c runs. */
#pragma once

#include "compile/replay/fused.h"
#include "kernels/cpu/pointwise/chain.h"

enum {
    FUSED_LINE = 64, /* bytes */
    FUSED_WHOLE = 0,
    FUSED_REST = 1,  /* the last tile, of fewer rows */
    FUSED_CHAIN = 32 /* steps of a chain of formulas, at most */
};

struct wf_tile_step {
    struct wf_fused_step of;
    struct wf_scalars scalars;
    struct wf_kernel_call call[2];
    struct wf_tensor_desc *descs[2];                  /* of its inputs, then of its outputs */
    int64_t in_step[WF_MAX_IN], out_step[WF_MAX_OUT]; /* bytes from tile to tile */
    char *in_scratch[WF_MAX_IN], *out_scratch[WF_MAX_OUT];
    const void *from[WF_MAX_IN]; /* of the tile that runs */
    void *to[WF_MAX_OUT];
    /* formulas whose values stay in registers (kernels/cpu/pointwise/chain.h) */
    int chain; /* how many steps from here on are one; 0: this is none, or no first one */
    enum wf_chain_code code;
    int other; /* operand that is an array; -1: none */
    bool stores;
    bool is_far;              /* it stores a long result where that belongs, past the cache */
    bool is_long[WF_MAX_OUT]; /* made in scratch, and stored past the cache at `at` */
    char *at[WF_MAX_OUT];
};

struct wf_fused {
    struct wf_tile_step *steps;
    int n;
    int64_t rows, tile;
    char *scratch; /* from wf_malloc, */
    int64_t scratch_bytes;
    struct ahead { /* a run of bytes of each tile that the next tile reads */
        int step, in;
        int64_t bytes;
    } * ahead;
    int n_ahead;
    bool any_long;
    struct outside { /* storages that it reads, and then those that it writes */
        int storage;
        bool write;
    } * outside;
    int n_outside;
};
