/* chunk.c: which elements of a dim a rank holds. Integers only; knows no mesh and no tensor. */
#include "placement/layout.h"

static int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t chunk_start(int64_t n, int ways, int64_t index)
{
    int64_t full = (n + ways - 1) / ways;

    return min_of(index * full, n);
}

int64_t weft_chunk_offset(int64_t n, int ways, int index) { return chunk_start(n, ways, index); }

int64_t weft_chunk_size(int64_t n, int ways, int index)
{
    return chunk_start(n, ways, (int64_t)index + 1) - chunk_start(n, ways, index);
}

static void empty_box(int64_t *shape, int64_t *offset, int ndim, const int64_t *global)
{
    for (int d = 0; d < ndim; d++) {
        shape[d] = 0;
        offset[d] = global[d];
    }
}

void wf_box(int64_t *shape, int64_t *offset, int ndim, const int64_t *global, int n_axes,
            const int *axis_sizes, const int *coordinates, const weft_placement *placements)
{
    for (int d = 0; d < ndim; d++) {
        shape[d] = global[d];
        offset[d] = 0;
    }
    for (int a = 0; a < n_axes; a++) {
        int d = placements[a].dim;
        int64_t outer = d < ndim ? shape[d] : 0;

        if (coordinates[a] < 0) {
            empty_box(shape, offset, ndim, global);
            return;
        }
        if (placements[a].kind != WEFT_KIND_SHARD) continue;
        shape[d] = weft_chunk_size(outer, axis_sizes[a], coordinates[a]);
        offset[d] += weft_chunk_offset(outer, axis_sizes[a], coordinates[a]);
    }
    for (int d = 0; d < ndim; d++)
        if (shape[d] == 0) offset[d] = global[d];
}
