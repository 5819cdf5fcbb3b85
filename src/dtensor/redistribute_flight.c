/*
 * redistribute_flight.c: the redistributions of this thread that are under way, oldest first. A
 * tensor whose handle says "pending" is looked for here by its block.
 */
#include "dtensor/redistribute_flight.h"

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/redistribute_run.h"
#include <weft/dtensor.h>

struct flight {
    struct flight *next;
    struct wf_redist_run run;
    int at; /* the action in flight */
    struct wf_coll coll;
    struct wf_block *source, *result;
    void *owner;
    void (*release)(void *owner);
};

static _Thread_local struct flight *flights;

static const struct wf_redist_action *action_of(const struct flight *f, int i)
{
    return &f->run.plan->program->actions[i];
}

static int last_collective(const struct wf_redist_program *program)
{
    int i = program ? program->n_actions - 1 : -1;

    while (i >= 0 && program->actions[i].act != WF_ACT_COLL) i--;
    return i;
}

bool wf_redist_can_fly(const struct wf_redist_plan *plan)
{
    return last_collective(plan->program) >= 0;
}

/* ---- landing ---- */

static void land(struct flight *f)
{
    struct flight **link = &flights;

    wf_comm_wait(&f->coll);
    wf_run_drop(&f->run, action_of(f, f->at));
    for (int i = f->at + 1; i < f->run.plan->program->n_actions; i++) {
        wf_run_act(&f->run, action_of(f, i));
        wf_run_drop(&f->run, action_of(f, i));
    }
    while (*link != f) link = &(*link)->next;
    *link = f->next;
    f->source->readers--;
    wf_block_release(f->source);
    wf_block_release(f->result);
    f->release(f->owner);
    wf_free(f);
}

static struct flight *find(const struct wf_block *block)
{
    struct flight *f = flights;

    while (f && f->result != block) f = f->next;
    return f;
}

void wf_tensor_await(const weft_tensor *t)
{
    struct flight *f = find(t->block);

    if (f) land(f);
}

void wf_block_await_readers(const struct wf_block *block)
{
    struct flight *f, *next;

    for (f = flights; f; f = next) {
        next = f->next;
        if (f->source == block) land(f);
    }
}

/* Those that have arrived, so that what nobody waits for does not pile up. */
static void land_arrived(void)
{
    struct flight *f, *next;

    for (f = flights; f; f = next) {
        next = f->next;
        if (wf_comm_test(&f->coll)) land(f);
    }
}

void wf_redist_land_all(void)
{
    while (flights) land(flights);
}

/* ---- starting ---- */

static void append(struct flight *f)
{
    struct flight **link = &flights;

    while (*link) link = &(*link)->next;
    *link = f;
}

/* The result's block is needed at once: blocks are made ahead, of actions behind the collective. */
struct wf_block *wf_redist_start(const struct wf_redist_plan *plan, const weft_tensor *source,
                                 void *owner, void (*release)(void *owner))
{
    struct flight *f = WF_NEW(struct flight);

    land_arrived();
    f->run.plan = plan;
    f->run.src = source->data;
    f->at = last_collective(plan->program);
    f->source = wf_block_retain(source->block);
    f->source->readers++;
    f->owner = owner;
    f->release = release;
    for (int i = 0; i < f->at; i++) {
        wf_run_make(&f->run, action_of(f, i));
        wf_run_act(&f->run, action_of(f, i));
        wf_run_drop(&f->run, action_of(f, i));
    }
    for (int i = f->at; i < plan->program->n_actions; i++) wf_run_make(&f->run, action_of(f, i));
    f->coll = wf_run_collective(&f->run, action_of(f, f->at));
    wf_comm_start(&f->coll);
    f->result = wf_block_retain(wf_run_result(&f->run));
    append(f);
    return f->result;
}

/* ---- for users ---- */

bool weft_is_pending(const weft_tensor *t) { return t && t->pending && find(t->block); }

weft_tensor *weft_wait(weft_tensor *t)
{
    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_need_held(t, "wait"));
    wf_settled(t);
    t->pending = false;
    return t;
}
