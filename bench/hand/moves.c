/* moves.c: see moves.h. */
#include "hand/moves.h"

#include <stdlib.h>
#include <string.h>

static size_t chunk(size_t n, int ways, int rank)
{
    size_t full = (n + (size_t)ways - 1) / (size_t)ways, begin = full * (size_t)rank;

    return begin >= n ? 0 : n - begin < full ? n - begin : full;
}

void hand_matrix_init(struct hand_matrix *m, struct wf_comm *comm, size_t rows, size_t columns,
                      float *packed, float *arrived, float *result)
{
    int ways = wf_comm_size(comm);

    *m = (struct hand_matrix){.comm = comm,
                              .rows = rows,
                              .columns = columns,
                              .packed = packed,
                              .arrived = arrived,
                              .result = result};
    m->row_counts = malloc((size_t)ways * sizeof(size_t));
    m->column_counts = malloc((size_t)ways * sizeof(size_t));
    for (int r = 0; r < ways; r++) {
        m->row_counts[r] = chunk(rows, ways, r) * columns;
        m->column_counts[r] = chunk(columns, ways, r);
    }
}

void hand_matrix_free(struct hand_matrix *m)
{
    free(m->row_counts);
    free(m->column_counts);
}

static float *gather(struct hand_matrix *m, const float *source)
{
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_GATHER,
                           .comm = m->comm,
                           .recv_counts = m->row_counts,
                           .send = source,
                           .recv = m->result};

    wf_comm_run(&coll);
    return m->result;
}

/* Columns of one rank after another; then rows of one rank after another, which is the result. */
static float *turn(struct hand_matrix *m, const float *source)
{
    int ways = wf_comm_size(m->comm), me = wf_comm_rank(m->comm);
    size_t mine = m->row_counts[me] / m->columns, send[64], recv[64], at = 0, column = 0;
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_TO_ALL,
                           .comm = m->comm,
                           .send_counts = send,
                           .recv_counts = recv,
                           .send = m->packed,
                           .recv = m->arrived};

    for (int r = 0; r < ways; r++) {
        size_t width = m->column_counts[r];

        for (size_t row = 0; row < mine; row++)
            memcpy(m->packed + at + row * width, source + row * m->columns + column,
                   width * sizeof(float));
        send[r] = mine * width;
        recv[r] = m->row_counts[r] / m->columns * m->column_counts[me];
        at += send[r];
        column += width;
    }
    wf_comm_run(&coll);
    return m->arrived;
}

static float *sum(struct hand_matrix *m, const float *source, bool rows_only)
{
    struct wf_coll coll = {.kind = rows_only ? WEFT_COLL_REDUCE_SCATTER : WEFT_COLL_ALL_REDUCE,
                           .comm = m->comm,
                           .count = m->rows * m->columns,
                           .send_counts = m->row_counts,
                           .send = source,
                           .recv = m->result};

    wf_comm_run(&coll);
    return m->result;
}

float *hand_matrix_move(struct hand_matrix *m, enum hand_move move, const float *source)
{
    switch (move) {
    case HAND_GATHER:
        return gather(m, source);
    case HAND_TURN:
        return turn(m, source);
    case HAND_SUM:
        return sum(m, source, false);
    default:
        return sum(m, source, true);
    }
}
