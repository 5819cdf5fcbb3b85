/* ladder.c: WEFT_COMPILE and WEFT_COMPILE_OFF. */
#include "compile/tools/ladder.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/settings/knob.h"

static const char *const rungs[] = {[WF_RUNG_EAGER] = "eager",
                                    [WF_RUNG_CAPTURE] = "capture",
                                    [WF_RUNG_AOT] = "aot",
                                    [WF_RUNG_FULL] = "full"};

weft_status wf_compile_rung_read(enum wf_compile_rung *rung)
{
    const char *word = wf_knobs.compile;

    *rung = WF_RUNG_FULL;
    if (!word || !word[0]) return WEFT_OK;
    for (int i = 0; i <= WF_RUNG_FULL; i++) {
        if (strcmp(word, rungs[i]) != 0) continue;
        *rung = (enum wf_compile_rung)i;
        return WEFT_OK;
    }
    return WF_FAIL(WEFT_ERR_ARG, "compile: WEFT_COMPILE is %s: eager, capture, aot or full", word);
}

char *wf_compile_switched_off(enum wf_compile_rung rung, bool plain, bool foreign, const char *off)
{
    const char *knob = wf_knobs.compile_off ? wf_knobs.compile_off : "";

    if (plain || rung < WF_RUNG_FULL) return wf_strdup("all");
    if (!off) off = "";
    if (!off[0] && !knob[0] && !foreign) return NULL;
    return wf_format("%s,%s%s", off, knob, foreign ? ",fuse" : "");
}
