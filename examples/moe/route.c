/* route.c: counting choices, and the four permutations of rows that follow. */
#include "moe/route.h"

#include <stdlib.h>

#include "common/say.h"

static weft_tensor *integers(int64_t n) { return weft_full(WEFT_I64, &n, 1, 0); }

static int64_t *of(weft_tensor *t) { return weft_data(t); }

/* ---- how many ---- */

/* Every rank's choices of each expert; indices hold this rank's. */
static weft_status count(struct route *r, const int64_t *indices)
{
    weft_tensor *mine = weft_full(WEFT_I64, (int64_t[]){1, r->experts}, 2, 0), *all;

    for (int64_t i = 0; i < r->choices; i++) of(mine)[indices[i]]++;
    all = r->mesh ? weft_mesh_all_gather(mine, 0, NULL, r->mesh, 0) : mine;
    if (!all) return weft_error_status();
    for (int i = 0; i < r->ways * r->experts; i++) r->made[i] = of(all)[i];
    return WEFT_OK;
}

/* The first `capacity` of an expert, counted over the ranks in their order. */
static void limit(struct route *r, int64_t capacity)
{
    for (int e = 0; e < r->experts; e++) {
        int64_t room = capacity;

        for (int w = 0; w < r->ways; w++) {
            int64_t made = r->made[w * r->experts + e];
            int64_t taken = capacity < 0 || made < room ? made : room;

            r->taken[w * r->experts + e] = taken;
            room -= taken;
        }
    }
}

static int owner_first(const struct route *r, int rank)
{
    return (int)weft_chunk_offset(r->experts, r->ways, rank);
}

static int owner_count(const struct route *r, int rank)
{
    return (int)weft_chunk_size(r->experts, r->ways, rank);
}

/* Rows from one rank to another. */
static int64_t rows_between(const struct route *r, int from, int to)
{
    int64_t rows = 0;

    for (int e = 0; e < owner_count(r, to); e++)
        rows += r->taken[from * r->experts + owner_first(r, to) + e];
    return rows;
}

int64_t route_rows(const struct route *r, int e)
{
    int64_t rows = 0;

    for (int w = 0; w < r->ways; w++) rows += r->taken[w * r->experts + r->first + e];
    return rows;
}

int64_t route_dropped(const struct route *r)
{
    int64_t dropped = 0;

    for (int i = 0; i < r->ways * r->experts; i++) dropped += r->made[i] - r->taken[i];
    return dropped;
}

/* ---- which ---- */

/* This rank's choices, sorted by expert; those beyond what is taken are not sent. */
static void sort_choices(struct route *r, const int64_t *indices)
{
    const int64_t *taken = r->taken + r->me * r->experts;
    int64_t *next = room_for((size_t)r->experts, sizeof *next), rows = 0;
    int64_t *seen = room_for((size_t)r->experts, sizeof *seen);

    for (int e = 0; e < r->experts; e++) {
        next[e] = rows;
        rows += taken[e];
    }
    r->sent = integers(rows);
    r->row = integers(r->choices);
    for (int64_t i = 0; i < r->choices; i++) {
        int64_t e = indices[i];
        bool goes = seen[e]++ < taken[e];

        of(r->row)[i] = goes ? next[e] : rows;
        if (goes) of(r->sent)[next[e]++] = i;
    }
    free(next);
    free(seen);
}

/* Rows come by rank and then by expert; experts want them the other way round. */
static void sort_rows(struct route *r)
{
    int64_t rows = 0, at = 0;

    for (int w = 0; w < r->ways; w++) rows += r->recv[w];
    r->by_expert = integers(rows);
    r->back = integers(rows);
    for (int e = 0; e < r->own; e++) {
        int64_t before = 0; /* rows of the ranks so far */

        for (int w = 0; w < r->ways; before += r->recv[w++]) {
            const int64_t *taken = r->taken + w * r->experts + r->first;
            int64_t from = before;

            for (int i = 0; i < e; i++) from += taken[i];
            for (int64_t i = 0; i < taken[e]; i++, at++) {
                of(r->by_expert)[at] = from + i;
                of(r->back)[from + i] = at;
            }
        }
    }
}

weft_status route_open(struct route *r, weft_mesh *mesh, int experts, weft_tensor *indices,
                       int64_t capacity)
{
    const int64_t *chosen = weft_data(indices = weft_contiguous(indices));
    size_t cells;
    weft_status status;

    *r = (struct route){.mesh = mesh, .ways = 1, .experts = experts};
    if (mesh) {
        r->ways = weft_mesh_size(mesh);
        r->me = weft_mesh_coordinate(mesh, 0);
    }
    r->first = owner_first(r, r->me);
    r->own = owner_count(r, r->me);
    r->choices = weft_numel(indices);
    cells = (size_t)(r->ways * experts);
    r->made = room_for(cells, sizeof *r->made);
    r->taken = room_for(cells, sizeof *r->taken);
    r->send = room_for((size_t)r->ways, sizeof *r->send);
    r->recv = room_for((size_t)r->ways, sizeof *r->recv);
    status = count(r, chosen);
    if (status != WEFT_OK) return status;
    limit(r, capacity);
    for (int w = 0; w < r->ways; w++) {
        r->send[w] = rows_between(r, r->me, w);
        r->recv[w] = rows_between(r, w, r->me);
    }
    sort_choices(r, chosen);
    sort_rows(r);
    return weft_error_status();
}

void route_close(struct route *r)
{
    free(r->made);
    free(r->taken);
    free(r->send);
    free(r->recv);
}
