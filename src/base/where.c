#include "base/where.h"

_Thread_local struct wf_where wf_here;
