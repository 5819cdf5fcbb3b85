/*
 * lines.h: the mesh of these cases: eight ranks are two groups of four, "dp=2,tp=4"; an even number
 * otherwise two groups, an odd one a single group.
 */
#pragma once

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/near.h"
#include "support/owned.h"

struct lines {
    weft_mesh *mesh, *tp; /* all of it, and this rank's group */
    int ways, place;      /* ranks of the group, and this one's number there */
    int first;            /* world rank of the group's first */
    weft_ledger *ledger;
};

/** The case owns them. */
struct lines lines_open(void);

/** Since the last time exactly `count` collectives of this kind (none in a group of one). */
#define LINES_SENT(l, kind, count) lines_sent((l), (kind), (count), __FILE__, __LINE__)
#define LINES_STILL(l) lines_sent((l), WEFT_COLL_COUNT, 0, __FILE__, __LINE__)
void lines_sent(struct lines *l, weft_coll kind, int count, const char *file, int line);

/** A plain f64 tensor [a] or [a, b] (b > 0) of one value. */
weft_tensor *lines_full(int64_t a, int64_t b, double value);

/** The same [rows, columns], each element its row, or its column. */
weft_tensor *lines_counted(int64_t rows, int64_t columns, bool by_row);

/** Element i of the rank's own is `value(i, payload)`. */
bool lines_are(const weft_tensor *t, double (*value)(int64_t i, const void *payload),
               const void *payload);
