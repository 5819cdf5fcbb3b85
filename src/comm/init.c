/* init.c: how the world of this process begins and ends. */
#include "comm/backend.h"

weft_status wf_comm_init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return WEFT_OK;
}

void wf_comm_finalize(void) { wf_comm_drop_subs(); }
