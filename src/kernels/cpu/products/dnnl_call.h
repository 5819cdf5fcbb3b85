/* dnnl_call.h: what stands around every call of oneDNN. */
#pragma once

#include <dnnl.h>

#include "base/error.h"

#define WF_DNNL_TRY(call)                                                                          \
    do {                                                                                           \
        dnnl_status_t try_status = (call);                                                         \
        if (try_status != dnnl_success) WF_DIE("oneDNN: %s gave %d", #call, (int)try_status);      \
    } while (0)

/** Hold oneDNN to the knob's threads; gives what to restore afterwards. */
int wf_dnnl_limit_threads(void);
void wf_dnnl_restore_threads(int before);
