/* compile_level.c: WEFT_COMPILE and WEFT_COMPILE_OFF. */
#include "compile/tools/compile_level.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/settings/knob.h"

static const char *const levels[] = {[WF_LEVEL_EAGER] = "eager",
                                     [WF_LEVEL_CAPTURE] = "capture",
                                     [WF_LEVEL_AOT] = "aot",
                                     [WF_LEVEL_FULL] = "full",
                                     [WF_LEVEL_GRAPH] = "graph"};

weft_status wf_compile_level_read(enum wf_compile_level *level)
{
    const char *word = wf_knobs.compile;

    *level = WF_LEVEL_FULL;
    if (!word || !word[0]) return WEFT_OK;
    for (int i = 0; i <= WF_LEVEL_GRAPH; i++) {
        if (strcmp(word, levels[i]) != 0) continue;
        *level = (enum wf_compile_level)i;
        return WEFT_OK;
    }
    return WF_FAIL(WEFT_ERR_ARG, "compile: WEFT_COMPILE is %s: eager, capture, aot, full or graph",
                   word);
}

char *wf_compile_switched_off(enum wf_compile_level level, bool plain, bool foreign,
                              const char *off)
{
    const char *knob = wf_knobs.compile_off ? wf_knobs.compile_off : "";

    if (plain || level < WF_LEVEL_FULL) return wf_strdup("all");
    if (!off) off = "";
    if (!off[0] && !knob[0] && !foreign) return NULL;
    return wf_format("%s,%s%s", off, knob, foreign ? ",fuse" : "");
}
