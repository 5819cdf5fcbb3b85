/* compile_level.h: how far functions are compiled, to find where a failure begins. */
#pragma once

#include <stdbool.h>

#include <weft/error.h>

enum wf_compile_level {
    WF_LEVEL_EAGER,   /* the function runs */
    WF_LEVEL_CAPTURE, /* it is recorded in every call; no list is used */
    WF_LEVEL_AOT,     /* lists are replayed as they were recorded */
    WF_LEVEL_FULL,    /* after all passes */
    WF_LEVEL_GRAPH    /* and launched as graphs of the GPU */
};

/** What WEFT_COMPILE says. fails: WEFT_ERR_ARG for a word that is none of them */
weft_status wf_compile_level_read(enum wf_compile_level *level);

/** What is left out on this level, by the backend, the config and the environment. `foreign`: the
 * list is for a program's own backend, which gets each op as a node. gives: a text to free; NULL:
 * nothing */
char *wf_compile_switched_off(enum wf_compile_level level, bool plain, bool foreign,
                              const char *off);
