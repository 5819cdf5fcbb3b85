/*
 * reshape_rule.c: how a reshape's result is cut where its input is cut in some dim.
 *
 * Old and new sizes are taken apart into the smallest groups with equal products. A group of one
 * dim each is the same dim. In others a cut of a dim is seen as a cut of the group flattened to one
 * dim: the dims in front of it (and the pieces of a strided shard) say in how many pieces the flat
 * dim is taken, each of which the axis cuts by the chunk rule. Such a cut is looked for in the
 * group's new dims. So flattening [6,S] whose S is sharded gives a strided shard of 6 pieces,
 * unflattening that gives the shard back, and nothing is sent.
 */
#include "ops/shape/reshape_rule.h"

#include "ops/call_dims.h"
#include "ops/op_functions.h"

static int add_dims(int8_t *dims, const int64_t *size, int first, int end)
{
    int n = 0;

    for (int d = first; d < end; d++)
        if (size[d] != 1) dims[n++] = (int8_t)d;
    if (n == 0) dims[n++] = (int8_t)first;
    return n;
}

int wf_reshape_groups(struct wf_reshape_group groups[WEFT_MAX_DIMS], const int64_t *old, int n_old,
                      const int64_t *new, int n_new)
{
    int n = 0, i = 0, j = 0;

    while (i < n_old && j < n_new) {
        int first_i = i, first_j = j;
        int64_t a = old[i++], b = new[j++];

        while (a != b) {
            if (a < b)
                a *= old[i++];
            else
                b *= new[j++];
        }
        groups[n].n_old = add_dims(groups[n].old_dim, old, first_i, i);
        groups[n].n_new = add_dims(groups[n].new_dim, new, first_j, j);
        n++;
    }
    return n;
}

/* ---- cuts of a group, seen from its old or from its new dims ---- */

struct group_side {
    int n;
    const int8_t *dim;
    int64_t size[WEFT_MAX_DIMS]; /* as the axes so far have cut it */
    bool varies[WEFT_MAX_DIMS];  /* ranks have different sizes of it */
};

static struct group_side side_of_group(const int8_t *dim, int n, const int64_t *size)
{
    struct group_side side = {.n = n, .dim = dim};

    for (int i = 0; i < n; i++) side.size[i] = size[dim[i]];
    return side;
}

static int place_in_group(const struct group_side *side, int dim)
{
    for (int i = 0; i < side->n; i++)
        if (side->dim[i] == dim) return i;
    return -1;
}

static int64_t chunk(int64_t n, int64_t ways) { return (n + ways - 1) / ways; }

/*
 * A cut of dim i, each of `pieces` over `ways` ranks, as a cut of the flat dim: false where it is
 * none. Chunks of the dim are chunks of the flat one when they divide evenly, or nothing is behind
 * the dim, or by luck: 7 over 4 in twos is 14 over 4 in fours.
 */
static bool flat_pieces(const struct group_side *side, int i, int64_t pieces, int64_t ways,
                        int64_t *flat)
{
    int64_t before = 1, behind = 1, piece;
    bool behind_varies = false;

    for (int k = 0; k < i; k++) {
        if (side->varies[k]) return false;
        before *= side->size[k];
    }
    for (int k = i + 1; k < side->n; k++) {
        behind *= side->size[k];
        behind_varies |= side->varies[k];
    }
    *flat = before * pieces;
    if (side->varies[i]) return pieces == 1 && behind == 1 && !behind_varies;
    if (side->size[i] % pieces != 0) return false;
    piece = side->size[i] / pieces;
    return piece % ways == 0 ||
           (!behind_varies && chunk(piece * behind, ways) == chunk(piece, ways) * behind);
}

/* The sizes that are left when dim i, or each of its pieces, is shared by `ways` ranks. */
static void shard_dim_of_side(struct group_side *side, int i, int64_t pieces, int64_t ways)
{
    if (!side->varies[i] && side->size[i] / pieces % ways == 0)
        side->size[i] /= ways;
    else
        side->varies[i] = true;
}

/* The dim, and its pieces, that are cut as the flat dim is; rather a whole dim than pieces of one.
 * gives: its place, -1 for none */
static int place_of_flat_cut(const struct group_side *side, int64_t flat, int64_t ways,
                             int64_t *pieces)
{
    int64_t before = 1, again;
    int best = -1;

    for (int i = 0; i < side->n; before *= side->size[i++]) {
        if (before > flat || flat % before != 0) continue;
        if (flat / before > INT32_MAX || !flat_pieces(side, i, flat / before, ways, &again))
            continue;
        best = i;
        *pieces = flat / before;
    }
    return best;
}

/* ---- balanced shards, turns and segments: only where the first dims correspond ---- */

static bool is_plain_or_strided(weft_placement p)
{
    return p.cut == WEFT_CUT_CHUNKS && p.order == 0 && p.n_segments == 0;
}

static bool only_first_dim_is_cut_evenly(const struct group_side *old, const struct group_side *new,
                                         const weft_mesh *mesh, const weft_placement *in,
                                         int n_axes)
{
    int64_t ways = 1;

    for (int a = 0; a < n_axes; a++) {
        if (!wf_is_shard_or_strided(in[a]) || place_in_group(old, in[a].dim) < 0) continue;
        if (in[a].dim != old->dim[0] || in[a].kind == WEFT_KIND_STRIDED || in[a].n_segments)
            return false;
        ways *= weft_mesh_axis_size(mesh, a);
    }
    return old->size[0] % ways == 0 && new->size[0] % ways == 0;
}

/* ---- the rule ---- */

static bool follow_in_group(const struct wf_infer *call, const struct wf_reshape_group *group,
                            const weft_mesh *mesh, const weft_placement *in, int n_axes,
                            weft_placement *out)
{
    const struct group_side whole_old = side_of_group(group->old_dim, group->n_old,
                                                      call->in[0]->desc.global),
                            whole_new =
                                side_of_group(group->new_dim, group->n_new, call->out[0].shape);
    struct group_side old = whole_old, new = whole_new;

    *out = in[n_axes - 1];
    out->dim = new.dim[0];
    if (old.n == 1 && new.n == 1) return true;
    for (int a = 0; a < n_axes; a++) {
        int64_t ways = weft_mesh_axis_size(mesh, a), flat, pieces, new_pieces;
        int i = wf_is_shard_or_strided(in[a]) ? place_in_group(&old, in[a].dim) : -1, j;

        if (i < 0) continue;
        if (!is_plain_or_strided(in[a]))
            return only_first_dim_is_cut_evenly(&whole_old, &whole_new, mesh, in, n_axes);
        pieces = in[a].kind == WEFT_KIND_STRIDED ? in[a].factor : 1;
        if (!flat_pieces(&old, i, pieces, ways, &flat)) return false;
        j = place_of_flat_cut(&new, flat, ways, &new_pieces);
        if (j < 0) return false;
        shard_dim_of_side(&old, i, pieces, ways);
        shard_dim_of_side(&new, j, new_pieces, ways);
        *out = new_pieces > 1 ? weft_strided_shard(new.dim[j], (int)new_pieces)
                              : weft_shard(new.dim[j]);
    }
    return true;
}

static bool follow_reshape(const struct wf_infer *call, const weft_mesh *mesh,
                           const weft_placement *in, int n_axes, weft_placement *out)
{
    struct wf_reshape_group groups[WEFT_MAX_DIMS];
    int n = wf_reshape_groups(groups, call->in[0]->desc.global, wf_ndim_of_input(call, 0),
                              call->out[0].shape, call->out[0].ndim);

    for (int g = 0; g < n; g++)
        for (int i = 0; i < groups[g].n_old; i++)
            if (groups[g].old_dim[i] == in[n_axes - 1].dim)
                return follow_in_group(call, &groups[g], mesh, in, n_axes, out);
    return false;
}

/* The first dims of a group have a letter: of those a replicated input may be cut. */
void wf_rule_reshape(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    struct wf_reshape_group groups[WEFT_MAX_DIMS];

    if (call->in[0]->numel == 0) return;
    labels->count = wf_reshape_groups(groups, call->in[0]->desc.global, wf_ndim_of_input(call, 0),
                                      call->out[0].shape, call->out[0].ndim);
    for (int g = 0; g < labels->count; g++) {
        labels->in[0][groups[g].old_dim[0]] = (int8_t)(g + 1);
        labels->out[0][groups[g].new_dim[0]] = (int8_t)(g + 1);
    }
    labels->follow = follow_reshape;
}
