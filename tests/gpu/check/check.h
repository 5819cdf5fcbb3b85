/* check.h: the parts of weft-gpu-check. Each adds lines to the report; all ranks call them alike.
 */
#pragma once

#include <weft/weft.h>

/** Every op of the table against the CPU. */
void check_rows(void);
/** Random numbers, bit by bit. */
void check_random(void);
/** Redistributions between all pairs of placements of an even and an uneven tensor. `mesh`: one
 * axis on WEFT_CUDA over all ranks. */
void check_collectives(weft_mesh *mesh);
/** Losses of a small GPT, on the CPU and tensor-parallel on the mesh. */
void check_training(weft_mesh *mesh);
/** How fast this GPU copies and multiplies, and how near to that the library's ops come. */
void check_speed(void);
