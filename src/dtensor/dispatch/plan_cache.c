/* plan_cache.c: from a call's key to its plan. The hit is the library's hottest path. */
#include "dtensor/dispatch/plan_cache.h"

#include <string.h>

#include "base/call_context.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "dtensor/registration/registry.h"
#include "redistribute/in_flight.h"
#include "redistribute/link_cost.h"
#include <weft/extend/plan_cache.h>

enum { WAYS = 8 };

struct plan_set {
    uint64_t hash[WAYS];
    struct wf_op_plan *plan[WAYS];
};

static _Thread_local struct {
    struct plan_set *sets;
    uint64_t mask, clock;
    struct wf_plan_cache_stats stats; /* hits are counted by the clock */
} cache;

static uint64_t attr_word(const void *attrs, int i)
{
    uint64_t word;

    memcpy(&word, (const char *)attrs + (size_t)i * sizeof word, sizeof word);
    return word;
}

/* In place: the layout of what is written over. */
static inline struct wf_layout *wanted_layout(const struct wf_op_args *args)
{
    return args->into ? args->into->layout : args->want;
}

static uint64_t hash_op_call(enum wf_op op, weft_tensor *const *in, int n,
                             const struct wf_op_args *args)
{
    uint64_t hash = (uint64_t)op * 0x9E3779B97F4A7C15u;

    for (int i = 0; i < n; i++) hash = wf_hash_mix(hash, in[i] ? in[i]->layout->hash : 1);
    for (int i = 0; i < args->attr_words; i++) hash = wf_hash_mix(hash, attr_word(args->attrs, i));
    if (args->want) hash = wf_hash_mix(hash, args->want->hash);
    if (args->into) hash = wf_hash_mix(hash, ~args->into->layout->hash);
    return hash | 1; /* 0 marks a free way */
}

/* A function that is computed again in backward runs without a tape first: both runs choose alike.
 */
static bool call_requires_grad(weft_tensor *const *in, int n)
{
    bool wanted = wf_recompute_uses != NULL;

    if (wanted) return true;
    for (int i = 0; i < n; i++) wanted |= in[i] && in[i]->requires_grad;
    return wanted && wf_grad_is_enabled();
}

static inline bool plan_matches_call(const struct wf_op_plan *plan, enum wf_op op,
                                     weft_tensor *const *in, int n, const struct wf_op_args *args)
{
    if (plan->op != op || plan->n_in != n || plan->attr_words != args->attr_words ||
        plan->want != wanted_layout(args) || plan->in_place != (args->into != NULL))
        return false;
    for (int i = 0; i < n; i++)
        if (plan->in[i] != (in[i] ? in[i]->layout : NULL)) return false;
    for (int i = 0; i < args->attr_words; i++)
        if (attr_word(&plan->attrs, i) != attr_word(args->attrs, i)) return false;
    return !plan->depends_on_requires_grad || plan->requires_grad == call_requires_grad(in, n);
}

bool wf_op_plan_is_of_call(const struct wf_op_plan *plan, enum wf_op op, weft_tensor *const *in,
                           int n, const struct wf_op_args *args)
{
    return plan_matches_call(plan, op, in, n, args);
}

static void alloc_plan_cache(void)
{
    uint64_t sets = 1;

    while (sets * WAYS < (uint64_t)wf_knobs.plans) sets *= 2;
    cache.sets = wf_calloc(sets, sizeof *cache.sets);
    cache.mask = sets - 1;
}

static void insert_plan(struct plan_set *set, struct wf_op_plan *plan)
{
    int way = 0; /* a free one, else the least recently used */

    for (int w = 0; w < WAYS && set->plan[way]; w++)
        if (!set->plan[w] || set->plan[w]->stamp < set->plan[way]->stamp) way = w;
    if (set->plan[way]) {
        cache.stats.evictions++;
        cache.stats.entries--;
        wf_op_plan_release(set->plan[way]);
    }
    set->plan[way] = plan;
    set->hash[way] = plan->hash;
    plan->stamp = ++cache.clock;
    cache.stats.entries++;
}

static struct wf_layout *retain_layout(struct wf_layout *layout)
{
    return layout ? wf_layout_retain(layout) : NULL;
}

static struct wf_op_plan *new_op_plan(enum wf_op op, weft_tensor *const *in, int n,
                                      const struct wf_op_args *args, uint64_t hash)
{
    struct wf_op_plan *plan = WF_NEW(struct wf_op_plan);

    plan->hash = hash;
    plan->op = (uint16_t)op;
    plan->name = wf_op_name(op, args->attrs);
    plan->n_in = (uint8_t)n;
    plan->attr_words = (uint8_t)args->attr_words;
    plan->refs = 1;
    plan->want = retain_layout(wanted_layout(args));
    plan->in_place = args->into != NULL;
    plan->requires_grad = call_requires_grad(in, n);
    for (int i = 0; i < n; i++) plan->in[i] = retain_layout(in[i] ? in[i]->layout : NULL);
    if (args->attr_words > 0)
        memcpy(&plan->attrs, args->attrs, (size_t)args->attr_words * sizeof(uint64_t));
    return plan;
}

static void log_cache_outcome(const struct wf_op_plan *plan, const char *outcome)
{
    char text[1000];

    if (!wf_log_is_enabled(WF_LOG_DEBUG, "dtensor")) return;
    wf_op_plan_print(plan, text, sizeof text);
    wf_log(WF_LOG_DEBUG, "dtensor", "cache %s: %s", outcome, text);
}

/* Called in the last place: with no other call behind it a hit has no registers to save. */
__attribute__((noinline)) static struct wf_op_plan *log_cache_hit(struct wf_op_plan *plan)
{
    log_cache_outcome(plan, "hit");
    return plan;
}

static struct wf_op_plan *make_plan_on_miss(enum wf_op op, weft_tensor *const *in, int n,
                                            const struct wf_op_args *args, uint64_t hash)
{
    const char *outer = wf_current_context.op;
    struct wf_op_plan *plan;
    weft_status status;

    for (int i = 0; i < n; i++)
        WF_TRY_PTR(wf_tensor_check_alive(in[i], wf_op_name(op, args->attrs)));
    WF_TRY_PTR(wf_tensor_check_alive(args->into, wf_op_name(op, args->attrs)));
    plan = new_op_plan(op, in, n, args, hash);
    cache.stats.misses++;
    wf_current_context.op = plan->name;
    status = wf_op_plan_build(plan);
    wf_current_context.op = outer;
    if (status != WEFT_OK) {
        wf_op_plan_release(plan);
        return NULL;
    }
    if (wf_log_threshold >= WF_LOG_DEBUG) log_cache_outcome(plan, "miss");
    if (!cache.sets) alloc_plan_cache();
    insert_plan(&cache.sets[hash >> 1 & cache.mask], plan);
    return plan;
}

struct wf_op_plan *wf_op_plan_lookup(enum wf_op op, weft_tensor *const *in, int n,
                                     const struct wf_op_args *args)
{
    uint64_t hash = hash_op_call(op, in, n, args);
    struct wf_op_plan *plan;
    struct plan_set *set;

    if (!cache.sets) return make_plan_on_miss(op, in, n, args, hash);
    set = &cache.sets[hash >> 1 & cache.mask];
    for (int w = 0; w < WAYS; w++) {
        plan = set->plan[w];
        if (set->hash[w] != hash || !plan_matches_call(plan, op, in, n, args)) continue;
        plan->stamp = ++cache.clock;
        return wf_log_threshold >= WF_LOG_DEBUG ? log_cache_hit(plan) : plan;
    }
    return make_plan_on_miss(op, in, n, args, hash);
}

static bool is_plan_of_op(const struct wf_op_plan *plan, int op, int64_t id)
{
    return op < 0 || (plan->op == op && (id < 0 || plan->attrs.registered.op == id));
}

static void evict_matching_plans(int op, int64_t id)
{
    for (uint64_t i = 0; cache.sets && i < WAYS * (cache.mask + 1); i++) {
        struct plan_set *set = &cache.sets[i / WAYS];
        struct wf_op_plan *plan = set->plan[i % WAYS];

        if (!plan || !is_plan_of_op(plan, op, id)) continue;
        set->plan[i % WAYS] = NULL;
        set->hash[i % WAYS] = 0;
        cache.stats.evictions++;
        cache.stats.entries--;
        wf_op_plan_release(plan);
    }
}

void wf_plan_cache_evict_op(enum wf_op op, int64_t id) { evict_matching_plans((int)op, id); }

void wf_plan_cache_evict_all(void) { evict_matching_plans(-1, -1); }

void wf_op_plan_release_context(void *plan) { wf_op_plan_release(plan); }

struct wf_plan_cache_stats wf_plan_cache_stats(void)
{
    struct wf_plan_cache_stats stats = cache.stats;

    stats.hits = (int64_t)cache.clock - stats.entries - stats.evictions; /* it ticks for both */
    return stats;
}

void wf_plan_cache_finalize(void)
{
    wf_redist_wait_all(); /* they keep plans */
    for (uint64_t s = 0; cache.sets && s <= cache.mask; s++)
        for (int w = 0; w < WAYS; w++)
            if (cache.sets[s].plan[w]) wf_op_plan_release(cache.sets[s].plan[w]);
    wf_free(cache.sets);
    memset(&cache, 0, sizeof cache);
    wf_link_finalize();
}

void weft_plan_cache_clear(void) { wf_plan_cache_finalize(); }

weft_plan_cache_stats weft_plan_cache_statistics(void)
{
    struct wf_plan_cache_stats stats = wf_plan_cache_stats();

    return (weft_plan_cache_stats){stats.hits, stats.misses, stats.evictions, stats.entries,
                                   wf_layout_live_count()};
}
