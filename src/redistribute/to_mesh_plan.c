/*
 * to_mesh_plan.c: plans the exchange between two meshes. It decides who sends to whom; which
 * elements two shards share is found in shard_overlap.c, how they are copied is built in
 * program_build.c.
 *
 * A shard of the source is held by one rank, or by several alike where axes are replicated. Shards
 * do not overlap, so one rank sends another at most one message: the overlap of the sender's shard
 * and the receiver's new one, in the order of global indices, which both know.
 */
#include "redistribute/to_mesh_plan.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "mesh/mesh.h"
#include "redistribute/program_build.h"

/* A mesh and what its ranks hold. */
struct mesh_side {
    const struct wf_layout *layout;
    const int *sizes, *ranks;
    int n_axes, n_ranks;
    int *place_of; /* by world rank, -1 outside */
};

struct planner {
    struct mesh_side from, to;
    int me, world;           /* this rank, or the simulated one; ranks are below `world` */
    int n_shards, n_holders; /* of the source; every shard has as many holders */
    int *shard_of;           /* by place in the source's mesh */
    int *holders;            /* n_holders places per shard */
    struct wf_redist_builder builder;
};

/* ---- the two sides ---- */

/* Without ranks behind a mesh this process is the one that the mesh says. */
static int own_rank_on_mesh(const weft_mesh *mesh)
{
    const int *sizes = wf_mesh_sizes(mesh), *coordinates = wf_mesh_coordinates(mesh);
    int place = 0;

    if (!weft_mesh_is_fake(mesh)) return weft_world_rank();
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) place = place * sizes[a] + coordinates[a];
    return wf_mesh_rank_list(mesh)[place];
}

static int rank_upper_bound(int above, const weft_mesh *mesh)
{
    const int *ranks = wf_mesh_rank_list(mesh);

    for (int i = 0; i < weft_mesh_size(mesh); i++)
        if (ranks[i] >= above) above = ranks[i] + 1;
    return above;
}

static void init_mesh_side(struct mesh_side *mesh_side, const struct wf_layout *layout, int world)
{
    mesh_side->layout = layout;
    mesh_side->sizes = wf_mesh_sizes(layout->mesh);
    mesh_side->ranks = wf_mesh_rank_list(layout->mesh);
    mesh_side->n_axes = layout->n_axes;
    mesh_side->n_ranks = weft_mesh_size(layout->mesh);
    mesh_side->place_of = wf_malloc((size_t)world * sizeof(int));
    for (int rank = 0; rank < world; rank++) mesh_side->place_of[rank] = -1;
    for (int place = 0; place < mesh_side->n_ranks; place++)
        mesh_side->place_of[mesh_side->ranks[place]] = place;
}

static void coordinates_of_place(const struct mesh_side *mesh_side, int place, int *coordinates)
{
    for (int a = mesh_side->n_axes - 1; a >= 0; a--) {
        coordinates[a] = place % mesh_side->sizes[a];
        place /= mesh_side->sizes[a];
    }
}

/* Places with equal coordinates on the axes that shard hold the same shard. */
static void find_source_shards(struct planner *p)
{
    const struct mesh_side *from = &p->from;
    int *filled, coordinates[WEFT_MAX_AXES];

    p->n_shards = 1;
    for (int a = 0; a < from->n_axes; a++)
        if (wf_is_shard_or_strided(from->layout->placements[a])) p->n_shards *= from->sizes[a];
    p->n_holders = from->n_ranks / p->n_shards;
    p->shard_of = wf_malloc((size_t)from->n_ranks * sizeof(int));
    p->holders = wf_malloc((size_t)from->n_ranks * sizeof(int));
    filled = wf_calloc((size_t)p->n_shards, sizeof(int));
    for (int place = 0; place < from->n_ranks; place++) {
        int shard = 0;

        coordinates_of_place(from, place, coordinates);
        for (int a = 0; a < from->n_axes; a++)
            if (wf_is_shard_or_strided(from->layout->placements[a]))
                shard = shard * from->sizes[a] + coordinates[a];
        p->shard_of[place] = shard;
        p->holders[shard * p->n_holders + filled[shard]++] = place;
    }
    wf_free(filled);
}

/* Intersect a shard of the source with the new shard of a place, into the builder. gives: elements
 */
static int64_t intersect_shards(struct planner *p, int shard, int place)
{
    const struct wf_tensor_desc *desc = &p->from.layout->desc;
    int a[WEFT_MAX_AXES], b[WEFT_MAX_AXES];
    int64_t elements = 1;

    coordinates_of_place(&p->from, p->holders[shard * p->n_holders], a);
    coordinates_of_place(&p->to, place, b);
    for (int d = 0; d < desc->ndim; d++) {
        struct wf_shard have, want;

        wf_shard_init(&have, d, desc->global[d], p->from.sizes, a, p->from.layout->placements,
                      p->from.n_axes);
        wf_shard_init(&want, d, desc->global[d], p->to.sizes, b, p->to.layout->placements,
                      p->to.n_axes);
        wf_overlap_compute(&p->builder.overlap[d], &have, &want);
        elements *= p->builder.overlap[d].total;
    }
    return elements;
}

/* Elements of the shard at a place. */
static int64_t elements_at(const struct mesh_side *mesh_side, int place)
{
    const struct wf_tensor_desc *desc = &mesh_side->layout->desc;
    int64_t shape[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS], elements = 1;
    int coordinates[WEFT_MAX_AXES];

    coordinates_of_place(mesh_side, place, coordinates);
    wf_local_box(shape, offset, desc->global, desc->ndim, mesh_side->sizes, coordinates,
                 mesh_side->layout->placements, mesh_side->n_axes);
    for (int d = 0; d < desc->ndim; d++) elements *= shape[d];
    return elements;
}

/* The source's shard that the rank at a place of the target holds already, -1 for none. */
static int source_shard_held_by(const struct planner *p, int place)
{
    int before = p->from.place_of[p->to.ranks[place]];

    return before < 0 ? -1 : p->shard_of[before];
}

static bool any_rank_lacks_elements(struct planner *p)
{
    for (int place = 0; place < p->to.n_ranks; place++) {
        int shard = source_shard_held_by(p, place);

        if ((shard < 0 ? 0 : intersect_shards(p, shard, place)) < elements_at(&p->to, place))
            return true;
    }
    return false;
}

/* Where nothing moves: no rank of the target has more than it is to have. */
static bool nothing_is_left_out(const struct planner *p)
{
    for (int place = 0; place < p->to.n_ranks; place++) {
        int before = p->from.place_of[p->to.ranks[place]];
        int64_t had = before < 0 ? 0 : elements_at(&p->from, before);

        if (had != elements_at(&p->to, place)) return false;
    }
    return true;
}

/* ---- who sends to whom ---- */

/* Called for every receiver of a shard that does not hold it, in order. */
typedef void message_fn(int holder, int receiver, int64_t elements, void *payload);

/* The holder with least to send so far sends to the next receiver; of equal ones the first. */
static void assign_senders(struct planner *p, int shard, message_fn *each, void *payload)
{
    const int *holders = p->holders + shard * p->n_holders;
    int64_t *load = wf_calloc((size_t)p->n_holders, sizeof *load);

    for (int place = 0; place < p->to.n_ranks; place++) {
        int64_t elements;
        int least = 0;

        if (source_shard_held_by(p, place) == shard) continue;
        elements = intersect_shards(p, shard, place);
        if (elements == 0) continue;
        for (int h = 1; h < p->n_holders; h++)
            if (load[h] < load[least]) least = h;
        load[least] += elements;
        each(p->from.ranks[holders[least]], p->to.ranks[place], elements, payload);
    }
    wf_free(load);
}

struct my_counts {
    struct wf_to_mesh_plan *plan;
    int me;
};

static int find_rank_index(const struct wf_to_mesh_plan *b, int rank)
{
    int low = 0, high = b->n_ranks - 1;

    while (low < high) {
        int middle = (low + high) / 2;

        if (b->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void count_own_message(int holder, int receiver, int64_t elements, void *payload)
{
    struct my_counts *mine = payload;

    if (holder == mine->me)
        mine->plan->send_counts[find_rank_index(mine->plan, receiver)] = (size_t)elements;
    if (receiver == mine->me)
        mine->plan->recv_counts[find_rank_index(mine->plan, holder)] = (size_t)elements;
}

/* This rank sends of its shard, and receives of the shards that overlap its new one. */
static void count_own_messages(struct planner *p, struct wf_to_mesh_plan *b)
{
    struct my_counts mine = {b, p->me};
    int had = p->from.place_of[mine.me], get = p->to.place_of[mine.me];

    b->send_counts = wf_calloc((size_t)b->n_ranks, sizeof *b->send_counts);
    b->recv_counts = wf_calloc((size_t)b->n_ranks, sizeof *b->recv_counts);
    for (int shard = 0; shard < p->n_shards; shard++) {
        bool is_own = had >= 0 && p->shard_of[had] == shard;

        if (is_own || (get >= 0 && intersect_shards(p, shard, get) > 0))
            assign_senders(p, shard, count_own_message, &mine);
    }
}

/* ---- copies ---- */

static struct wf_copy_side source_copy_side(const struct planner *p)
{
    struct wf_copy_side mesh_side = {.kind = WF_SIDE_FIRST_SHARD};

    memcpy(mesh_side.stride, p->from.layout->desc.stride, sizeof mesh_side.stride);
    return mesh_side;
}

static void build_local_copy(struct planner *p, int had, int get)
{
    struct wf_redist_builder *builder = &p->builder;
    struct wf_copy_side src = source_copy_side(p), dst;

    wf_redist_add_action(builder, WF_ACT_COPY, 0, 0);
    if (had < 0 || get < 0 || intersect_shards(p, p->shard_of[had], get) == 0) return;
    dst = wf_redist_side_row_major(builder, WF_SIDE_SECOND_SHARD, p->to.layout->desc.shape, 0);
    wf_redist_add_overlap_copies(builder, &src, &dst);
}

static void build_pack_copies(struct planner *p, const struct wf_to_mesh_plan *b, int had)
{
    struct wf_redist_builder *builder = &p->builder;
    struct wf_copy_side src = source_copy_side(p), dst;
    int64_t at = 0;

    wf_redist_add_action(builder, WF_ACT_COPY, 0, 0);
    for (int i = 0; i < b->n_ranks; i++) {
        if (b->send_counts[i] == 0) continue;
        intersect_shards(p, p->shard_of[had], p->to.place_of[b->ranks[i]]);
        dst = wf_redist_side_of_overlap(builder, at);
        wf_redist_add_overlap_copies(builder, &src, &dst);
        at += (int64_t)b->send_counts[i];
    }
}

static void build_unpack_copies(struct planner *p, const struct wf_to_mesh_plan *b, int get)
{
    struct wf_redist_builder *builder = &p->builder;
    struct wf_copy_side src, dst;
    int64_t at = 0;

    wf_redist_add_action(builder, WF_ACT_COPY, 0, 0);
    for (int i = 0; i < b->n_ranks; i++) {
        if (b->recv_counts[i] == 0) continue;
        intersect_shards(p, p->shard_of[p->from.place_of[b->ranks[i]]], get);
        src = wf_redist_side_of_overlap(builder, at);
        dst = wf_redist_side_row_major(builder, WF_SIDE_SECOND_SHARD, p->to.layout->desc.shape, 0);
        wf_redist_add_overlap_copies(builder, &src, &dst);
        at += (int64_t)b->recv_counts[i];
    }
}

static void build_copy_actions(struct planner *p, struct wf_to_mesh_plan *b)
{
    int had = p->from.place_of[p->me], get = p->to.place_of[p->me];

    b->program = WF_NEW(struct wf_redist_program);
    p->builder.program = b->program;
    p->builder.ndim = p->from.layout->desc.ndim;
    p->builder.element = wf_dtypes[b->dtype].size;
    build_local_copy(p, had, get);
    build_pack_copies(p, b, had);
    build_unpack_copies(p, b, get);
}

/* ---- the plan ---- */

struct wf_to_mesh_plan *wf_to_mesh_plan_new(const struct wf_layout *from,
                                            const struct wf_layout *to)
{
    struct wf_to_mesh_plan *b = WF_NEW(struct wf_to_mesh_plan);
    struct planner p = {0};

    b->dtype = (weft_dtype)from->desc.dtype;
    b->device = (weft_device)from->desc.device;
    p.me = b->me = own_rank_on_mesh(from->mesh);
    p.world = rank_upper_bound(rank_upper_bound(p.me + 1, from->mesh), to->mesh);
    init_mesh_side(&p.from, from, p.world);
    init_mesh_side(&p.to, to, p.world);
    find_source_shards(&p);
    b->moves = any_rank_lacks_elements(&p);
    b->stays = !b->moves && nothing_is_left_out(&p);
    if (p.from.place_of[p.me] >= 0 || p.to.place_of[p.me] >= 0) {
        b->ranks = wf_malloc((size_t)p.world * sizeof(int));
        for (int rank = 0; rank < p.world; rank++)
            if (p.from.place_of[rank] >= 0 || p.to.place_of[rank] >= 0)
                b->ranks[b->n_ranks++] = rank;
        count_own_messages(&p, b);
        build_copy_actions(&p, b);
    }
    for (int d = 0; d < WEFT_MAX_DIMS; d++) wf_overlap_free(&p.builder.overlap[d]);
    wf_free(p.shard_of);
    wf_free(p.holders);
    wf_free(p.from.place_of);
    wf_free(p.to.place_of);
    return b;
}
