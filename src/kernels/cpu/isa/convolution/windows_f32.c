/* windows_f32.c: see the template. */
#define WF_NUMBER float
#define WF_TABLE wf_windows_f32
#include "windows.inc"
