/* shard_variants.c: see the header. */
#include "dtensor/dispatch/shard_variants.h"

static void add_shard_variant(struct wf_shard_variants *variants, weft_placement shard)
{
    shard.dim = 0;
    for (int k = 0; k < variants->count; k++)
        if (weft_placement_equal(variants->shard[k], shard)) return;
    variants->shard[variants->count++] = shard;
}

/* Heads and groups of heads share a letter: only chunks of such dims may correspond. */
static bool all_dims_have_one_size(const struct wf_infer *call, const struct wf_dim_labels *labels,
                                   int label)
{
    int64_t size = -1;

    for (int i = 0; i < call->n_in + call->n_out; i++) {
        int j = i - call->n_in, d = wf_dim_of_label(j < 0 ? labels->in[i] : labels->out[j], label);
        int64_t own;

        if (d < 0 || (j < 0 ? !call->in[i] : call->out[j].ndim < 0)) continue;
        own = j < 0 ? call->in[i]->desc.global[d] : call->out[j].shape[d];
        if (size >= 0 && own != size) return false;
        size = own;
    }
    return true;
}

static void add_shard_of_input(struct wf_shard_variants *variants, const struct wf_infer *call,
                               const struct wf_dim_labels *labels, const struct wf_layout *now,
                               const int8_t *dims, int axis, int label)
{
    weft_placement p = now->placements[axis];
    bool even = label < 32 && labels->even >> label & 1;
    bool boxes = even || wf_label_needs_contiguous_shards(call, label);

    if (!wf_is_shard_or_strided(p) || dims[p.dim] != label) return;
    if (boxes && !wf_placements_give_one_box(&p, 1)) return;
    if (labels->follow || even || all_dims_have_one_size(call, labels, label))
        add_shard_variant(variants, p);
}

void wf_list_shard_variants(struct wf_shard_variants *variants, const struct wf_infer *call,
                            const struct wf_dim_labels *labels, const weft_mesh *mesh, int axis,
                            int label)
{
    variants->count = 0;
    add_shard_variant(variants, weft_shard(0));
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] && call->in[i]->mesh)
            add_shard_of_input(variants, call, labels, call->in[i], labels->in[i], axis, label);
    if (call->want && call->want->mesh == mesh)
        add_shard_of_input(variants, call, labels, call->want, labels->out[0], axis, label);
}
