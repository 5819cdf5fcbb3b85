/* profile.c: reasons of misses, each counted once it has been seen. */
#include "compile/tools/profile.h"

#include "base/error.h"
#include "compile/compiled.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"

enum { MOST_REASONS = 64 };

void wf_misses_add(struct wf_misses *misses, const char *reason)
{
    for (int i = 0; i < misses->n; i++) {
        if (strcmp(misses->of[i].reason, reason) != 0) continue;
        misses->of[i].count++;
        return;
    }
    if (misses->n == MOST_REASONS) {
        misses->others++;
        return;
    }
    misses->of = wf_array_grow(misses->of, misses->n, sizeof *misses->of);
    misses->of[misses->n].count = 1;
    snprintf(misses->of[misses->n++].reason, WF_REASON_BYTES, "%s", reason);
}

void weft_compiled_profile_print(const weft_compiled *compiled, FILE *out)
{
    static const char *const phases[WF_COMPILE_PHASES] = {"record", "passes", "lower",
                                                          "plan",   "run",    "run backward"};
    weft_compiled_counts counts = weft_compiled_get_counts(compiled);

    WF_NEED_VOID(out, WEFT_ERR_ARG, "compiled profile: no file");
    fprintf(
        out, "%s: %lld calls, %lld captures, %lld hits, %lld immediate, %lld backward replays\n",
        compiled->name, (long long)counts.calls, (long long)counts.captures,
        (long long)counts.replays, (long long)counts.immediate, (long long)counts.backward_replays);
    if (counts.launches)
        fprintf(out, "%lld lists launched as CUDA graphs\n", (long long)counts.launches);
    if (counts.saved_without)
        fprintf(out, "%lld bytes saved for backward, %lld without min_cut\n",
                (long long)counts.saved, (long long)counts.saved_without);
    for (int i = 0; i < compiled->misses.n; i++)
        fprintf(out, "%lld missed: %s\n", (long long)compiled->misses.of[i].count,
                compiled->misses.of[i].reason);
    if (compiled->misses.others)
        fprintf(out, "%lld missed for other reasons\n", (long long)compiled->misses.others);
    for (int p = 0; p < WF_COMPILE_PHASES; p++) {
        double seconds = compiled->times.seconds[p];
        int64_t times = compiled->times.count[p];

        for (int i = 0; i < compiled->n_variants; i++) {
            seconds += compiled->variants[i]->times.seconds[p];
            times += compiled->variants[i]->times.count[p];
        }
        fprintf(out, "%-12s %10.1f us in %lld\n", phases[p], seconds * 1e6, (long long)times);
    }
}
