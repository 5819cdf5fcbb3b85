/*
 * layout.c: the table of layouts. A candidate is filled in on the stack and looked up; only when
 * it is new does it move to the heap. What a layout says of a rank is decided in shard.c.
 */
#include "placement/layout.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum { FIRST_BUCKETS = 256 };

/* Chained; grows at one layout per bucket; gone when the last layout is. */
static _Thread_local struct {
    struct wf_layout **buckets;
    size_t size; /* power of two */
    int64_t count;
} table;

/* ---- filling in ---- */

/* Strides that walk the box as row-major ones do become those, so that such layouts are equal. */
static void fill_strides(struct wf_tensor_desc *desc, const int64_t *strides)
{
    int64_t step = 1;

    for (int d = desc->ndim - 1; d >= 0; d--) {
        desc->stride[d] = step;
        step *= desc->shape[d] > 0 ? desc->shape[d] : 1;
    }
    desc->contiguous = true;
    if (!strides || desc->numel == 0) return;
    for (int d = 0; d < desc->ndim; d++) /* the stride of a dim of one element is never used */
        if (desc->shape[d] > 1 && strides[d] != desc->stride[d]) desc->contiguous = false;
    if (!desc->contiguous) memcpy(desc->stride, strides, (size_t)desc->ndim * sizeof *strides);
}

static int64_t shape_product(const int64_t *shape, int ndim)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    return n;
}

/* True when this rank is in the mesh. */
static bool fill_local_box(struct wf_layout *l)
{
    int sizes[WEFT_MAX_AXES], coordinates[WEFT_MAX_AXES];
    struct wf_tensor_desc *desc = &l->desc;
    bool inside = true;

    desc->first_term = true;
    for (int a = 0; a < l->n_axes; a++) {
        sizes[a] = weft_mesh_axis_size(l->mesh, a);
        coordinates[a] = weft_mesh_coordinate(l->mesh, a);
        if (coordinates[a] < 0) inside = false;
        if (l->placements[a].kind != WEFT_KIND_PARTIAL) continue;
        l->partial = true;
        if (coordinates[a] != 0) desc->first_term = false;
    }
    wf_local_box(desc->shape, desc->offset, desc->global, desc->ndim, sizes, coordinates,
                 l->placements, l->n_axes);
    return inside;
}

static uint64_t hash_layout(const struct wf_layout *l)
{
    uint64_t hash = wf_hash_mix((uint64_t)(uintptr_t)l->mesh, (uint64_t)l->desc.device << 16 |
                                                                  (uint64_t)l->desc.dtype << 8 |
                                                                  (uint8_t)l->desc.ndim);

    for (int a = 0; a < l->n_axes; a++) {
        uint64_t words[3] = {0};

        memcpy(words, &l->placements[a], sizeof l->placements[a]);
        for (int w = 0; w < 3; w++) hash = wf_hash_mix(hash, words[w]);
    }
    for (int a = 0; l->grad_types.mesh && a < WEFT_MAX_AXES; a++) {
        const struct wf_grad_type *type = &l->grad_types.axis[a];

        hash = wf_hash_mix(hash, (uint64_t)type->kind << 16 | (uint64_t)(uint8_t)type->dim << 8 |
                                     type->reduce);
    }
    for (int d = 0; d < l->desc.ndim; d++) {
        hash = wf_hash_mix(hash, (uint64_t)l->desc.global[d]);
        hash = wf_hash_mix(hash, (uint64_t)l->desc.stride[d]);
    }
    return hash;
}

/* The runs of every dim in one block; NULL where they follow from the box. */
static struct wf_index_ranges *index_ranges_of(const struct wf_layout *l)
{
    int sizes[WEFT_MAX_AXES], coordinates[WEFT_MAX_AXES];
    struct wf_shard shard[WEFT_MAX_DIMS];
    struct wf_index_ranges *runs;
    struct wf_index_range *next;
    int64_t total = 0;

    if (l->boxes) return NULL;
    for (int a = 0; a < l->n_axes; a++) {
        sizes[a] = weft_mesh_axis_size(l->mesh, a);
        coordinates[a] = weft_mesh_coordinate(l->mesh, a);
    }
    for (int d = 0; d < l->desc.ndim; d++) {
        wf_shard_init(&shard[d], d, l->desc.global[d], sizes, coordinates, l->placements,
                      l->n_axes);
        total += wf_shard_ranges(&shard[d], NULL, 0);
    }
    runs = wf_malloc(sizeof *runs + (size_t)total * sizeof *next);
    next = (struct wf_index_range *)(runs + 1);
    for (int d = 0; d < l->desc.ndim; d++, total -= runs->count[d - 1]) {
        runs->of[d] = next;
        runs->count[d] = wf_shard_ranges(&shard[d], next, total);
        next += runs->count[d];
    }
    return runs;
}

/* ---- the table ---- */

static bool layouts_equal(const struct wf_layout *a, const struct wf_layout *b)
{
    size_t bytes = (size_t)a->desc.ndim * sizeof a->desc.global[0];

    return a->hash == b->hash && a->mesh == b->mesh && a->grad_types.mesh == b->grad_types.mesh &&
           memcmp(a->grad_types.axis, b->grad_types.axis, sizeof a->grad_types.axis) == 0 &&
           a->desc.dtype == b->desc.dtype && a->desc.ndim == b->desc.ndim &&
           a->desc.device == b->desc.device &&
           memcmp(a->placements, b->placements, sizeof a->placements) == 0 &&
           memcmp(a->desc.global, b->desc.global, bytes) == 0 &&
           memcmp(a->desc.stride, b->desc.stride, bytes) == 0;
}

static void grow_table(void)
{
    size_t size = table.size ? 2 * table.size : FIRST_BUCKETS;
    struct wf_layout **buckets = wf_calloc(size, sizeof(struct wf_layout *));

    for (size_t i = 0; i < table.size; i++) {
        struct wf_layout *l, *next;

        for (l = table.buckets[i]; l; l = next) {
            next = l->next;
            l->next = buckets[l->hash & (size - 1)];
            buckets[l->hash & (size - 1)] = l;
        }
    }
    wf_free(table.buckets);
    table.buckets = buckets;
    table.size = size;
}

static struct wf_layout *intern_layout(const struct wf_layout *candidate)
{
    struct wf_layout *l, **bucket;

    if ((size_t)table.count >= table.size) grow_table();
    bucket = &table.buckets[candidate->hash & (table.size - 1)];
    for (l = *bucket; l; l = l->next)
        if (layouts_equal(l, candidate)) return wf_layout_retain(l);
    l = wf_malloc(sizeof *l);
    *l = *candidate;
    l->desc.runs = index_ranges_of(l);
    l->refs = 1;
    l->next = *bucket;
    *bucket = l;
    table.count++;
    weft_mesh_retain(l->mesh);
    weft_mesh_retain(l->grad_types.mesh);
    return l;
}

void wf_layout_free(struct wf_layout *layout)
{
    struct wf_layout **at = &table.buckets[layout->hash & (table.size - 1)];

    while (*at != layout) at = &(*at)->next;
    *at = layout->next;
    weft_mesh_release(layout->mesh);
    weft_mesh_release(layout->grad_types.mesh);
    wf_free(layout->desc.runs);
    wf_free(layout);
    if (--table.count > 0) return;
    wf_free(table.buckets);
    table.buckets = NULL;
    table.size = 0;
}

int64_t wf_layout_live_count(void) { return table.count; }

/* ---- asking for one ---- */

struct wf_layout *wf_layout_new(weft_mesh *mesh, const weft_placement *placements, weft_dtype dtype,
                                const int64_t *global, const int64_t *strides, int ndim)
{
    size_t bytes = (size_t)ndim * sizeof *global;
    struct wf_layout l;
    bool inside;

    memset(&l, 0, sizeof l);
    l.desc.dtype = (uint8_t)dtype;
    l.desc.ndim = (int8_t)ndim;
    if (bytes) memcpy(l.desc.global, global, bytes);
    l.numel = shape_product(global, ndim);
    l.mesh = mesh;
    l.n_axes = mesh ? weft_mesh_ndim(mesh) : 0;
    for (int a = 0; a < l.n_axes; a++) l.placements[a] = placements[a];
    l.boxes = wf_placements_give_one_box(l.placements, l.n_axes);
    inside = fill_local_box(&l);
    l.desc.numel = inside ? shape_product(l.desc.shape, ndim) : 0;
    fill_strides(&l.desc, strides);
    l.hash = hash_layout(&l);
    return intern_layout(&l);
}

static struct wf_layout *intern_and_release_old(struct wf_layout *layout,
                                                const struct wf_layout *candidate)
{
    struct wf_layout *other = intern_layout(candidate);

    wf_layout_release(layout);
    return other;
}

struct wf_layout *wf_layout_on_device(struct wf_layout *layout, weft_device device)
{
    struct wf_layout candidate = *layout;

    if (layout->desc.device == device) return layout;
    candidate.desc.device = (uint8_t)device;
    candidate.hash = hash_layout(&candidate);
    return intern_and_release_old(layout, &candidate);
}

struct wf_layout *wf_layout_with_grad_types(struct wf_layout *layout,
                                            const struct wf_grad_types *types)
{
    static const struct wf_grad_types none;
    struct wf_layout candidate = *layout;

    candidate.grad_types = types ? *types : none;
    candidate.hash = hash_layout(&candidate);
    return intern_and_release_old(layout, &candidate);
}

static struct wf_layout *on_device_of(const struct wf_layout *layout, struct wf_layout *variation)
{
    return wf_layout_on_device(variation, (weft_device)layout->desc.device);
}

struct wf_layout *wf_layout_with_placements(const struct wf_layout *layout,
                                            const weft_placement *placements)
{
    return on_device_of(layout,
                        wf_layout_new(layout->mesh, placements, (weft_dtype)layout->desc.dtype,
                                      layout->desc.global, NULL, layout->desc.ndim));
}

struct wf_layout *wf_layout_with_dtype(const struct wf_layout *layout, weft_dtype dtype)
{
    return on_device_of(layout, wf_layout_new(layout->mesh, layout->placements, dtype,
                                              layout->desc.global, NULL, layout->desc.ndim));
}

struct wf_layout *wf_layout_local(const struct wf_layout *layout)
{
    return on_device_of(layout,
                        wf_layout_new(NULL, NULL, (weft_dtype)layout->desc.dtype,
                                      layout->desc.shape, layout->desc.stride, layout->desc.ndim));
}

bool wf_layout_shards_equal(const struct wf_layout *l)
{
    int64_t shape[WEFT_MAX_DIMS], first[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS];
    int sizes[WEFT_MAX_AXES] = {0}, at[WEFT_MAX_AXES] = {0}, a = l->n_axes;

    for (int i = 0; i < l->n_axes; i++) sizes[i] = weft_mesh_axis_size(l->mesh, i);
    wf_local_box(first, offset, l->desc.global, l->desc.ndim, sizes, at, l->placements, l->n_axes);
    while (a >= 0) {
        wf_local_box(shape, offset, l->desc.global, l->desc.ndim, sizes, at, l->placements,
                     l->n_axes);
        if (memcmp(shape, first, (size_t)l->desc.ndim * sizeof *shape) != 0) return false;
        for (a = l->n_axes - 1; a >= 0 && ++at[a] == sizes[a]; a--) at[a] = 0;
    }
    return true;
}

/* ---- printing ---- */

static void print_grad_type(struct wf_grad_type type, char *text, size_t bytes)
{
    static const char *const names[WF_TYPE_KINDS] = {[WF_TYPE_NONE] = "-",
                                                     [WF_TYPE_I] = "I",
                                                     [WF_TYPE_R] = "R",
                                                     [WF_TYPE_G] = "R?",
                                                     [WF_TYPE_V] = "V"};

    if (type.kind == WF_TYPE_S)
        snprintf(text, bytes, "S(%d)", type.dim);
    else if (type.kind == WF_TYPE_P)
        weft_placements_format((weft_placement[]){weft_partial((weft_reduce)type.reduce)}, 1, text,
                               bytes);
    else
        snprintf(text, bytes, "%s", names[type.kind]);
}

static int print_grad_types(const struct wf_grad_types *types, char *text, size_t bytes)
{
    char list[WF_PLACEMENTS_TEXT] = "", mesh[256];
    size_t at = 0;

    for (int a = 0; a < weft_mesh_ndim(types->mesh); a++) {
        at += (size_t)snprintf(list + at, sizeof list - at, "%s", a ? "," : "");
        print_grad_type(types->axis[a], list + at, sizeof list - at);
        at += strlen(list + at);
    }
    weft_mesh_format(types->mesh, mesh, sizeof mesh);
    return snprintf(text, bytes, " {%s} of %s", list, mesh);
}

int wf_layout_print(const struct wf_layout *layout, char *text, size_t bytes)
{
    char shape[WEFT_MAX_DIMS * 21 + 1] = "", placements[WF_PLACEMENTS_TEXT], mesh[256];
    int length = 0;

    for (int d = 0; d < layout->desc.ndim; d++)
        length += snprintf(shape + length, sizeof shape - (size_t)length, "%s%lld", d ? "," : "",
                           (long long)layout->desc.global[d]);
    if (!layout->mesh) {
        length =
            snprintf(text, bytes, "%s[%s]", weft_dtype_name((weft_dtype)layout->desc.dtype), shape);
        if (layout->grad_types.mesh && (size_t)length < bytes)
            length += print_grad_types(&layout->grad_types, text + length, bytes - (size_t)length);
        return length;
    }
    weft_placements_format(layout->placements, layout->n_axes, placements, sizeof placements);
    weft_mesh_format(layout->mesh, mesh, sizeof mesh);
    return snprintf(text, bytes, "%s[%s] [%s] on %s",
                    weft_dtype_name((weft_dtype)layout->desc.dtype), shape, placements, mesh);
}
