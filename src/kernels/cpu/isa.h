/*
 * isa.h: one source, three instruction sets.
 *
 * Every file in cpu/isa/ is compiled once per x86-64 level with WF_ISA = v2 (SSE4.2), v3 (AVX2,
 * FMA, F16C) or v4 (AVX-512). Such a file keeps its loops static and ends in one constant table of
 * function pointers, named by WF_ISA_NAME, that a header beside it declares by WF_ISA_TABLE:
 *
 *     struct wf_norms { ... };                     cpu/reductions/norm.h
 *     WF_ISA_TABLE(struct wf_norms, wf_norms)
 *     const struct wf_norms WF_ISA_NAME(wf_norms) = {...};      cpu/isa/norm.c
 *     const struct wf_norms *t = WF_ISA_PICK(wf_norms);         cpu/reductions/norm.c, in prepare
 *
 * Files in cpu/ itself are compiled once, for the baseline; they choose, they hold no hot loops.
 * Those in cpu/amx/ are compiled once, for AMX tiles.
 */
#pragma once

#include "base/elements/dtype.h"
#include "kernels/kernels.h"

#define WF_ISA_PASTE_(name, isa) name##_##isa
#define WF_ISA_PASTE(name, isa) WF_ISA_PASTE_(name, isa)

/** The name that this compilation of an isa/ file defines: name_v2, name_v3 or name_v4. */
#define WF_ISA_NAME(name) WF_ISA_PASTE(name, WF_ISA)

/** Declare the three tables. */
#define WF_ISA_TABLE(type, name) extern const type name##_v2, name##_v3, name##_v4;

/** A pointer to the table of the instruction set in force; levels 5 and 6, products of bf16 by
 * oneDNN and by amx_tiles.h, are v4. */
#define WF_ISA_PICK(name)                                                                          \
    (wf_kernels_isa_level() >= 4   ? &name##_v4                                                    \
     : wf_kernels_isa_level() == 3 ? &name##_v3                                                    \
                                   : &name##_v2)
