/* moves.h: four redistributions written by hand for one matrix: the yardstick of
 * bench/redistribute.c. Loops and buffers of their own; the collectives are the library's, so that
 * the transport is one. */
#pragma once

#include <stddef.h>

#include "comm/comm.h"

enum hand_move { HAND_GATHER, HAND_TURN, HAND_SUM, HAND_SUM_ROWS, HAND_MOVES };

/* A rows x columns matrix of floats over the ranks of `comm`, by the chunk rule. */
struct hand_matrix {
    struct wf_comm *comm;
    size_t rows, columns;
    size_t *row_counts, *column_counts; /* of each rank */
    float *packed, *arrived, *result;   /* memory that peers can read */
};

/* The three buffers hold the whole matrix each. */
void hand_matrix_init(struct hand_matrix *m, struct wf_comm *comm, size_t rows, size_t columns,
                      float *packed, float *arrived, float *result);
void hand_matrix_free(struct hand_matrix *m);

/*
 * HAND_GATHER    this rank's rows -> all rows
 * HAND_TURN      this rank's rows -> this rank's columns
 * HAND_SUM       a term of the whole -> the sum
 * HAND_SUM_ROWS  a term of the whole -> this rank's rows of the sum
 * gives: the result's first element
 */
float *hand_matrix_move(struct hand_matrix *m, enum hand_move move, const float *source);
