/*
 * redistribute_between.c: plans the exchange between two meshes. It decides who serves whom; which
 * elements two parts share is found in redistribute_overlap.c, how they are copied is built in
 * redistribute_build.c.
 *
 * A part of the source is held by one rank, or by several alike where axes do not cut. Parts do not
 * overlap, so between two ranks there is at most one message each way: what the sender's part and
 * the receiver's new part share, in the order of global indices, which both know.
 */
#include "dtensor/redistribute_between.h"

#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "dtensor/redistribute_build.h"
#include "mesh/mesh.h"

/* A mesh and what its ranks hold. */
struct side {
    const struct wf_layout *layout;
    const int *sizes, *ranks;
    int n_axes, n_ranks;
    int *place_of; /* by world rank, -1 outside */
};

struct planner {
    struct side from, to;
    int me, world;          /* this rank, or the one that is played; ranks are below `world` */
    int n_parts, n_holders; /* of the source; every part has as many holders */
    int *part_of;           /* by place in the source's mesh */
    int *holders;           /* n_holders places per part */
    struct wf_redist_builder builder;
};

/* ---- the two sides ---- */

/* Without ranks behind a mesh this process is the one that the mesh says. */
static int rank_on(const weft_mesh *mesh)
{
    const int *sizes = wf_mesh_sizes(mesh), *coordinates = wf_mesh_coordinates(mesh);
    int place = 0;

    if (!weft_mesh_is_fake(mesh)) return weft_world_rank();
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) place = place * sizes[a] + coordinates[a];
    return wf_mesh_rank_list(mesh)[place];
}

static int above_all(int above, const weft_mesh *mesh)
{
    const int *ranks = wf_mesh_rank_list(mesh);

    for (int i = 0; i < weft_mesh_size(mesh); i++)
        if (ranks[i] >= above) above = ranks[i] + 1;
    return above;
}

static void open_side(struct side *side, const struct wf_layout *layout, int world)
{
    side->layout = layout;
    side->sizes = wf_mesh_sizes(layout->mesh);
    side->ranks = wf_mesh_rank_list(layout->mesh);
    side->n_axes = layout->n_axes;
    side->n_ranks = weft_mesh_size(layout->mesh);
    side->place_of = wf_malloc((size_t)world * sizeof(int));
    for (int rank = 0; rank < world; rank++) side->place_of[rank] = -1;
    for (int place = 0; place < side->n_ranks; place++) side->place_of[side->ranks[place]] = place;
}

static void coordinates_of(const struct side *side, int place, int *coordinates)
{
    for (int a = side->n_axes - 1; a >= 0; a--) {
        coordinates[a] = place % side->sizes[a];
        place /= side->sizes[a];
    }
}

/* Places with equal coordinates on the axes that cut hold the same part. */
static void find_parts(struct planner *p)
{
    const struct side *from = &p->from;
    int *filled, coordinates[WEFT_MAX_AXES];

    p->n_parts = 1;
    for (int a = 0; a < from->n_axes; a++)
        if (wf_is_cut(from->layout->placements[a])) p->n_parts *= from->sizes[a];
    p->n_holders = from->n_ranks / p->n_parts;
    p->part_of = wf_malloc((size_t)from->n_ranks * sizeof(int));
    p->holders = wf_malloc((size_t)from->n_ranks * sizeof(int));
    filled = wf_calloc((size_t)p->n_parts, sizeof(int));
    for (int place = 0; place < from->n_ranks; place++) {
        int part = 0;

        coordinates_of(from, place, coordinates);
        for (int a = 0; a < from->n_axes; a++)
            if (wf_is_cut(from->layout->placements[a]))
                part = part * from->sizes[a] + coordinates[a];
        p->part_of[place] = part;
        p->holders[part * p->n_holders + filled[part]++] = place;
    }
    wf_free(filled);
}

/* Elements that a part of the source and the new part of a place share, into the builder. */
static int64_t meet(struct planner *p, int part, int place)
{
    const struct wf_desc *desc = &p->from.layout->desc;
    int a[WEFT_MAX_AXES], b[WEFT_MAX_AXES];
    int64_t elements = 1;

    coordinates_of(&p->from, p->holders[part * p->n_holders], a);
    coordinates_of(&p->to, place, b);
    for (int d = 0; d < desc->ndim; d++) {
        struct wf_part have, want;

        wf_part_of(&have, d, desc->global[d], p->from.n_axes, p->from.sizes, a,
                   p->from.layout->placements);
        wf_part_of(&want, d, desc->global[d], p->to.n_axes, p->to.sizes, b,
                   p->to.layout->placements);
        wf_overlap_find(&p->builder.overlap[d], &have, &want);
        elements *= p->builder.overlap[d].total;
    }
    return elements;
}

/* Elements of the part at a place. */
static int64_t elements_at(const struct side *side, int place)
{
    const struct wf_desc *desc = &side->layout->desc;
    int64_t shape[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS], elements = 1;
    int coordinates[WEFT_MAX_AXES];

    coordinates_of(side, place, coordinates);
    wf_box(shape, offset, desc->ndim, desc->global, side->n_axes, side->sizes, coordinates,
           side->layout->placements);
    for (int d = 0; d < desc->ndim; d++) elements *= shape[d];
    return elements;
}

/* The part that the rank at a place of the target holds already, -1 for none. */
static int part_held_by(const struct planner *p, int place)
{
    int before = p->from.place_of[p->to.ranks[place]];

    return before < 0 ? -1 : p->part_of[before];
}

static bool anything_moves(struct planner *p)
{
    for (int place = 0; place < p->to.n_ranks; place++) {
        int part = part_held_by(p, place);

        if ((part < 0 ? 0 : meet(p, part, place)) < elements_at(&p->to, place)) return true;
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

/* ---- who serves whom ---- */

/* Told of every receiver of a part that does not hold it, in order. */
typedef void serve_fn(int holder, int receiver, int64_t elements, void *payload);

/* The holder with least to send so far serves the next receiver; of equal ones the first. */
static void serve(struct planner *p, int part, serve_fn *each, void *payload)
{
    const int *holders = p->holders + part * p->n_holders;
    int64_t *load = wf_calloc((size_t)p->n_holders, sizeof *load);

    for (int place = 0; place < p->to.n_ranks; place++) {
        int64_t elements;
        int least = 0;

        if (part_held_by(p, place) == part) continue;
        elements = meet(p, part, place);
        if (elements == 0) continue;
        for (int h = 1; h < p->n_holders; h++)
            if (load[h] < load[least]) least = h;
        load[least] += elements;
        each(p->from.ranks[holders[least]], p->to.ranks[place], elements, payload);
    }
    wf_free(load);
}

struct my_counts {
    struct wf_between *between;
    int me;
};

static int index_of(const struct wf_between *b, int rank)
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

static void count_message(int holder, int receiver, int64_t elements, void *payload)
{
    struct my_counts *mine = payload;

    if (holder == mine->me)
        mine->between->send_counts[index_of(mine->between, receiver)] = (size_t)elements;
    if (receiver == mine->me)
        mine->between->recv_counts[index_of(mine->between, holder)] = (size_t)elements;
}

/* What I send is of my part; what I get is of the parts that my new one meets. */
static void count_messages(struct planner *p, struct wf_between *b)
{
    struct my_counts mine = {b, p->me};
    int had = p->from.place_of[mine.me], get = p->to.place_of[mine.me];

    b->send_counts = wf_calloc((size_t)b->n_ranks, sizeof *b->send_counts);
    b->recv_counts = wf_calloc((size_t)b->n_ranks, sizeof *b->recv_counts);
    for (int part = 0; part < p->n_parts; part++) {
        bool my_part = had >= 0 && p->part_of[had] == part;

        if (my_part || (get >= 0 && meet(p, part, get) > 0)) serve(p, part, count_message, &mine);
    }
}

/* ---- copies ---- */

static struct wf_build_side source_side(const struct planner *p)
{
    struct wf_build_side side = {.part = WF_PART_P};

    memcpy(side.stride, p->from.layout->desc.stride, sizeof side.stride);
    return side;
}

static void build_own(struct planner *p, int had, int get)
{
    struct wf_redist_builder *builder = &p->builder;
    struct wf_build_side src = source_side(p), dst;

    wf_build_action(builder, WF_ACT_COPY, 0, 0);
    if (had < 0 || get < 0 || meet(p, p->part_of[had], get) == 0) return;
    dst = wf_build_rows(builder, WF_PART_Q, p->to.layout->desc.shape, 0);
    wf_build_copies(builder, &src, &dst);
}

static void build_pack(struct planner *p, const struct wf_between *b, int had)
{
    struct wf_redist_builder *builder = &p->builder;
    struct wf_build_side src = source_side(p), dst;
    int64_t at = 0;

    wf_build_action(builder, WF_ACT_COPY, 0, 0);
    for (int i = 0; i < b->n_ranks; i++) {
        if (b->send_counts[i] == 0) continue;
        meet(p, p->part_of[had], p->to.place_of[b->ranks[i]]);
        dst = wf_build_shared(builder, at);
        wf_build_copies(builder, &src, &dst);
        at += (int64_t)b->send_counts[i];
    }
}

static void build_unpack(struct planner *p, const struct wf_between *b, int get)
{
    struct wf_redist_builder *builder = &p->builder;
    struct wf_build_side src, dst;
    int64_t at = 0;

    wf_build_action(builder, WF_ACT_COPY, 0, 0);
    for (int i = 0; i < b->n_ranks; i++) {
        if (b->recv_counts[i] == 0) continue;
        meet(p, p->part_of[p->from.place_of[b->ranks[i]]], get);
        src = wf_build_shared(builder, at);
        dst = wf_build_rows(builder, WF_PART_Q, p->to.layout->desc.shape, 0);
        wf_build_copies(builder, &src, &dst);
        at += (int64_t)b->recv_counts[i];
    }
}

static void build(struct planner *p, struct wf_between *b)
{
    int had = p->from.place_of[p->me], get = p->to.place_of[p->me];

    b->program = WF_NEW(struct wf_redist_program);
    p->builder.program = b->program;
    p->builder.ndim = p->from.layout->desc.ndim;
    p->builder.element = wf_dtypes[b->dtype].size;
    build_own(p, had, get);
    build_pack(p, b, had);
    build_unpack(p, b, get);
}

/* ---- the plan ---- */

/* None when this rank is in neither mesh. */
static void list_ranks(const struct planner *p, struct wf_between *b)
{
    if (p->from.place_of[p->me] < 0 && p->to.place_of[p->me] < 0) return;
    b->ranks = wf_malloc((size_t)p->world * sizeof(int));
    for (int rank = 0; rank < p->world; rank++)
        if (p->from.place_of[rank] >= 0 || p->to.place_of[rank] >= 0) b->ranks[b->n_ranks++] = rank;
}

static void close_planner(struct planner *p)
{
    for (int d = 0; d < WEFT_MAX_DIMS; d++) wf_overlap_free(&p->builder.overlap[d]);
    wf_free(p->part_of);
    wf_free(p->holders);
    wf_free(p->from.place_of);
    wf_free(p->to.place_of);
}

struct wf_between *wf_between_new(const struct wf_layout *from, const struct wf_layout *to)
{
    struct wf_between *b = WF_NEW(struct wf_between);
    struct planner p = {0};

    b->dtype = (weft_dtype)from->desc.dtype;
    p.me = b->me = rank_on(from->mesh);
    p.world = above_all(above_all(p.me + 1, from->mesh), to->mesh);
    open_side(&p.from, from, p.world);
    open_side(&p.to, to, p.world);
    find_parts(&p);
    b->moves = anything_moves(&p);
    b->stays = !b->moves && nothing_is_left_out(&p);
    list_ranks(&p, b);
    if (b->n_ranks > 0) {
        count_messages(&p, b);
        build(&p, b);
    }
    close_planner(&p);
    return b;
}
