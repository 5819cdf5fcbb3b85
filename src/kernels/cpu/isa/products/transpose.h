/*
 * transpose.h: transposes a block of rows: element [i][k] goes to [k][i].
 *
 * A vector takes a quad (four neighbours along k) from each of several rows that lie four apart,
 * so that one 4 x 4 exchange within its quads leaves consecutive rows side by side. The quads come
 * straight from memory into place: only the exchange itself costs shuffles.
 *
 * No function takes or gives such a vector: for doubles it is wider than a register of x86-64-v2.
 * Include once per file, after register_tile.h.
 */
#if defined(__AVX512F__) && !defined(WF_TYPE_F64)
#define TURN_QUADS 4
#elif defined(__AVX512F__) || (defined(__AVX2__) && !defined(WF_TYPE_F64))
#define TURN_QUADS 2
#else
#define TURN_QUADS 1
#endif
enum { TURN_ROWS = 4 * TURN_QUADS };

typedef WF_T quad __attribute__((vector_size(4 * sizeof(WF_T)), aligned(sizeof(WF_T)), may_alias));

/** to[k width + i] = from[i si + k] for 4 x 4 elements. */
TILE_INLINE void transpose_4x4(const WF_T *from, int64_t si, WF_T *to, int64_t width)
{
    quad a = *(const quad *)from, b = *(const quad *)(from + si);
    quad c = *(const quad *)(from + 2 * si), d = *(const quad *)(from + 3 * si);
    quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);

    *(quad *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(quad *)(to + width) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)(to + 2 * width) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(quad *)(to + 3 * width) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

#if TURN_QUADS == 1
#define transpose_rows_by_4 transpose_4x4
#else
typedef WF_T stack
    __attribute__((vector_size(TURN_ROWS * sizeof(WF_T)), aligned(sizeof(WF_T)), may_alias));

#define AT(i) (*(const quad *)(from + (i)*si))
#define EIGHT 0, 1, 2, 3, 4, 5, 6, 7
#if TURN_QUADS == 4
#define EACH_QUAD(f) f(0), f(4), f(8), f(12)
#define STACK(i)                                                                                   \
    __builtin_shufflevector(__builtin_shufflevector(AT(i), AT(4 + i), EIGHT),                      \
                            __builtin_shufflevector(AT(8 + i), AT(12 + i), EIGHT), EIGHT, 8, 9,    \
                            10, 11, 12, 13, 14, 15)
#else
#define EACH_QUAD(f) f(0), f(4)
#define STACK(i) __builtin_shufflevector(AT(i), AT(4 + i), EIGHT)
#endif
#define ROWS_LOW(q) q, q + TURN_ROWS, q + 1, q + TURN_ROWS + 1
#define ROWS_HIGH(q) q + 2, q + TURN_ROWS + 2, q + 3, q + TURN_ROWS + 3
#define PAIRS_LOW(q) q, q + 1, q + TURN_ROWS, q + TURN_ROWS + 1
#define PAIRS_HIGH(q) q + 2, q + 3, q + TURN_ROWS + 2, q + TURN_ROWS + 3

/** to[k width + i] = from[i si + k] for TURN_ROWS rows and 4 k. */
TILE_INLINE void transpose_rows_by_4(const WF_T *from, int64_t si, WF_T *to, int64_t width)
{
    stack a = STACK(0), b = STACK(1), c = STACK(2), d = STACK(3);
    stack ab = __builtin_shufflevector(a, b, EACH_QUAD(ROWS_LOW));
    stack cd = __builtin_shufflevector(c, d, EACH_QUAD(ROWS_LOW));

    *(stack *)to = __builtin_shufflevector(ab, cd, EACH_QUAD(PAIRS_LOW));
    *(stack *)(to + width) = __builtin_shufflevector(ab, cd, EACH_QUAD(PAIRS_HIGH));
    ab = __builtin_shufflevector(a, b, EACH_QUAD(ROWS_HIGH));
    cd = __builtin_shufflevector(c, d, EACH_QUAD(ROWS_HIGH));
    *(stack *)(to + 2 * width) = __builtin_shufflevector(ab, cd, EACH_QUAD(PAIRS_LOW));
    *(stack *)(to + 3 * width) = __builtin_shufflevector(ab, cd, EACH_QUAD(PAIRS_HIGH));
}
#endif

/** to[j ldt + i] = from[i ldf + j] for m x n elements, both rounded up to whole quads. */
TILE_INLINE void transpose_in_quads(int64_t m, int64_t n, const WF_T *from, int64_t ldf, WF_T *to,
                                    int64_t ldt)
{
    int64_t i = 0;

    for (; i + TURN_ROWS <= m; i += TURN_ROWS)
        for (int64_t j = 0; j < n; j += 4)
            transpose_rows_by_4(from + i * ldf + j, ldf, to + j * ldt + i, ldt);
    for (; i < m; i += 4)
        for (int64_t j = 0; j < n; j += 4)
            transpose_4x4(from + i * ldf + j, ldf, to + j * ldt + i, ldt);
}
