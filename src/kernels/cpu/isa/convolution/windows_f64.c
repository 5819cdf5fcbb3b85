/* windows_f64.c: see the template. */
#define WF_NUMBER double
#define WF_TABLE wf_windows_f64
#include "windows.inc"
