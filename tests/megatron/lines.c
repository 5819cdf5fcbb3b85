/* lines.c: groups of ranks. */
#include "megatron/lines.h"

#include <stdlib.h>

struct lines lines_open(void)
{
    int groups = wt_ranks() % 2 == 0 ? 2 : 1;
    struct lines l = {.ways = wt_ranks() / groups};

    l.mesh = wt_own(weft_mesh_new(WEFT_CPU, "dp=%d,tp=%d", groups, l.ways));
    l.tp = wt_own(weft_mesh_sub(l.mesh, "tp"));
    WT_ALL(l.tp != NULL);
    l.place = weft_mesh_coordinate(l.tp, 0);
    l.first = wt_rank() - l.place;
    l.ledger = wt_own(weft_ledger_open());
    return l;
}

void lines_sent(struct lines *l, weft_coll kind, int count, const char *file, int line)
{
    int64_t all = weft_ledger_count(l->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);
    int64_t own = weft_ledger_count(l->ledger, kind, WEFT_DIRECTION_ANY, NULL);
    int64_t wanted = l->ways > 1 ? count : 0;

    weft_ledger_reset(l->ledger);
    if (all != wanted || own != wanted)
        wt_note("%lld collectives, %lld of the kind, not %lld", (long long)all, (long long)own,
                (long long)wanted);
    wt_all(all == wanted && own == wanted, "collectives are counted", file, line);
}

weft_tensor *lines_full(int64_t a, int64_t b, double value)
{
    return weft_full(WEFT_F64, (int64_t[]){a, b}, b ? 2 : 1, value);
}

weft_tensor *lines_counted(int64_t rows, int64_t columns, bool by_row)
{
    weft_tensor *t = lines_full(rows, columns, 0);
    double *at = weft_data(t);

    for (int64_t i = 0; i < rows * columns; i++)
        at[i] = (double)(by_row ? i / columns : i % columns);
    return t;
}

bool lines_are(const weft_tensor *t, double (*value)(int64_t i, const void *payload),
               const void *payload)
{
    int64_t n = t ? weft_local_numel(t) : 0;
    double *got = malloc((size_t)n * sizeof *got + 1);
    bool good = t && weft_read_f64(t, got, n) == WEFT_OK;

    for (int64_t i = 0; good && i < n; i++) {
        good = got[i] == value(i, payload);
        if (!good) wt_note("element %lld is %g, not %g", (long long)i, got[i], value(i, payload));
    }
    free(got);
    return good;
}
