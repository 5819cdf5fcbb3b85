/* transitions.c: reads transitions.def. */
#include "redistribute/transitions.h"

#include <string.h>

#include "comm/comm.h"
#include "placement/shard.h"

/* ---- placement pairs ---- */

#define REDUCE(reduce) (4u << WEFT_##reduce)

enum {
    REPLICATED = 1,
    SHARDED = 2,
    SUM = REDUCE(SUM),
    AVG = REDUCE(AVG),
    MASKED = REDUCE(MASKED),
    AVG_MAX_MIN = REDUCE(AVG) | REDUCE(MAX) | REDUCE(MIN),
    PARTIAL = (4u << WEFT_REDUCE_COUNT) - 4
};

static unsigned placement_class(weft_placement p)
{
    if (wf_is_shard_or_strided(p)) return SHARDED;
    return weft_is_partial(p) ? 4u << p.reduce : REPLICATED;
}

#define WF_REDIST_KIND(kind, name, collective, passes, of, merges)

enum wf_redist_kind wf_redist_kind_of(weft_placement from, weft_placement to)
{
    static const struct {
        uint16_t from, to;
        uint8_t kind;
    } rows[] = {
#define WF_TRANSITION(from, to, kind) {from, to, WF_REDIST_##kind},
#include "redistribute/transitions.def"
#undef WF_TRANSITION
#undef WF_REDIST_KIND
    };
    unsigned a = placement_class(from), b = placement_class(to);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].from & a && rows[i].to & b) return (enum wf_redist_kind)rows[i].kind;
    return WF_REDIST_LABEL; /* replicated, and stays so */
}

/* ---- what a step costs ---- */

enum { BEFORE, AFTER };

const struct wf_redist_kind_row wf_redist_kinds[WF_REDIST_KINDS] = {
#define WF_TRANSITION(from, to, kind)
#define WF_REDIST_KIND(kind, name, collective, passes, of, merges)                                 \
    {name, WEFT_COLL_##collective, passes, of, merges},
#include "redistribute/transitions.def"
#undef WF_TRANSITION
#undef WF_REDIST_KIND
};

double wf_redist_kind_bytes(enum wf_redist_kind kind, double ranks, double before, double after)
{
    const struct wf_redist_kind_row *row = &wf_redist_kinds[kind];

    return row->passes * ((ranks - 1) / ranks) * (row->counts_after ? after : before);
}

int64_t wf_redist_axis_change_bytes(weft_placement from, weft_placement to, int ranks,
                                    int64_t whole)
{
    const struct wf_redist_kind_row *row = &wf_redist_kinds[wf_redist_kind_of(from, to)];
    int64_t sent = row->passes * (whole - whole / ranks);

    return wf_is_shard_or_strided(row->counts_after ? to : from) ? (sent + ranks - 1) / ranks
                                                                 : sent;
}

int wf_redist_collective_hops(const char *collective, int ranks)
{
    for (int k = 0; k < WF_REDIST_KINDS; k++)
        if (wf_redist_kinds[k].passes &&
            strcmp(collective, wf_coll_name(wf_redist_kinds[k].collective)) == 0)
            return wf_redist_kind_hops((enum wf_redist_kind)k, ranks);
    return ranks - 1;
}
