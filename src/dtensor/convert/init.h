/* init.h: what src/weft.c calls. */
#pragma once

/** Hand the tape its upcalls; once per process, before any rank runs. */
void wf_dtensor_init(void);
