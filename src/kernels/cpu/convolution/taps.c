/* taps.c: see the header. */
#include "kernels/cpu/convolution/taps.h"

#include <string.h>

#include "base/mem.h"
#include "kernels/operands/element_taps.h"

static void allocate(struct wf_taps *taps, int64_t size, int64_t to, int64_t count)
{
    taps->size = size;
    taps->to = to;
    taps->begin = wf_malloc((size_t)(to + 1) * sizeof *taps->begin);
    taps->index = wf_malloc((size_t)(count + 1) * sizeof *taps->index);
    taps->weight = wf_malloc((size_t)(count + 1) * sizeof *taps->weight);
    memset(taps->begin, 0, (size_t)(to + 1) * sizeof *taps->begin);
}

/* From results to elements: the lists of each element, in the results' order. */
static void make_transposed(struct wf_taps *back, const struct wf_taps *there)
{
    int64_t count = there->begin[there->to];

    allocate(back, there->to, there->size, count);
    for (int64_t t = 0; t < count; t++) back->begin[there->index[t] + 1]++;
    for (int64_t i = 0; i < back->to; i++) back->begin[i + 1] += back->begin[i];
    for (int64_t i = 0; i < there->to; i++)
        for (int64_t t = there->begin[i]; t < there->begin[i + 1]; t++) {
            int64_t at = back->begin[there->index[t]]++;

            back->index[at] = (int32_t)i;
            back->weight[at] = there->weight[t];
        }
    for (int64_t i = back->to; i > 0; i--) back->begin[i] = back->begin[i - 1];
    back->begin[0] = 0;
}

void wf_taps_make(struct wf_taps *taps, const struct wf_resample_attrs *a, int d, bool narrow)
{
    struct wf_taps there;
    int64_t count = 0;

    for (int64_t i = 0; i < a->to[d]; i++) count += wf_element_taps_of(a, d, i, narrow).n;
    allocate(&there, a->size[d], a->to[d], count);
    count = 0;
    for (int64_t i = 0; i < a->to[d]; i++) {
        struct wf_element_taps e = wf_element_taps_of(a, d, i, narrow);

        for (int64_t t = 0; t < e.n; t++, count++) {
            there.index[count] = (int32_t)wf_element_tap_index(&e, t, a->size[d]);
            there.weight[count] = wf_element_tap_weight(&e, t);
        }
        there.begin[i + 1] = count;
    }
    *taps = there;
    if (!a->transposed) return;
    make_transposed(taps, &there);
    wf_taps_free(&there);
}

void wf_taps_make_identity(struct wf_taps *taps)
{
    allocate(taps, 1, 1, 1);
    taps->begin[1] = 1;
    taps->index[0] = 0;
    taps->weight[0] = 1;
}

void wf_taps_free(struct wf_taps *taps)
{
    wf_free(taps->begin);
    wf_free(taps->index);
    wf_free(taps->weight);
}
