/* recorder.c: the recorder of this thread. */
#include "base/recorder.h"

#include <stdarg.h>
#include <stdio.h>

_Thread_local struct wf_recorder *wf_recorder;
_Thread_local bool wf_others_may_record;
_Thread_local uint8_t wf_recording_number;

uint8_t wf_next_recording_number(void)
{
    static _Thread_local uint8_t last;

    if (++last == 0) last = 1;
    return wf_recording_number = last;
}

void wf_recorder_leave(const char *format, ...)
{
    char reason[256];
    va_list args;

    if (!wf_recorder) return;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    wf_recorder->leave(wf_recorder, reason);
}
