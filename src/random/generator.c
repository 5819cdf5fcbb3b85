/*
 * generator.c: generators: the named ones, the current one, regions with another default, and
 * saving and restoring the state of all.
 *
 * The state is thread-local: a rank may be a thread. Nothing here communicates; generators of
 * different ranks agree because all ranks make the same draws.
 */
#include "random/generator.h"

#include <string.h>

#include <weft/mesh.h>

#include "base/error.h"
#include "base/mem.h"

struct region {
    weft_generator *current; /* NULL: `copy` */
    weft_generator copy;
    struct region *outer;
};

static _Thread_local struct {
    weft_generator own;    /* current outside all regions */
    struct region *region; /* innermost */
    weft_generator *all;   /* but `own`; the youngest first */
    int local;
    unsigned made;
} state;

static const uint64_t draws_end = (uint64_t)1 << 63;

/* ---- objects ---- */

weft_generator *weft_generator_new(uint64_t seed)
{
    weft_generator *g = WF_NEW(weft_generator);

    g->seed = seed;
    g->refs = 1;
    g->next = state.all;
    state.all = g;
    state.made++;
    return g;
}

weft_generator *weft_generator_new_curand(uint64_t seed)
{
    weft_generator *g = weft_generator_new(seed);

    g->curand = true;
    return g;
}

weft_generator *weft_generator_retain(weft_generator *g)
{
    if (g) g->refs++;
    return g;
}

void weft_generator_release(weft_generator *g)
{
    weft_generator **at = &state.all;

    if (!g || g == &state.own || --g->refs > 0) return;
    while (*at && *at != g) at = &(*at)->next;
    if (*at) *at = g->next; /* one that outlived weft_finalize is in no list */
    wf_free(g->name);
    wf_free(g);
}

weft_generator *wf_generator_or_current(weft_generator *given)
{
    if (given) return given;
    if (!state.region) return &state.own;
    return state.region->current ? state.region->current : &state.region->copy;
}

weft_generator *weft_default_generator(void) { return wf_generator_or_current(NULL); }

void wf_generator_each(void (*each)(weft_generator *g, void *payload), void *payload)
{
    weft_generator *current = wf_generator_or_current(NULL);

    each(current, payload);
    if (current != &state.own) each(&state.own, payload);
    for (weft_generator *g = state.all; g; g = g->next)
        if (g != current) each(g, payload);
}

unsigned wf_generator_made_count(void) { return state.made; }

uint64_t weft_generator_seed(const weft_generator *g) { return WF_HANDLE(g)->seed; }

uint64_t weft_generator_draws(const weft_generator *g) { return WF_HANDLE(g)->draw; }

void weft_generator_reseed(weft_generator *g, uint64_t seed)
{
    g = wf_generator_or_current(g);
    g->seed = seed;
    g->draw = 0;
    g->set_count++;
}

void weft_manual_seed(uint64_t seed) { weft_generator_reseed(NULL, seed); }

weft_status weft_manual_seed_on(weft_mesh *mesh, uint64_t seed)
{
    WF_NEED(mesh, WEFT_ERR_ARG, "manual_seed: no mesh");
    WF_NEED(weft_mesh_is_member(mesh), WEFT_ERR_STATE,
            "manual_seed requires the current rank to be a part of the device mesh");
    weft_manual_seed(seed);
    return WEFT_OK;
}

/* ---- state as bytes: two 64-bit numbers, the lowest byte first ---- */

static void put_u64_le(unsigned char *bytes, uint64_t word)
{
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(word >> 8 * i);
}

static uint64_t read_u64_le(const unsigned char *bytes)
{
    uint64_t word = 0;

    for (int i = 0; i < 8; i++) word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

void weft_generator_state(const weft_generator *g, unsigned char bytes[WEFT_GENERATOR_BYTES])
{
    WF_NEED_VOID(bytes, WEFT_ERR_ARG, "generator state: no bytes to write it to");
    if (!g) g = weft_default_generator();
    put_u64_le(bytes, g->seed);
    put_u64_le(bytes + 8, g->draw);
}

weft_status weft_generator_set_state(weft_generator *g,
                                     const unsigned char bytes[WEFT_GENERATOR_BYTES])
{
    uint64_t draw;

    WF_NEED(bytes, WEFT_ERR_ARG, "generator: no state to set");
    draw = read_u64_le(bytes + 8);
    WF_NEED(draw < draws_end, WEFT_ERR_ARG, "generator: draw number %llu in a state; at most 2^63",
            (unsigned long long)draw);
    g = wf_generator_or_current(g);
    g->seed = read_u64_le(bytes);
    g->draw = draw;
    g->set_count++;
    return WEFT_OK;
}

/* ---- names: those who have one are kept by the thread ---- */

static weft_generator *find_by_name(const char *name)
{
    weft_generator *g = state.all;

    while (g && (!g->name || strcmp(g->name, name) != 0)) g = g->next;
    return g;
}

weft_generator *weft_generator_find(const char *name)
{
    weft_generator *g = name ? find_by_name(name) : NULL;

    WF_NEED_PTR(g, WEFT_ERR_NOT_FOUND, "generator: none is named %s", name ? name : "(NULL)");
    return g;
}

weft_generator *weft_generator_add(const char *name, uint64_t seed)
{
    weft_generator *g;

    WF_NEED_PTR(name, WEFT_ERR_ARG, "generator: no name");
    for (g = state.all; g; g = g->next) {
        if (!g->name) continue;
        WF_NEED_PTR(strcmp(g->name, name) != 0, WEFT_ERR_STATE, "generator: %s is there already",
                    name);
        WF_NEED_PTR(g->first_seed != seed, WEFT_ERR_STATE,
                    "generator: %s would repeat the numbers of %s: both have seed %llu", name,
                    g->name, (unsigned long long)seed);
    }
    g = weft_generator_new(seed);
    g->name = wf_strdup(name);
    g->first_seed = seed;
    return g;
}

weft_status weft_manual_seed_parallel(weft_mesh *mesh, int axis, uint64_t seed)
{
    enum { APART = 2718 };
    weft_generator *own = find_by_name(WEFT_MODEL_PARALLEL_RNG);
    uint64_t mine;

    WF_NEED(!mesh || (axis >= 0 && axis < weft_mesh_ndim(mesh)), WEFT_ERR_ARG,
            "manual_seed: the mesh has no axis %d", axis);
    WF_TRY(weft_manual_seed_on(mesh, seed));
    mine = seed + APART + (uint64_t)weft_mesh_coordinate(mesh, axis);
    if (own)
        weft_generator_reseed(own, mine);
    else if (!weft_generator_add(WEFT_MODEL_PARALLEL_RNG, mine))
        return weft_error_status();
    return WEFT_OK;
}

void weft_generator_reset(void)
{
    weft_generator *next;

    for (weft_generator *g = state.all; g; g = next) {
        next = g->next;
        if (!g->name) continue;
        wf_free(g->name);
        g->name = NULL;
        weft_generator_release(g);
    }
}

/* ---- regions with another default ---- */

void weft_default_generator_open(weft_generator *g)
{
    struct region *region = WF_NEW(struct region);
    const weft_generator *outer = wf_generator_or_current(NULL);

    region->copy.seed = outer->seed;
    region->copy.draw = outer->draw;
    region->copy.curand = outer->curand;
    region->copy.refs = 1;
    region->current = weft_generator_retain(g);
    region->outer = state.region;
    state.region = region;
}

weft_status weft_default_generator_close(void)
{
    struct region *region = state.region;

    WF_NEED(region, WEFT_ERR_STATE, "default_generator_close: no region is open");
    state.region = region->outer;
    weft_generator_release(region->current);
    wf_free(region);
    return WEFT_OK;
}

/* ---- numbering by the rank's own shard ---- */

void weft_local_random_open(void) { state.local++; }

weft_status weft_local_random_close(void)
{
    WF_NEED(state.local > 0, WEFT_ERR_STATE, "local_random_close: no region is open");
    state.local--;
    return WEFT_OK;
}

bool wf_random_is_local(void) { return state.local > 0; }

/* ---- drawing the same numbers again ---- */

struct place {
    uint64_t seed, draw;
};

struct kept {
    weft_generator *g;
    struct place then, now;
};

struct wf_rng_state {
    weft_generator *generator; /* current then; NULL: the thread's own, or a copy */
    struct place current;
    struct region *outer; /* while they are drawn again */
    int local_then, local_now, count;
    struct kept each[];
};

static struct place position_of(const weft_generator *g)
{
    return (struct place){g->seed, g->draw};
}

static void set_position(weft_generator *g, struct place place)
{
    g->seed = place.seed;
    g->draw = place.draw;
}

struct wf_rng_state *wf_rng_state_save(void)
{
    struct wf_rng_state *draws;
    int n = 0;

    for (weft_generator *g = state.all; g; g = g->next) n++;
    draws = wf_calloc(1, sizeof *draws + (size_t)n * sizeof *draws->each);
    for (weft_generator *g = state.all; g; g = g->next)
        draws->each[draws->count++] =
            (struct kept){weft_generator_retain(g), .then = position_of(g)};
    draws->generator = state.region ? state.region->current : NULL; /* one of `each` */
    draws->current = position_of(wf_generator_or_current(NULL));
    draws->local_then = state.local;
    return draws;
}

void wf_rng_state_free(struct wf_rng_state *draws)
{
    for (int i = 0; draws && i < draws->count; i++) weft_generator_release(draws->each[i].g);
    wf_free(draws);
}

void wf_rng_state_enter(struct wf_rng_state *draws)
{
    for (int i = 0; i < draws->count; i++) {
        struct kept *kept = &draws->each[i];

        kept->now = position_of(kept->g);
        set_position(kept->g, kept->then);
    }
    draws->outer = state.region;
    weft_default_generator_open(draws->generator);
    if (!draws->generator) set_position(wf_generator_or_current(NULL), draws->current);
    draws->local_now = state.local;
    state.local = draws->local_then;
}

void wf_rng_state_leave(struct wf_rng_state *draws)
{
    state.local = draws->local_now;
    while (state.region && state.region != draws->outer)
        weft_default_generator_close(); /* a failure leaves more */
    for (int i = 0; i < draws->count; i++) set_position(draws->each[i].g, draws->each[i].now);
}

void wf_generator_finalize(void)
{
    while (state.region) weft_default_generator_close();
    weft_generator_reset();
    memset(&state, 0, sizeof state);
}
