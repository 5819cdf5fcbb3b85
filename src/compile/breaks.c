/* breaks.c: where a program wants its own code to run. */
#include "base/error.h"
#include "base/recorder.h"
#include "compile/compiled.h"

void weft_graph_break(const char *reason)
{
    wf_recorder_leave("%s", reason ? reason : "weft_graph_break");
}

_Thread_local int wf_compile_disabled_regions;

void weft_compile_disable_open(void)
{
    wf_compile_disabled_regions++;
    if (!wf_recorder) return;
    wf_recorder_leave("a region that is not compiled");
    wf_recorder->suspended++;
}

weft_status weft_compile_disable_close(void)
{
    WF_NEED(wf_compile_disabled_regions > 0, WEFT_ERR_STATE,
            "compile_disable_close: no region is open");
    wf_compile_disabled_regions--;
    if (!wf_recorder || wf_recorder->suspended == 0) return WEFT_OK;
    wf_recorder->suspended--;
    wf_recorder_leave("the end of a region that is not compiled");
    return WEFT_OK;
}
