/*
 * step_draws.c: which generators a step draws from, and how far. It decides by numbers, not by
 * calls: what a copy of a generator draws (weft_default_generator_open of NULL), or a recomputation
 * draws again, has the numbers of the generator that it began with.
 */
#include "random/step_draws.h"

#include "base/array_grow.h"
#include "base/mem.h"

struct part {
    weft_generator *g;
    uint64_t seed, start; /* where this step begins */
    uint64_t count;       /* how far the step goes */
    unsigned set_count;
};

struct wf_step_draws {
    struct part *parts; /* the first: the current generator, which whoever opened it owns */
    int n;
    unsigned made;
    bool ambiguous;
    bool from_current; /* some draw may be the current generator's */
};

static void add_generator(weft_generator *g, void *payload)
{
    struct wf_step_draws *draws = payload;

    draws->parts = wf_array_grow(draws->parts, draws->n, sizeof *draws->parts);
    draws->parts[draws->n] =
        (struct part){draws->n ? weft_generator_retain(g) : g, g->seed, g->draw, 0, g->set_count};
    draws->n++;
}

struct wf_step_draws *wf_step_draws_begin(void)
{
    struct wf_step_draws *draws = WF_NEW(struct wf_step_draws);

    draws->made = wf_generator_made_count();
    wf_generator_each(add_generator, draws);
    return draws;
}

const char *wf_step_draws_end(struct wf_step_draws *draws)
{
    if (draws->made != wf_generator_made_count()) return "it makes a generator";
    if (draws->parts[0].g != wf_generator_or_current(NULL))
        return "it leaves another generator the default one";
    if (draws->ambiguous) return "two generators have the same seed";
    for (int i = 0; i < draws->n; i++) {
        struct part *part = &draws->parts[i];

        if (part->set_count != part->g->set_count) return "it seeds a generator";
        part->count = part->g->draw - part->start;
    }
    draws->from_current |= draws->parts[0].count > 0;
    return NULL;
}

void wf_step_draws_free(struct wf_step_draws *draws)
{
    if (!draws) return;
    for (int i = 1; i < draws->n; i++) weft_generator_release(draws->parts[i].g);
    wf_free(draws->parts);
    wf_free(draws);
}

/* How many generators may have drawn it, and in *found the first. `come`: of those that have come
 * as far as that. */
static int count_candidates(const struct wf_step_draws *draws, uint64_t seed, uint64_t draw,
                            bool come, struct wf_step_draw *found)
{
    int n = 0;

    for (int i = 0; i < draws->n; i++) {
        const struct part *part = &draws->parts[i];

        if (part->seed != seed || draw < part->start || (come && draw > part->g->draw)) continue;
        if (n++ == 0) *found = (struct wf_step_draw){i, draw - part->start};
    }
    return n;
}

/* A region's copy may be ahead of the generator that it is of. */
bool wf_step_draws_find(struct wf_step_draws *draws, uint64_t seed, uint64_t draw,
                        struct wf_step_draw *found)
{
    int n = count_candidates(draws, seed, draw, true, found);

    if (n == 0) n = count_candidates(draws, seed, draw, false, found);
    draws->ambiguous |= n > 1;
    draws->from_current |= n > 0 && found->generator == 0;
    return n > 0;
}

const char *wf_step_draws_begin_again(struct wf_step_draws *draws)
{
    weft_generator *current = wf_generator_or_current(NULL);

    if (draws->parts[0].g != current && draws->from_current)
        return "another generator is the default one than when the step was captured";
    draws->parts[0].g = current;
    for (int i = 0; i < draws->n; i++) {
        draws->parts[i].seed = draws->parts[i].g->seed;
        draws->parts[i].start = draws->parts[i].g->draw;
    }
    return NULL;
}

void wf_step_draws_numbers(const struct wf_step_draws *draws, struct wf_step_draw which,
                           uint64_t *seed, uint64_t *draw)
{
    const struct part *part = &draws->parts[which.generator];

    *seed = part->seed;
    *draw = part->start + which.before;
}

int wf_step_draws_generator_count(const struct wf_step_draws *draws) { return draws->n; }

void wf_step_draws_save(const struct wf_step_draws *draws, struct wf_draw_start *starts)
{
    for (int i = 0; i < draws->n; i++)
        starts[i] = (struct wf_draw_start){draws->parts[i].seed, draws->parts[i].start};
}

void wf_step_draws_restore(struct wf_step_draws *draws, const struct wf_draw_start *starts)
{
    for (int i = 0; i < draws->n; i++) {
        draws->parts[i].seed = starts[i].seed;
        draws->parts[i].start = starts[i].draw;
    }
}

void wf_step_draws_advance(struct wf_step_draws *draws)
{
    for (int i = 0; i < draws->n; i++) draws->parts[i].g->draw += draws->parts[i].count;
}
