/* timing.c: rounds of calls, by the host's clock. */
#include "gpu/check/timing.h"

#include <stdlib.h>

#include <weft/weft.h>

#include "base/sys.h"
#include "gpu/check/report.h"

enum { ROUNDS = 7, CALLS = 10 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* What the compute stream was given has run. */
static void wait_for_device(weft_tensor *mark)
{
    if (weft_fill_(mark, 1) != WEFT_OK || weft_item(mark) != 1) abort();
}

double timing_of(void (*call)(void *payload), void *payload)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *mark = weft_to_device(weft_full(WEFT_F32, NULL, 0, 0), WEFT_CUDA);
    double seconds[ROUNDS];

    call(payload); /* plans, memory */
    for (int round = 0; round < ROUNDS; round++) {
        double begin;

        wait_for_device(mark);
        begin = wf_monotonic_seconds();
        for (int i = 0; i < CALLS; i++) {
            weft_scope *results = weft_scope_open();

            call(payload);
            weft_scope_close(results);
        }
        wait_for_device(mark);
        seconds[round] = (wf_monotonic_seconds() - begin) / (double)CALLS;
    }
    weft_scope_close(scope);
    qsort(seconds, ROUNDS, sizeof *seconds, compare);
    return report_worst(seconds[ROUNDS / 2], REPORT_AT_MOST);
}
