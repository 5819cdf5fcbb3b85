/* agree_on_status.c: agreement over the world. Nothing is sent in a world of one rank. */
#include "io/agree_on_status.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"

enum { VERDICT_TEXT = 760 };

struct rank_status {
    int32_t status;
    char text[VERDICT_TEXT];
};

weft_status wf_agree_status(weft_status mine)
{
    struct wf_comm *world = wf_comm_world();
    int ranks = wf_comm_size(world);
    struct rank_status rank_status = {.status = (int32_t)mine}, *all;
    weft_status first = WEFT_OK;

    if (ranks == 1) return mine;
    if (mine != WEFT_OK)
        snprintf(rank_status.text, sizeof rank_status.text, "%.*s", VERDICT_TEXT - 1,
                 weft_error_message());
    all = wf_calloc((size_t)ranks, sizeof *all);
    wf_comm_allgather_bytes(world, &rank_status, all, sizeof rank_status);
    for (int r = 0; r < ranks && first == WEFT_OK; r++) {
        first = (weft_status)all[r].status;
        if (first != WEFT_OK) wf_error_set(first, all[r].text);
    }
    wf_free(all);
    return first;
}

static uint64_t *all_gather_number(uint64_t mine, int *ranks)
{
    struct wf_comm *world = wf_comm_world();
    uint64_t *all;

    *ranks = wf_comm_size(world);
    all = wf_calloc((size_t)*ranks, sizeof *all);
    wf_comm_allgather_bytes(world, &mine, all, sizeof mine);
    return all;
}

weft_status wf_agree_same_number(const char *what, uint64_t mine)
{
    int ranks, differs = 0;
    uint64_t *all = all_gather_number(mine, &ranks);

    for (int r = ranks - 1; r > 0; r--)
        if (all[r] != all[0]) differs = r;
    wf_free(all);
    WF_NEED(!differs, WEFT_ERR_ARG, "%s on rank %d is not that on rank 0", what, differs);
    return WEFT_OK;
}

uint64_t wf_agree_rank0_number(uint64_t mine)
{
    int ranks;
    uint64_t *all = all_gather_number(mine, &ranks), first = all[0];

    wf_free(all);
    return first;
}
