/* print_knobs.c: the settings that the library reads from the environment. */
#include <weft/extend/debug.h>

#include "base/error.h"
#include "base/settings/knob.h"

void weft_print_knobs(FILE *out)
{
    WF_NEED_VOID(out, WEFT_ERR_ARG, "print knobs: no file");
    wf_knobs_print(out);
}
