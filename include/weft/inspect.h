/*
 * inspect.h: pictures of shardings, plans in words, and traces of what a program does
 * (docs/concepts/debugging.md).
 */
#pragma once

#include <stdio.h>

#include <weft/tensor.h>

/* ---- who holds what ---- */

/**
 * Which ranks hold which elements of a distributed tensor, as a table or an SVG picture.
 *
 * The last two dims are drawn; a tensor with more has a table for each piece of its leading dims.
 * Only the first rank of the mesh writes (on a mesh without ranks: this process), and nothing for a
 * tensor without elements; others may pass NULL for `out`.
 * ranks: any; local; all ranks of the mesh may call it alike
 * fails: WEFT_ERR_ARG for a plain tensor
 */
WEFT_API weft_status weft_visualize_sharding(const weft_tensor *t, FILE *out);
WEFT_API weft_status weft_visualize_sharding_svg(const weft_tensor *t, FILE *out);
