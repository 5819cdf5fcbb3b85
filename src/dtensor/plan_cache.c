/* plan_cache.c: from a call's key to its plan. The hit is the library's hottest path. */
#include "dtensor/plan.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/where.h"
#include "dtensor/redistribute_cost.h"
#include "dtensor/redistribute_flight.h"
#include "dtensor/registry.h"
#include <weft/debug.h>

enum { WAYS = 8 };

struct plan_set {
    uint64_t hash[WAYS];
    struct wf_plan *plan[WAYS];
};

static _Thread_local struct {
    struct plan_set *sets;
    uint64_t mask, clock;
    struct wf_plan_stats stats; /* hits are counted by the clock */
} cache;

static uint64_t hash_of(enum wf_op op, int n, weft_tensor *const *in, const struct wf_args *args)
{
    uint64_t hash = (uint64_t)op * 0x9E3779B97F4A7C15u;

    for (int i = 0; i < n; i++) hash = wf_mix(hash, in[i] ? in[i]->layout->hash : 1);
    for (int i = 0; i < args->n_attr; i++) hash = wf_mix(hash, (uint64_t)args->attr[i]);
    if (args->want) hash = wf_mix(hash, args->want->hash);
    return hash | 1; /* 0 marks a free way */
}

static bool matches(const struct wf_plan *plan, enum wf_op op, int n, weft_tensor *const *in,
                    const struct wf_args *args)
{
    if (plan->op != op || plan->n_in != n || plan->n_attr != args->n_attr ||
        plan->want != args->want)
        return false;
    for (int i = 0; i < n; i++)
        if (plan->in[i] != (in[i] ? in[i]->layout : NULL)) return false;
    for (int i = 0; i < args->n_attr; i++)
        if (plan->attr[i] != args->attr[i]) return false;
    return true;
}

static void make_cache(void)
{
    uint64_t sets = 1;

    while (sets * WAYS < (uint64_t)wf_knobs.plans) sets *= 2;
    cache.sets = wf_calloc(sets, sizeof *cache.sets);
    cache.mask = sets - 1;
}

static int oldest_way(const struct plan_set *set)
{
    int oldest = 0;

    for (int w = 0; w < WAYS; w++) {
        if (!set->plan[w]) return w;
        if (set->plan[w]->stamp < set->plan[oldest]->stamp) oldest = w;
    }
    return oldest;
}

static void insert(struct plan_set *set, struct wf_plan *plan)
{
    int way = oldest_way(set);

    if (set->plan[way]) {
        cache.stats.evictions++;
        cache.stats.entries--;
        wf_plan_release(set->plan[way]);
    }
    set->plan[way] = plan;
    set->hash[way] = plan->hash;
    plan->stamp = ++cache.clock;
    cache.stats.entries++;
}

static struct wf_layout *keep(struct wf_layout *layout)
{
    return layout ? wf_layout_retain(layout) : NULL;
}

static struct wf_plan *new_plan(enum wf_op op, int n, weft_tensor *const *in,
                                const struct wf_args *args, uint64_t hash)
{
    struct wf_plan *plan = WF_NEW(struct wf_plan);

    plan->hash = hash;
    plan->op = (uint16_t)op;
    plan->name = wf_op_name(op, args->attr);
    plan->n_in = (uint8_t)n;
    plan->n_attr = (uint8_t)args->n_attr;
    plan->refs = 1;
    plan->want = keep(args->want);
    for (int i = 0; i < n; i++) plan->in[i] = keep(in[i] ? in[i]->layout : NULL);
    for (int i = 0; i < args->n_attr; i++) plan->attr[i] = args->attr[i];
    return plan;
}

static void log_plan(const struct wf_plan *plan, const char *outcome)
{
    char text[1000];

    if (!wf_log_wants(WF_LOG_DEBUG, "dtensor")) return;
    wf_plan_print(plan, text, sizeof text);
    wf_log(WF_LOG_DEBUG, "dtensor", "cache %s: %s", outcome, text);
}

/* Called in the last place: with no other call behind it a hit has no registers to save. */
__attribute__((noinline)) static struct wf_plan *logged_hit(struct wf_plan *plan)
{
    log_plan(plan, "hit");
    return plan;
}

static struct wf_plan *miss(enum wf_op op, int n, weft_tensor *const *in,
                            const struct wf_args *args, uint64_t hash)
{
    const char *outer = wf_here.op;
    struct wf_plan *plan;
    weft_status status;

    for (int i = 0; i < n; i++) WF_TRY_PTR(wf_tensor_need_live(in[i], wf_op_name(op, args->attr)));
    WF_TRY_PTR(wf_tensor_need_live(args->into, wf_op_name(op, args->attr)));
    plan = new_plan(op, n, in, args, hash);
    cache.stats.misses++;
    wf_here.op = plan->name;
    status = wf_plan_make(plan);
    wf_here.op = outer;
    if (status != WEFT_OK) {
        wf_plan_release(plan);
        return NULL;
    }
    if (wf_log_threshold >= WF_LOG_DEBUG) log_plan(plan, "miss");
    if (!cache.sets) make_cache();
    insert(&cache.sets[hash >> 1 & cache.mask], plan);
    return plan;
}

struct wf_plan *wf_plan_for(enum wf_op op, int n, weft_tensor *const *in,
                            const struct wf_args *args)
{
    uint64_t hash = hash_of(op, n, in, args);
    struct wf_plan *plan;
    struct plan_set *set;

    if (!cache.sets) return miss(op, n, in, args, hash);
    set = &cache.sets[hash >> 1 & cache.mask];
    for (int w = 0; w < WAYS; w++) {
        plan = set->plan[w];
        if (set->hash[w] != hash || !matches(plan, op, n, in, args)) continue;
        plan->stamp = ++cache.clock;
        return wf_log_threshold >= WF_LOG_DEBUG ? logged_hit(plan) : plan;
    }
    return miss(op, n, in, args, hash);
}

static bool is_of(const struct wf_plan *plan, int op, int64_t id)
{
    return op < 0 || (plan->op == op && (id < 0 || plan->attr[WF_CUSTOM_OP] == id));
}

static void forget(int op, int64_t id)
{
    for (uint64_t i = 0; cache.sets && i < WAYS * (cache.mask + 1); i++) {
        struct plan_set *set = &cache.sets[i / WAYS];
        struct wf_plan *plan = set->plan[i % WAYS];

        if (!plan || !is_of(plan, op, id)) continue;
        set->plan[i % WAYS] = NULL;
        set->hash[i % WAYS] = 0;
        cache.stats.evictions++;
        cache.stats.entries--;
        wf_plan_release(plan);
    }
}

void wf_plan_forget(enum wf_op op, int64_t id) { forget((int)op, id); }

void wf_plan_forget_all(void) { forget(-1, -1); }

void wf_plan_release_context(void *plan) { wf_plan_release(plan); }

struct wf_plan_stats wf_plan_stats(void)
{
    struct wf_plan_stats stats = cache.stats;

    stats.hits = (int64_t)cache.clock - stats.entries - stats.evictions; /* it ticks for both */
    return stats;
}

void wf_plan_finalize(void)
{
    wf_redist_land_all(); /* they keep plans */
    for (uint64_t s = 0; cache.sets && s <= cache.mask; s++)
        for (int w = 0; w < WAYS; w++)
            if (cache.sets[s].plan[w]) wf_plan_release(cache.sets[s].plan[w]);
    wf_free(cache.sets);
    memset(&cache, 0, sizeof cache);
    wf_link_finalize();
}

void weft_cache_clear(void) { wf_plan_finalize(); }

weft_cache_stats weft_cache_statistics(void)
{
    struct wf_plan_stats stats = wf_plan_stats();

    return (weft_cache_stats){stats.hits, stats.misses, stats.evictions, stats.entries,
                              wf_layout_count()};
}
