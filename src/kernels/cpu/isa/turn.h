/*
 * turn.h: transposes through registers, four rows by four columns at a time, in WF_T (type.h).
 *
 * Include once per file, after tile.h.
 */

/* No function takes or gives one: for doubles it is wider than a register of x86-64-v2. */
typedef WF_T quad __attribute__((vector_size(4 * sizeof(WF_T)), aligned(sizeof(WF_T)), may_alias));

/** to[k width + i] = from[i si + k] for 4 x 4 elements. */
TILE_INLINE void turn_quads(const WF_T *from, int64_t si, WF_T *to, int64_t width)
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

/** to[j ldt + i] = from[i ldf + j] for m x n elements, both rounded up to whole quads. */
TILE_INLINE void turn_quadwise(int64_t m, int64_t n, const WF_T *from, int64_t ldf, WF_T *to,
                               int64_t ldt)
{
    for (int64_t i = 0; i < m; i += 4)
        for (int64_t j = 0; j < n; j += 4)
            turn_quads(from + i * ldf + j, ldf, to + j * ldt + i, ldt);
}
