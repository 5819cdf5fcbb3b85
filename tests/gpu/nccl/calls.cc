/* calls.cc: every call of NCCL passes here: it is counted, and fails when it is the one that
 * WT_NCCL_FAIL names. */
#include "nccl_stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace nccl_stand_in
{

static long calls;

/* Of the call that WT_NCCL_FAIL asks for: N or N:ERROR. */
static ncclResult_t planned_error(const char *name)
{
    static const char *plan = getenv("WT_NCCL_FAIL");
    const char *colon = plan ? strchr(plan, ':') : nullptr;
    ncclResult_t error = colon ? static_cast<ncclResult_t>(atoi(colon + 1)) : ncclSystemError;

    calls++;
    if (!plan || atol(plan) != calls) return ncclSuccess;
    fprintf(stderr, "nccl stand-in: call %ld, %s, fails with error %d\n", calls, name, error);
    return error;
}

ncclResult_t nccl_call(const char *name, const call_body &body)
{
    ncclResult_t result = ncclSuccess;

    stand_in::with_runtime_lock(name, [&](locked &lock) {
        result = planned_error(name);
        if (result == ncclSuccess) result = body(lock);
    });
    return result;
}

} // namespace nccl_stand_in

using namespace nccl_stand_in;

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    return nccl_call(__func__, [&](locked &) {
        *version = static_cast<int>(stand_in::setting("WT_NCCL_VERSION", NCCL_VERSION_CODE));
        return ncclSuccess;
    });
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess:
        return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
        return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
        return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
        return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
        return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    case ncclInProgress:
        return "NCCL operation in progress";
    default:
        return "unknown result code";
    }
}
}
