/* ladder.h: how far functions are compiled, to find where a failure begins. */
#pragma once

#include <stdbool.h>

#include <weft/error.h>

enum wf_compile_rung {
    WF_RUNG_EAGER,   /* the function runs */
    WF_RUNG_CAPTURE, /* it is recorded in every call; no list is used */
    WF_RUNG_AOT,     /* lists are replayed as they were recorded */
    WF_RUNG_FULL
};

/** What WEFT_COMPILE says. fails: WEFT_ERR_ARG for a word that is no rung */
weft_status wf_compile_rung_read(enum wf_compile_rung *rung);

/** What is left out on this rung, by the backend, the config and the environment. `foreign`: the
 * list is for a program's own backend, which gets each op as a node. gives: a text to free; NULL:
 * nothing */
char *wf_compile_switched_off(enum wf_compile_rung rung, bool plain, bool foreign, const char *off);
