/*
 * route.h: which rows go where. Choices are those of this rank's tokens, a token's one behind
 * another; they are sent sorted by expert, so that every rank gets runs of rows per expert.
 */
#pragma once

#include <weft/weft.h>

struct route {
    weft_mesh *mesh;         /* NULL: one device */
    int ways, me;            /* ranks, this one */
    int experts, first, own; /* of all ranks; this rank's are own ones from first on */
    int64_t choices;         /* of this rank */
    int64_t *made, *taken; /* [ways][experts]: choices by rank and expert, and those not dropped */
    int64_t *send, *recv;  /* [ways]: rows to and from each rank */
    weft_tensor *sent;     /* [rows]: the choice that row is for */
    weft_tensor *row; /* [choices]: the row that it is sent as; what is dropped: the last + 1 */
    weft_tensor *by_expert; /* [rows that come]: sorted by expert, */
    weft_tensor *back;      /* and as they came */
};

/**
 * From indices [n,k]: an all-gather of a number per expert. An expert takes `capacity` choices of
 * all ranks' together, in their order; below 0: all.
 */
weft_status route_open(struct route *r, weft_mesh *mesh, int experts, weft_tensor *indices,
                       int64_t capacity);
void route_close(struct route *r);

/** Rows that come for this rank's expert number e. */
int64_t route_rows(const struct route *r, int e);

/** Choices of all ranks that were dropped. */
int64_t route_dropped(const struct route *r);
