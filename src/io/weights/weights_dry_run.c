/* weights_dry_run.c: which slices of which file a load would read on this rank, without reading
 * them.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/element_type.h"
#include "io/weights/weights_map.h"
#include "tensor/tensor.h"

/* What one source of a parameter gives this rank. */
struct reads {
    int64_t elements;
    struct wf_overlap both[WEFT_MAX_DIMS]; /* of each dim of the parameter; b: in the file */
};

static void find_slices_to_read(struct reads *reads, const struct wf_weight_fill *fill,
                                const struct wf_weight_source *source,
                                const struct wf_local_runs *local)
{
    const struct wf_tensor_desc *desc = &fill->tensor->layout->desc;
    bool outside =
        fill->tensor->layout->mesh && weft_mesh_coordinate(fill->tensor->layout->mesh, 0) < 0;

    *reads = (struct reads){.elements = outside ? 0 : 1};
    for (int d = 0; d < desc->ndim; d++) {
        struct wf_index_range whole = {0, desc->global[d]};

        if (d == fill->join)
            whole = (struct wf_index_range){source->rows.first, source->rows.count};
        wf_overlap_compute_ranges(&reads->both[d], local->runs[d], local->n_runs[d], &whole,
                                  whole.size > 0);
        reads->elements *= reads->both[d].total;
    }
}

static void print_slices_to_read(const struct reads *reads, int ndim, FILE *out)
{
    for (int d = 0; d < ndim; d++) {
        const char *before = d ? ";" : " ";

        for (int i = 0; i < reads->both[d].n; i++) {
            const struct wf_overlap_span *s = &reads->both[d].spans[i];

            for (int64_t r = 0; r < s->count; r++, before = ",")
                fprintf(out, "%s%lld+%lld", before, (long long)(s->b + r * s->b_step),
                        (long long)s->size);
        }
    }
}

/* One line: the tensor in the file, how many of its bytes, and for each dim of the parameter which
 * of the indices that the file has, as first+count. */
static int64_t print_reads_of_source(const struct wf_weight_fill *fill,
                                     const struct wf_weight_source *source,
                                     const struct wf_local_runs *local, FILE *out)
{
    const weft_weight *info = &source->item->info;
    struct reads reads;
    int64_t bytes;

    find_slices_to_read(&reads, fill, source, local);
    bytes = reads.elements * wf_element_type_info(source->item->entry->type)->bits / 8;
    if (out) {
        fprintf(out, "%s: %s %s: %lld of %lld bytes", fill->path, info->file, info->name,
                (long long)bytes, (long long)info->bytes);
        if (bytes) print_slices_to_read(&reads, weft_ndim(fill->tensor), out);
        fputc('\n', out);
    }
    for (int d = 0; d < WEFT_MAX_DIMS; d++) wf_overlap_free(&reads.both[d]);
    return bytes;
}

weft_status weft_weights_reads_print(int64_t *bytes, weft_module *module, weft_weights *weights,
                                     const weft_weight_names *names, FILE *out)
{
    struct wf_weights_map map = {0};
    weft_status status;
    int64_t read = 0;

    WF_NEED_GIVEN(module && weights, "weights reads: %s is NULL", module ? "weights" : "module");
    status = wf_weights_map_build(&map, module, weights, names, WF_MAP_SHAPES);
    for (int64_t i = 0; status == WEFT_OK && i < map.count; i++) {
        const struct wf_weight_fill *fill = &map.fills[i];
        struct wf_local_runs local;

        wf_local_runs_of_tensor(&local, fill->tensor);
        for (int s = 0; s < fill->n_sources; s++)
            read += print_reads_of_source(fill, &fill->sources[s], &local, out);
        wf_local_runs_free(&local);
    }
    wf_weights_map_free(&map);
    if (status != WEFT_OK) return status;
    if (bytes) *bytes = read;
    if (out) fprintf(out, "rank %d reads %lld bytes\n", weft_world_rank(), (long long)read);
    return WEFT_OK;
}
