/* file_slices.c: a walk, in the file's order, over what shard and file both have of each dim. */
#include "io/file_slices.h"

#include <string.h>

#include "base/mem.h"
#include "io/element_type.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

/* ---- the runs of a rank ---- */

void wf_local_runs_of_tensor(struct wf_local_runs *local, const weft_tensor *t)
{
    const struct wf_layout *layout = t->layout;
    struct wf_shard shard;

    *local = (struct wf_local_runs){{0}, {0}};
    for (int d = 0; d < layout->desc.ndim; d++) {
        int64_t size = layout->desc.global[d];

        if (!layout->mesh) {
            local->runs[d] = wf_calloc(1, sizeof *local->runs[d]);
            local->runs[d][0] = (struct wf_index_range){0, size};
            local->n_runs[d] = size > 0;
            continue;
        }
        wf_shard_init(&shard, d, size, wf_mesh_sizes(layout->mesh),
                      wf_mesh_coordinates(layout->mesh), layout->placements, layout->n_axes);
        local->n_runs[d] = wf_shard_ranges(&shard, NULL, 0);
        local->runs[d] = wf_calloc((size_t)local->n_runs[d] + 1, sizeof *local->runs[d]);
        wf_shard_ranges(&shard, local->runs[d], local->n_runs[d]);
    }
}

void wf_local_runs_free(struct wf_local_runs *local)
{
    for (int d = 0; d < WEFT_MAX_DIMS; d++) wf_free(local->runs[d]);
}

/* ---- walking: dims in the file's order, the one with the smallest stride innermost ---- */

struct level {
    struct wf_overlap both;             /* a: local index in the tensor, b: index in the file */
    int64_t tensor_stride, file_stride; /* bytes */
};

struct walk {
    struct level levels[WEFT_MAX_DIMS + 1];
    int n_levels;
    /* One row of elements; false ends the walk. */
    bool (*row)(struct walk *walk, char *tensor, int64_t file, int64_t count);
    weft_dtype dtype;
    const struct wf_file_slice *piece;
    wf_file_slice_sink *sink;
    void *payload;
    weft_status status;
};

static bool walk_from_level(struct walk *walk, int at, char *tensor, int64_t file);

static bool walk_index_range(struct walk *walk, int at, char *tensor, int64_t file, int64_t size)
{
    const struct level *level = &walk->levels[at];
    bool ok = true;

    if (at == walk->n_levels - 1) return walk->row(walk, tensor, file, size);
    for (int64_t k = 0; k < size; k++)
        ok &= walk_from_level(walk, at + 1, tensor + k * level->tensor_stride,
                              file + k * level->file_stride);
    return ok;
}

static bool walk_from_level(struct walk *walk, int at, char *tensor, int64_t file)
{
    const struct level *level = &walk->levels[at];
    bool ok = true;

    for (int i = 0; i < level->both.n; i++) {
        const struct wf_overlap_span *s = &level->both.spans[i];

        for (int64_t r = 0; r < s->count; r++)
            ok &= walk_index_range(walk, at, tensor + (s->a + r * s->a_step) * level->tensor_stride,
                                   file + (s->b + r * s->b_step) * level->file_stride, s->size);
    }
    return ok;
}

static void insert_loop_level(struct walk *walk, struct level level)
{
    int at = walk->n_levels++;

    while (at > 0 && walk->levels[at - 1].file_stride < level.file_stride) {
        walk->levels[at] = walk->levels[at - 1];
        at--;
    }
    walk->levels[at] = level;
}

/* An inner level that is whole and lies alike on both sides becomes part of the one outside it. */
static void merge_loop_levels(struct walk *walk)
{
    while (walk->n_levels > 1) {
        struct level *outer = &walk->levels[walk->n_levels - 2], *inner = outer + 1;
        const struct wf_overlap_span *s = inner->both.spans;

        if (inner->both.n != 1 || s->count != 1 || s->a != 0 || s->b != 0 ||
            outer->file_stride != s->size * inner->file_stride ||
            outer->tensor_stride != s->size * inner->tensor_stride)
            return;
        for (int i = 0; i < outer->both.n; i++) {
            struct wf_overlap_span *to = &outer->both.spans[i];

            to->size *= s->size;
            to->a *= s->size;
            to->a_step *= s->size;
            to->b *= s->size;
            to->b_step *= s->size;
        }
        outer->file_stride = inner->file_stride;
        outer->tensor_stride = inner->tensor_stride;
        wf_overlap_free(&inner->both);
        walk->n_levels--;
    }
}

static bool walk_slice_elements(struct walk *walk, const weft_tensor *t,
                                const struct wf_local_runs *local,
                                const struct wf_file_slice *piece)
{
    const struct wf_tensor_desc *desc = &t->layout->desc;
    int64_t size = (int64_t)weft_dtype_size(walk->dtype);
    int64_t file_size = wf_element_type_info(piece->type)->bits / 8;
    bool ok;

    for (int d = 0; d < desc->ndim; d++) {
        struct level level = {.tensor_stride = desc->stride[d] * size,
                              .file_stride = piece->stride[d] * file_size};

        wf_overlap_compute_ranges(&level.both, local->runs[d], local->n_runs[d], piece->runs[d],
                                  piece->n_runs[d]);
        insert_loop_level(walk, level);
    }
    if (desc->ndim == 0) {
        struct level one = {.tensor_stride = size, .file_stride = file_size};
        struct wf_index_range whole = {0, 1};

        wf_overlap_compute_ranges(&one.both, &whole, 1, &whole, 1);
        insert_loop_level(walk, one);
    }
    merge_loop_levels(walk);
    walk->piece = piece;
    ok = walk_from_level(walk, 0, t->data, 0);
    for (int i = 0; i < walk->n_levels; i++) wf_overlap_free(&walk->levels[i].both);
    return ok;
}

static bool read_element_row(struct walk *walk, char *tensor, int64_t file, int64_t count)
{
    const struct level *inner = &walk->levels[walk->n_levels - 1];

    return wf_elements_convert(tensor, walk->dtype, inner->tensor_stride,
                               (const char *)walk->piece->data + file, walk->piece->type,
                               inner->file_stride, count);
}

/* A rank outside the mesh of a tensor without dims holds nothing, too. */
static bool rank_holds_nothing(const weft_tensor *t)
{
    return t->layout->desc.numel == 0 ||
           (t->layout->mesh && weft_mesh_coordinate(t->layout->mesh, 0) < 0);
}

bool wf_file_slice_read(weft_tensor *t, const struct wf_local_runs *local,
                        const struct wf_file_slice *piece)
{
    struct walk walk = {.row = read_element_row, .dtype = weft_tensor_dtype(t)};

    return rank_holds_nothing(t) || walk_slice_elements(&walk, t, local, piece);
}

/* Rows that are dense on both sides go as they are, others through a block of elements. */
static bool write_element_row(struct walk *walk, char *tensor, int64_t file, int64_t count)
{
    const struct level *inner = &walk->levels[walk->n_levels - 1];
    size_t size = weft_dtype_size(walk->dtype);
    char block[2048];
    int64_t room = (int64_t)(sizeof block / size);

    if (walk->status != WEFT_OK) return false;
    if (inner->tensor_stride == (int64_t)size && inner->file_stride == (int64_t)size) {
        walk->status = walk->sink(file, tensor, (size_t)count * size, walk->payload);
        return walk->status == WEFT_OK;
    }
    if (inner->file_stride != (int64_t)size) room = 1;
    for (int64_t i = 0; i < count && walk->status == WEFT_OK; i += room) {
        int64_t n = count - i < room ? count - i : room;

        for (int64_t k = 0; k < n; k++)
            memcpy(block + (size_t)k * size, tensor + (i + k) * inner->tensor_stride, size);
        walk->status =
            walk->sink(file + i * inner->file_stride, block, (size_t)n * size, walk->payload);
    }
    return walk->status == WEFT_OK;
}

weft_status wf_file_slice_write(const weft_tensor *t, const struct wf_local_runs *local,
                                const struct wf_file_slice *piece, wf_file_slice_sink *sink,
                                void *payload)
{
    struct walk walk = {
        .row = write_element_row, .dtype = weft_tensor_dtype(t), .sink = sink, .payload = payload};

    if (!rank_holds_nothing(t)) walk_slice_elements(&walk, t, local, piece);
    return walk.status;
}
