/*
 * fused.h: kernels that run one after another on some rows of their operands at a time, so that
 * what one gives the next finds in the cache. What only they read lies in a place of the tile's
 * size.
 */
#pragma once

#include "compile/replay/program.h"

struct wf_fused;

/** How an operand goes along with the rows of a tile. */
struct wf_fused_operand {
    int storage; /* -1: there is none */
    int64_t offset;
    int64_t row_bytes; /* 0: whole in every tile */
    bool inner;        /* only steps of this node write and read it */
};

/** A kernel of a tile. */
struct wf_fused_step {
    struct wf_op_plan *plan;
    const struct wf_scalars *scalars;
    struct wf_fused_operand in[WF_MAX_IN], out[WF_MAX_OUT];
    bool flat; /* operands are runs of elements, or one element; else they keep their dims */
};

/** Steps in order, over `rows` rows. gives: wf_fused_free; NULL where a kernel refuses */
struct wf_fused *wf_fused_new(const struct wf_fused_step *steps, int n, int64_t rows);
void wf_fused_free(struct wf_fused *fused); /* NULL is allowed */

void wf_fused_run(const struct wf_op_list *list, const struct wf_list_node *node,
                  const struct wf_program_run *run);

/** The storages that it reads and then those that it writes; not the inner ones. */
void wf_fused_visit_storages(const struct wf_fused *fused, wf_storage_visitor *visit,
                             void *payload);

/** "fused: add gelu mul", of at most `bytes`. */
void wf_fused_print(const struct wf_fused *fused, char *text, size_t bytes);
/** Bytes of the place for what is only between its steps. */
int64_t wf_fused_scratch(const struct wf_fused *fused);
