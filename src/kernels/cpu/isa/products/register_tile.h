/*
 * register_tile.h: the register tile that matrix products and attention are made of, in WF_T
 * (element_type.h).
 *
 * A tile is TILE_MR x TILE_NR results kept in registers while the contracted index runs. The left
 * operand is read one element at a time and broadcast, so it may have any strides; the right one
 * is read in vectors, so its columns lie next to each other. That asymmetry is what lets attention
 * feed its products without repacking.
 *
 * For float and double; include once per file, after element_type.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#include <immintrin.h>
enum { TILE_BYTES = 64, TILE_MR = 8, TILE_NV = 2 }; /* 16 of 32 registers accumulate */
#elif defined(__AVX2__)
enum { TILE_BYTES = 32, TILE_MR = 6, TILE_NV = 2 }; /* 12 of 16 */
#else
enum { TILE_BYTES = 16, TILE_MR = 6, TILE_NV = 2 };
#endif
enum { TILE_LANES = TILE_BYTES / (int)sizeof(WF_T), TILE_NR = TILE_NV * TILE_LANES };

#define TILE_INLINE static inline __attribute__((always_inline))
/* Unrolled early: otherwise gcc moves the whole tile through memory. */
#if defined(__clang__)
#define TILE_UNROLL _Pragma("clang loop unroll(full)")
#define TILE_UNROLL_SOME _Pragma("clang loop unroll_count(4)")
#else
#define TILE_UNROLL _Pragma("GCC unroll 8")
#define TILE_UNROLL_SOME                                                                           \
    _Pragma("GCC unroll 4") /* a short loop ran 7 % slower where it lay badly */
#endif

typedef WF_T vec __attribute__((vector_size(TILE_BYTES)));
typedef WF_T loose_vec __attribute__((vector_size(TILE_BYTES), aligned(sizeof(WF_T)), may_alias));

typedef __typeof__((vec){0} > (vec){0}) vec_mask;

TILE_INLINE vec vec_load(const WF_T *p) { return (vec) * (const loose_vec *)p; }
TILE_INLINE void vec_store(WF_T *p, vec v) { *(loose_vec *)p = (loose_vec)v; }

/** a > b ? a : b of each lane; gcc makes two steps of that for AVX-512. */
TILE_INLINE vec vec_max(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec) _Generic((WF_T)0, float
                          : _mm512_max_ps((__m512)a, (__m512)b), double
                          : _mm512_max_pd((__m512d)a, (__m512d)b));
#else
    vec_mask larger = a > b;

    return (vec)((larger & (vec_mask)a) | (~larger & (vec_mask)b));
#endif
}

/** a < b ? a : b of each lane. */
TILE_INLINE vec vec_min(vec a, vec b)
{
    vec_mask smaller = a < b;

    return (vec)((smaller & (vec_mask)a) | (~smaller & (vec_mask)b));
}

/** acc[i][j] += a[i si] right[j]. */
TILE_INLINE void accumulate_outer(vec acc[TILE_MR][TILE_NV], const WF_T *a, int64_t si,
                                  const vec right[TILE_NV])
{
    TILE_UNROLL for (int i = 0; i < TILE_MR; i++) TILE_UNROLL for (int j = 0; j < TILE_NV; j++)
        acc[i][j] += a[i * si] * right[j];
}

/* How many rows of the right operand ahead a copying tile asks for. */
enum { TILE_AHEAD = 32 };

/** Memory that later tiles read: a line of it is asked for every TILE_ASK rows, `step` bytes apart.
 */
struct tile_ahead {
    const char *at; /* NULL: nothing is asked for */
    int64_t step;
};
enum { TILE_ASK = 4 };
#define TILE_NOTHING ((struct tile_ahead){NULL, 0})

/*
 * multiply_tile() that also leaves a dense copy [kn][TILE_NR] of the right operand in `keep` (NULL:
 * none), for the tiles below it. Reading it from afar then costs no pass of its own.
 *
 * C is asked for first and added last, so that it is on its way while the tile computes.
 */
TILE_INLINE void multiply_tile_and_copy(int64_t kn, const WF_T *a, int64_t si, int64_t sk,
                                        const WF_T *b, int64_t ldb, WF_T *c, int64_t ldc, bool add,
                                        WF_T *keep, struct tile_ahead ahead)
{
    vec acc[TILE_MR][TILE_NV];

    TILE_UNROLL for (int i = 0; i < TILE_MR; i++) TILE_UNROLL for (int j = 0; j < TILE_NV; j++)
    {
        acc[i][j] = (vec){0};
        __builtin_prefetch(c + i * ldc + j * TILE_LANES, 1);
    }
    TILE_UNROLL_SOME for (int64_t k = 0; k < kn; k++, a += sk, b += ldb)
    {
        vec right[TILE_NV];

        TILE_UNROLL for (int j = 0; j < TILE_NV; j++) right[j] = vec_load(b + j * TILE_LANES);
        if (ahead.at && k % TILE_ASK == 0)
            __builtin_prefetch(ahead.at + k / TILE_ASK * ahead.step, 0, 2);
        if (keep) {
            __builtin_prefetch(b + TILE_AHEAD * ldb);
            TILE_UNROLL for (int j = 0; j < TILE_NV; j++)
                vec_store(keep + k * TILE_NR + j * TILE_LANES, right[j]);
        }
        accumulate_outer(acc, a, si, right);
    }
    TILE_UNROLL for (int i = 0; i < TILE_MR; i++) TILE_UNROLL for (int j = 0; j < TILE_NV; j++)
    {
        WF_T *to = c + i * ldc + j * TILE_LANES;

        vec_store(to, add ? vec_load(to) + acc[i][j] : acc[i][j]);
    }
}

/** Each row of a tile = `row`. */
TILE_INLINE void fill_tile(vec acc[TILE_MR][TILE_NV], const WF_T *row)
{
    TILE_UNROLL for (int j = 0; j < TILE_NV; j++)
    {
        vec start = vec_load(row + j * TILE_LANES);

        TILE_UNROLL for (int i = 0; i < TILE_MR; i++) acc[i][j] = start;
    }
}

/** acc[i][j] += sum over k of a[i si + k sk] b[k ldb + j]. */
TILE_INLINE void accumulate_tile(vec acc[TILE_MR][TILE_NV], int64_t kn, const WF_T *a, int64_t si,
                                 int64_t sk, const WF_T *b, int64_t ldb)
{
    TILE_UNROLL_SOME for (int64_t k = 0; k < kn; k++, a += sk, b += ldb)
    {
        vec right[TILE_NV];

        TILE_UNROLL for (int j = 0; j < TILE_NV; j++) right[j] = vec_load(b + j * TILE_LANES);
        accumulate_outer(acc, a, si, right);
    }
}

/** c[i][j] = (add ? c[i][j] : 0) + sum over k of a[i si + k sk] b[k ldb + j], for a whole tile. */
TILE_INLINE void multiply_tile(int64_t kn, const WF_T *a, int64_t si, int64_t sk, const WF_T *b,
                               int64_t ldb, WF_T *c, int64_t ldc, bool add)
{
    multiply_tile_and_copy(kn, a, si, sk, b, ldb, c, ldc, add, NULL, TILE_NOTHING);
}

_Static_assert(TILE_NV == 2, "half a tile is one vector wide");

/** The same for half a tile: its first TILE_LANES columns. */
TILE_INLINE void multiply_half_tile(int64_t kn, const WF_T *a, int64_t si, int64_t sk,
                                    const WF_T *b, int64_t ldb, WF_T *c, int64_t ldc, bool add)
{
    vec acc[TILE_MR];

    TILE_UNROLL for (int i = 0; i < TILE_MR; i++) acc[i] = (vec){0};
    TILE_UNROLL_SOME for (int64_t k = 0; k < kn; k++, a += sk, b += ldb)
    {
        vec right = vec_load(b);

        TILE_UNROLL for (int i = 0; i < TILE_MR; i++) acc[i] += a[i * si] * right;
    }
    TILE_UNROLL for (int i = 0; i < TILE_MR; i++)
    {
        WF_T *to = c + i * ldc;

        vec_store(to, add ? vec_load(to) + acc[i] : acc[i]);
    }
}
