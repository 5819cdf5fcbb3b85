/*
 * input_copies.h: inputs of one run that lie in what the list updates before it has read them
 * (passes/updates.c): a parameter, or a state of an optimizer. They are read from copies.
 */
#pragma once

#include "compile/record/guards.h"
#include "compile/replay/program.h"

struct wf_input_copies {
    int n;
    struct {
        int storage;
        char *base; /* of the input itself */
        struct wf_block *block;
    } of[WF_COMPILED_INPUTS];
};

/** Copy such inputs, and let the run read the copies. gives: an error status without memory */
weft_status wf_input_copies_make(struct wf_input_copies *copies, const struct wf_op_list *list,
                                 struct wf_program_run *run, weft_tensor *const *in);
/** After the run: addresses are those of the inputs again. */
void wf_input_copies_release(struct wf_input_copies *copies, struct wf_program_run *run);
