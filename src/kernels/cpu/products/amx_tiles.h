/* amx_tiles.h: the library's own bf16 product on AMX tiles; gemm.c decides when it serves. */
#pragma once

#include "kernels/cpu/products/gemm.h"

/** NULLs where the compiler knows no tiles. m, n and k are at least 1. */
struct wf_amx_product_table {
    /** Bytes of scratch that product needs. */
    size_t (*scratch_bytes)(const struct wf_gemm *g);
    wf_gemm_run_fn *product;
};

extern const struct wf_amx_product_table wf_amx_product;

/** Whether this machine multiplies on tiles; asks the operating system for them, for all threads.
 */
bool wf_amx_is_available(void);

/** Whether CPUID shows AMX (leaf 7) but not the palette of its tiles (leaf 1DH), as in some virtual
 * machines. */
bool wf_amx_palette_is_hidden(void);
