/* tiles.h: the library's own bf16 product on AMX tiles; gemm.c decides when it serves. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** C[m,n] = A B (+ bias[n]), all row-major. */
struct wf_tiles {
    int64_t m, n, k; /* at least 1 */
    int64_t lda, ldb, ldc;
    bool ta, tb; /* A is stored [k,m], B is stored [n,k] */
    bool wide;   /* C is f32 */
};

struct wf_tiles_table {
    bool built; /* the compiler knows tiles; the rest is NULL if not */
    /** Bytes of scratch that product needs. */
    size_t (*scratch_bytes)(const struct wf_tiles *p);
    void (*product)(const struct wf_tiles *p, const void *a, const void *b, const void *bias,
                    void *c, void *scratch);
};

extern const struct wf_tiles_table wf_tiles_amx;

/** Whether this machine multiplies on tiles; asks the operating system for them, for all threads.
 */
bool wf_tiles_granted(void);
