/*
 * in_flight.c: the redistributions of this thread that are in flight, oldest first. A
 * tensor whose handle is marked in flight is found here by its block.
 */
#include "redistribute/in_flight.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/recorder.h"
#include "redistribute/run.h"

struct async_redist {
    struct async_redist *next;
    struct wf_redist_run run;
    int at; /* the action in flight */
    struct wf_coll coll;
    struct wf_block *source, *result;
    void *owner;
    void (*release)(void *owner);
};

static _Thread_local struct async_redist *async_redists;

static const struct wf_redist_action *action_at(const struct async_redist *f, int i)
{
    return &f->run.plan->program->actions[i];
}

static int last_collective_action(const struct wf_redist_program *program)
{
    int i = program ? program->n_actions - 1 : -1;

    while (i >= 0 && program->actions[i].act != WF_ACT_COLL) i--;
    return i;
}

bool wf_redist_can_run_async(const struct wf_redist_plan *plan)
{
    return last_collective_action(plan->program) >= 0;
}

/* ---- landing ---- */

static void finish_in_flight(struct async_redist *f)
{
    struct async_redist **link = &async_redists;

    wf_comm_wait(&f->coll);
    wf_redist_release_dead_blocks(&f->run, action_at(f, f->at));
    for (int i = f->at + 1; i < f->run.plan->program->n_actions; i++) {
        wf_redist_run_action(&f->run, action_at(f, i));
        wf_redist_release_dead_blocks(&f->run, action_at(f, i));
    }
    while (*link != f) link = &(*link)->next;
    *link = f->next;
    f->source->readers--;
    wf_block_release(f->source);
    wf_block_release(f->result);
    f->release(f->owner);
    wf_free(f);
}

static struct async_redist *find_in_flight(const struct wf_block *block)
{
    struct async_redist *f = async_redists;

    while (f && f->result != block) f = f->next;
    return f;
}

bool wf_redist_is_in_flight(const weft_tensor *t) { return find_in_flight(t->block); }

void wf_tensor_wait(const weft_tensor *t)
{
    struct async_redist *f = find_in_flight(t->block);

    if (f)
        finish_in_flight(f);
    else if (wf_recorder && wf_recorder->wait)
        wf_recorder->wait(wf_recorder, t);
}

void wf_block_wait_readers(const struct wf_block *block)
{
    struct async_redist *f, *next;

    for (f = async_redists; f; f = next) {
        next = f->next;
        if (f->source == block) finish_in_flight(f);
    }
}

/* Finish those whose collective is complete, so that results nobody waits for do not pile up. */
static void finish_completed(void)
{
    struct async_redist *f, *next;

    for (f = async_redists; f; f = next) {
        next = f->next;
        if (wf_comm_test(&f->coll)) finish_in_flight(f);
    }
}

void wf_redist_wait_all(void)
{
    while (async_redists) finish_in_flight(async_redists);
}

/* ---- starting ---- */

/* The result's block is needed at once: blocks are made ahead, of actions behind the collective. */
struct wf_block *wf_redist_start_async(const struct wf_redist_plan *plan, const weft_tensor *source,
                                       void *owner, void (*release)(void *owner))
{
    struct async_redist *f = WF_NEW(struct async_redist), **link = &async_redists;

    finish_completed();
    f->run.plan = plan;
    f->run.device = wf_device_of(source);
    f->run.src = source->data;
    f->at = last_collective_action(plan->program);
    f->source = wf_block_retain(source->block);
    f->source->readers++;
    f->owner = owner;
    f->release = release;
    for (int i = 0; i < f->at; i++) {
        wf_redist_alloc_action_block(&f->run, action_at(f, i));
        wf_redist_run_action(&f->run, action_at(f, i));
        wf_redist_release_dead_blocks(&f->run, action_at(f, i));
    }
    for (int i = f->at; i < plan->program->n_actions; i++)
        wf_redist_alloc_action_block(&f->run, action_at(f, i));
    f->coll = wf_redist_action_collective(&f->run, action_at(f, f->at));
    wf_comm_start(&f->coll);
    f->result = wf_block_retain(wf_redist_run_result(&f->run));
    while (*link) link = &(*link)->next;
    *link = f;
    return f->result;
}
