/*
 * shared_kv_heads.c: keys and values when query heads are split over ranks, also within the groups
 * that share a key and a value.
 *
 * H query heads in groups of R are cut by the chunk rule, c = ceil(H / ranks) each. Where that cuts
 * at the boundaries of groups only, keys and values are cut alike. Otherwise each rank takes R' =
 * gcd(c, R) heads at a time as a group of its own, and the key and value of the group that they
 * came from: every cut is then at the boundary of such groups. The parameter stays whole on every
 * rank, so that it is one parameter to norms and checkpoints; ranks compute only the keys and
 * values that they use, and its gradient is a partial sum.
 */
#include "base/error.h"
#include "base/int_math.h"
#include "base/mem.h"
#include "parallel_styles/style.h"

void wf_style_resolve_shared_heads(struct wf_resolved_style *use, const weft_module *m, int ways)
{
    const struct wf_features *f = m->features;
    int64_t groups, chunk, unit;

    if (!f || !f->shared_from) return;
    groups = weft_size(m->parameters[f->shared_from].tensor, 0);
    chunk = weft_chunk_size(groups * f->sharers, ways, 0);
    unit = wf_gcd(chunk, f->sharers);
    use->shared = weft_shard(0);
    if (chunk == f->sharers * weft_chunk_size(groups, ways, 0)) return;
    use->shared = weft_replicate();
    use->copies = f->sharers / unit;
    use->own = WF_OWN_LATER;
}

/* Which key and value each group of query heads takes; split as those are. */
static weft_tensor *kv_row_of_each_query_group(weft_mesh *mesh, int64_t count, int64_t copies)
{
    const weft_placement split = weft_shard(0);
    int64_t *index = wf_malloc((size_t)count * sizeof *index);
    weft_device before = weft_set_default_device(WEFT_CPU); /* a model may be without elements */
    weft_tensor *rows;

    for (int64_t i = 0; i < count; i++) index[i] = i / copies;
    rows = weft_from_data(WEFT_I64, &count, 1, index);
    weft_set_default_device(before);
    wf_free(index);
    return weft_distribute_tensor(rows, mesh, &split, -1);
}

weft_status wf_style_apply_shared_heads(weft_module *m, weft_mesh *mesh,
                                        const struct wf_resolved_style *use)
{
    weft_scope *scope;
    weft_tensor *rows;
    int from;

    if (!use->copies) return WEFT_OK;
    from = m->features->shared_from;
    scope = weft_scope_open();
    rows = kv_row_of_each_query_group(mesh, weft_size(m->parameters[from].tensor, 0) * use->copies,
                                      use->copies);
    for (int i = from; i < m->n_parameters && rows; i++) {
        weft_release(m->parameters[i].rows);
        m->parameters[i].rows = weft_retain(rows);
    }
    weft_scope_close(scope);
    return rows ? WEFT_OK : weft_error_status();
}
