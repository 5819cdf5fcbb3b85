/*
 * memory_plan.c: offsets by lifetimes. Storages are placed in the order of their first use, each in
 * the smallest gap that holds it among those that live then; freed gaps join their neighbours.
 */
#include "compile/replay/memory_plan.h"

#include "base/mem.h"
#include "base/settings/knob.h"
#include "compile/tools/names.h"
#include "device/pool.h"

/* One that peers can read, for collectives, one that they cannot, and the device's. */
enum area { AREA_PRIVATE, AREA_SHARED, AREA_DEVICE, AREAS };

/* Bytes that a storage is aligned to, as memory of its area is. */
enum { LINE = 64, DEVICE_LINE = 256 };

struct lifetime {
    int first, last; /* -1: not used */
    int64_t offset;
};

struct wf_memory_plan {
    struct lifetime *lives;
    int64_t bytes[AREAS];
    struct wf_block *block[AREAS];
    uint8_t *area; /* of each storage */
};

struct use {
    struct wf_memory_plan *plan;
    int node;
};

static void note_use(int storage, bool write, void *payload)
{
    struct use *use = payload;
    struct lifetime *life = &use->plan->lives[storage];

    (void)write;
    if (life->first < 0) life->first = use->node;
    life->last = use->node;
}

static void find_lifetimes(struct wf_memory_plan *plan, const struct wf_op_list *list)
{
    struct use use = {plan, 0};

    for (int s = 0; s < list->n_storages; s++) plan->lives[s] = (struct lifetime){-1, -1, 0};
    for (use.node = 0; use.node < list->n_nodes; use.node++)
        wf_list_node_visit_storages(list, &list->nodes[use.node], note_use, &use);
}

/* ---- gaps, in the order of their offsets; the last has no end ---- */

struct gap {
    int64_t offset, bytes;
};

struct gaps {
    struct gap *items;
    int n, room;
};

static void insert_gap(struct gaps *gaps, int at, struct gap gap)
{
    if (gaps->n == gaps->room) {
        gaps->room = gaps->room ? 2 * gaps->room : 64;
        gaps->items = wf_realloc(gaps->items, (size_t)gaps->room * sizeof *gaps->items);
    }
    for (int i = gaps->n; i > at; i--) gaps->items[i] = gaps->items[i - 1];
    gaps->items[at] = gap;
    gaps->n++;
}

static void remove_gap(struct gaps *gaps, int at)
{
    gaps->n--;
    for (int i = at; i < gaps->n; i++) gaps->items[i] = gaps->items[i + 1];
}

static int64_t take_bytes(struct gaps *gaps, int64_t bytes)
{
    int best = -1;
    int64_t offset;

    for (int i = 0; i < gaps->n; i++)
        if (gaps->items[i].bytes >= bytes &&
            (best < 0 || gaps->items[i].bytes < gaps->items[best].bytes))
            best = i;
    offset = gaps->items[best].offset;
    gaps->items[best].offset += bytes;
    gaps->items[best].bytes -= bytes;
    if (gaps->items[best].bytes == 0) remove_gap(gaps, best);
    return offset;
}

static void give_bytes_back(struct gaps *gaps, int64_t offset, int64_t bytes)
{
    int at = 0;

    while (at < gaps->n && gaps->items[at].offset < offset) at++;
    insert_gap(gaps, at, (struct gap){offset, bytes});
    if (at + 1 < gaps->n && offset + bytes == gaps->items[at + 1].offset) {
        gaps->items[at].bytes += gaps->items[at + 1].bytes;
        remove_gap(gaps, at + 1);
    }
    if (at > 0 && gaps->items[at - 1].offset + gaps->items[at - 1].bytes == offset) {
        gaps->items[at - 1].bytes += gaps->items[at].bytes;
        remove_gap(gaps, at);
    }
}

/* ---- placing ---- */

static bool lies_in_plan(const struct wf_op_list *list, const struct wf_memory_plan *plan, int s)
{
    return list->storages[s].kind == WF_STORAGE_MADE && !list->storages[s].kept &&
           plan->lives[s].first >= 0;
}

static int64_t room_of(const struct wf_storage *storage)
{
    int64_t line = storage->device == WEFT_CUDA ? DEVICE_LINE : LINE;

    return storage->bytes ? (storage->bytes + line - 1) / line * line : line;
}

/* Storages by the node of their first use, or of their last: a list per node. */
static int *storages_by_node(const struct wf_op_list *list, const struct wf_memory_plan *plan,
                             bool last, int **next)
{
    int *head = wf_malloc(((size_t)list->n_nodes + 1) * sizeof *head);

    *next = wf_malloc(((size_t)list->n_storages + 1) * sizeof **next);
    for (int i = 0; i < list->n_nodes; i++) head[i] = -1;
    for (int s = list->n_storages - 1; s >= 0; s--) {
        int node = last ? plan->lives[s].last : plan->lives[s].first;

        if (!lies_in_plan(list, plan, s)) continue;
        (*next)[s] = head[node];
        head[node] = s;
    }
    return head;
}

static void place_storages(struct wf_memory_plan *plan, const struct wf_op_list *list)
{
    struct gaps gaps[AREAS] = {{0}};
    int *next_begun, *next_ended;
    int *begun = storages_by_node(list, plan, false, &next_begun);
    int *ended = storages_by_node(list, plan, true, &next_ended);
    bool reuse = !wf_names_have(wf_knobs.compile_off, "memory"); /* else each has its own place */

    for (int a = 0; a < AREAS; a++) insert_gap(&gaps[a], 0, (struct gap){0, INT64_MAX / 2});
    for (int i = 0; i < list->n_nodes; i++) {
        for (int s = begun[i]; s >= 0; s = next_begun[s]) {
            int a = plan->area[s];
            int64_t end;

            plan->lives[s].offset = take_bytes(&gaps[a], room_of(&list->storages[s]));
            end = plan->lives[s].offset + room_of(&list->storages[s]);
            if (end > plan->bytes[a]) plan->bytes[a] = end;
        }
        for (int s = ended[i]; s >= 0 && reuse; s = next_ended[s])
            give_bytes_back(&gaps[plan->area[s]], plan->lives[s].offset,
                            room_of(&list->storages[s]));
    }
    for (int a = 0; a < AREAS; a++) wf_free(gaps[a].items);
    wf_free(begun);
    wf_free(ended);
    wf_free(next_begun);
    wf_free(next_ended);
}

static enum area area_of(const struct wf_storage *storage)
{
    if (storage->device == WEFT_CUDA) return AREA_DEVICE;
    return storage->category == WF_MEM_COMM ? AREA_SHARED : AREA_PRIVATE;
}

struct wf_memory_plan *wf_memory_plan_without_memory(const struct wf_op_list *list)
{
    struct wf_memory_plan *plan = WF_NEW(struct wf_memory_plan);

    plan->lives = wf_calloc((size_t)list->n_storages + 1, sizeof *plan->lives);
    plan->area = wf_calloc((size_t)list->n_storages + 1, sizeof *plan->area);
    for (int s = 0; s < list->n_storages; s++) plan->area[s] = (uint8_t)area_of(&list->storages[s]);
    find_lifetimes(plan, list);
    place_storages(plan, list);
    return plan;
}

struct wf_memory_plan *wf_memory_plan_new(const struct wf_op_list *list)
{
    static const enum wf_category category[AREAS] = {[AREA_PRIVATE] = WF_MEM_ACTIVATIONS,
                                                     [AREA_SHARED] = WF_MEM_COMM,
                                                     [AREA_DEVICE] = WF_MEM_ACTIVATIONS};
    struct wf_memory_plan *plan = wf_memory_plan_without_memory(list);

    for (int a = 0; a < AREAS; a++) {
        if (!plan->bytes[a]) continue;
        plan->block[a] = wf_block_new_on(a == AREA_DEVICE ? WEFT_CUDA : WEFT_CPU,
                                         (size_t)plan->bytes[a], category[a]);
        if (plan->block[a]) continue;
        wf_memory_plan_free(plan);
        return NULL;
    }
    return plan;
}

void wf_memory_plan_free(struct wf_memory_plan *plan)
{
    if (!plan) return;
    for (int a = 0; a < AREAS; a++)
        if (plan->block[a]) wf_block_release(plan->block[a]);
    wf_free(plan->lives);
    wf_free(plan->area);
    wf_free(plan);
}

char *wf_memory_plan_address(const struct wf_memory_plan *plan, int storage)
{
    if (plan->lives[storage].first < 0) return NULL;
    return (char *)plan->block[plan->area[storage]]->data + plan->lives[storage].offset;
}

int64_t wf_memory_plan_offset(const struct wf_memory_plan *plan, int storage)
{
    return plan->lives[storage].offset;
}

int64_t wf_memory_plan_bytes(const struct wf_memory_plan *plan)
{
    int64_t bytes = 0;

    for (int a = 0; a < AREAS; a++) bytes += plan->bytes[a];
    return bytes;
}

void wf_memory_plan_lifetime(const struct wf_memory_plan *plan, int storage, int *first, int *last)
{
    *first = plan->lives[storage].first;
    *last = plan->lives[storage].last;
}
