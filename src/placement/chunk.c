/* chunk.c: the two rules by which elements are cut over ranks. Knows no placement. */
#include <weft/placement.h>

#include "base/int_math.h"

static int64_t chunk_start(int64_t n, int ways, int64_t index)
{
    int64_t full = ways < 1 ? 0 : wf_ceil_div(n, ways);

    return wf_min_i64(index * full, n);
}

int64_t weft_chunk_offset(int64_t n, int ways, int index) { return chunk_start(n, ways, index); }

int64_t weft_chunk_size(int64_t n, int ways, int index)
{
    return chunk_start(n, ways, (int64_t)index + 1) - chunk_start(n, ways, index);
}

int64_t weft_chunk_padding(int64_t n, int ways, int index)
{
    return weft_chunk_size(n, ways, 0) - weft_chunk_size(n, ways, index);
}

int64_t weft_balanced_offset(int64_t n, int ways, int index)
{
    if (ways < 1) return 0;
    return index * (n / ways) + wf_min_i64(index, n % ways);
}

int64_t weft_balanced_size(int64_t n, int ways, int index)
{
    return ways < 1 ? 0 : n / ways + (index < n % ways);
}
