/*
 * find_variant.c: which list a call with fullgraph runs. Guards compare what ranks know alike: then
 * each decides by itself. But strides, and which inputs share bytes, may follow from a rank's own
 * shard, who else holds a leaf's gradient from what its program does there alone, and each replica
 * of data parallelism has a batch of its own: then the ranks tell each other which lists fit. Those
 * that do are those of one mesh: of the first input that has one, else of the list.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "compile/compiled.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

_Static_assert(MOST_LISTS <= 64, "a list is a bit");

static bool any_sets_gradients(const weft_compiled *compiled)
{
    for (int i = 0; i < compiled->n_variants; i++)
        if (compiled->variants[i]->forward->n_gradients) return true;
    return false;
}

static bool any_list_calls_replicas(const weft_compiled *compiled)
{
    for (int i = 0; i < compiled->n_variants; i++)
        if (compiled->variants[i]->guards->of_replicas) return true;
    return false;
}

/* NULL: this rank decides what the others do. */
static struct wf_comm *comm_for_guard_agreement(const weft_compiled *compiled,
                                                weft_tensor *const *in, int n_in)
{
    bool ask = any_sets_gradients(compiled), plain = false;
    weft_mesh *mesh = NULL;
    struct wf_comm *comm;

    if (!compiled->n_variants) return NULL;
    for (int i = 0; i < n_in; i++) {
        if (!in[i]) continue;
        if (!mesh) mesh = in[i]->layout->mesh;
        ask |= wf_strides_may_differ(in[i]);
        plain |= !in[i]->layout->mesh;
    }
    if (!ask && !(plain && any_list_calls_replicas(compiled))) return NULL;
    comm = wf_mesh_all_axes_comm(mesh ? mesh : compiled->variants[0]->mesh);
    return comm && wf_comm_size(comm) > 1 ? comm : NULL;
}

/* Of variants (bits) those that fit on every rank. */
static uint64_t intersect_matches_over_ranks(weft_compiled *compiled, struct wf_comm *comm,
                                             uint64_t mine)
{
    int ranks = wf_comm_size(comm);

    if (compiled->fitting_room < ranks) {
        wf_free(compiled->fitting_of_ranks);
        compiled->fitting_room = ranks;
        compiled->fitting_of_ranks = wf_calloc((size_t)ranks, sizeof mine);
    }
    wf_comm_allgather_bytes(comm, &mine, compiled->fitting_of_ranks, sizeof mine);
    for (int r = 0; r < ranks; r++) mine &= compiled->fitting_of_ranks[r];
    return mine;
}

/* Bits of all that fit, or of the first alone. */
static uint64_t find_local_matches(const weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                   int n_out, bool all)
{
    uint64_t fitting = 0;

    for (int i = 0; i < compiled->n_variants && (all || !fitting); i++) {
        const struct wf_variant *variant = compiled->variants[i];

        if (wf_guards_hold(variant->guards, variant->forward, in, n_in, n_out, NULL, 0))
            fitting |= UINT64_C(1) << i;
    }
    return fitting;
}

struct wf_variant *wf_compiled_find_variant(weft_compiled *compiled, weft_tensor *const *in,
                                            int n_in, int n_out)
{
    struct wf_comm *comm = comm_for_guard_agreement(compiled, in, n_in);
    uint64_t here = find_local_matches(compiled, in, n_in, n_out, comm != NULL), fitting = here;
    struct wf_variant *last = compiled->n_variants ? compiled->variants[0] : NULL, *variant;
    int i = 0;

    if (comm) fitting = intersect_matches_over_ranks(compiled, comm, here);
    if (!fitting) {
        if (here)
            snprintf(compiled->reason, sizeof compiled->reason, "no list fits on all ranks");
        else
            wf_compiled_explain_miss(compiled, last ? last->guards : NULL,
                                     last ? last->forward : NULL, in, n_in, n_out);
        return NULL;
    }
    while (!(fitting >> i & 1)) i++;
    variant = compiled->variants[i];
    memmove(&compiled->variants[1], &compiled->variants[0], (size_t)i * sizeof variant);
    compiled->variants[0] = variant;
    return variant;
}
