/* tiles.h: the library's own bf16 product on AMX tiles; gemm.c decides when it serves. */
#pragma once

#include "kernels/cpu/gemm.h"

/** NULLs where the compiler knows no tiles. m, n and k are at least 1. */
struct wf_tiles_table {
    /** Bytes of scratch that product needs. */
    size_t (*scratch_bytes)(const struct wf_gemm *g);
    wf_gemm_run_fn *product;
};

extern const struct wf_tiles_table wf_tiles_amx;

/** Whether this machine multiplies on tiles; asks the operating system for them, for all threads.
 */
bool wf_tiles_granted(void);

/** Whether CPUID shows AMX (leaf 7) but not the palette of its tiles (leaf 1DH), as in some virtual
 * machines. */
bool wf_tiles_palette_hidden(void);
