/*
 * watch.c: a style changes the module that it is put on, and nothing else: not another module with
 * its parameters and gradients, not what the thread has set, not the generator beyond the draws
 * that one device makes too; and nobody else changes the module.
 */
#include "suite.h"

static uint64_t hash_parameters(const struct ws_parameters *p, bool gradients)
{
    uint64_t hash = 0;

    for (int i = 0; i < p->n; i++) {
        hash = ws_hash(p->at[i].tensor, hash);
        if (gradients) hash = ws_hash(weft_grad(p->at[i].tensor), hash);
    }
    return hash;
}

static uint64_t hash_reference(const struct ws_reference *r)
{
    uint64_t hash = hash_parameters(&r->parameters, true);

    hash = ws_hash(r->x, hash);
    if (weft_requires_grad(r->x)) hash = ws_hash(weft_grad(r->x), hash);
    hash = ws_hash(r->g, hash);
    return ws_hash(r->y, hash);
}

static void look(struct ws_watch *w, const struct ws_run *run, const struct ws_parameters *p)
{
    w->mesh = weft_default_mesh();
    w->guard = weft_guard_current();
    w->replication = weft_implicit_replication_current();
    w->device = weft_set_default_device(WEFT_CPU);
    weft_set_default_device(w->device);
    w->training = weft_module_training(run->reference.module);
    w->seed = weft_generator_seed(weft_default_generator());
    w->reference = hash_reference(&run->reference);
    w->parameters = hash_parameters(p, false);
}

void ws_watch_begin(struct ws_watch *w, const struct ws_run *run, const struct ws_parameters *p)
{
    weft_manual_seed(run->seed);
    look(w, run, p);
}

/* The reference is still a plain module that computes what it computed, alone. */
static void check_reference(struct ws_run *run)
{
    const struct ws_reference *r = &run->reference;
    weft_ledger *ledger = weft_ledger_open();
    weft_tensor *again;

    weft_no_grad_open();
    again = ws_reference_again(r, run->seed);
    weft_no_grad_close();
    if (!again || ws_hash(again, 0) != ws_hash(r->y, 0))
        ws_fail(run, "the module on one device gives another result than before");
    if (weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL))
        ws_fail(run, "the module on one device communicates");
    weft_ledger_close(ledger);
    for (int i = 0; i < r->parameters.n; i++)
        if (weft_tensor_mesh(r->parameters.at[i].tensor))
            ws_fail(run, "%s of the module on one device is distributed", r->parameters.at[i].name);
}

void ws_watch_end(const struct ws_watch *before, struct ws_run *run, const struct ws_parameters *p)
{
    struct ws_watch now;
    uint64_t draws = weft_generator_draws(weft_default_generator()), whole;

    if (ws_spoils(run, WS_SPOIL_STATE)) draws++;
    look(&now, run, p);
    if (draws != run->reference.draws)
        ws_fail(run, "the generator made %llu draws, on one device %llu", (unsigned long long)draws,
                (unsigned long long)run->reference.draws);
    if (now.seed != before->seed) ws_fail(run, "the generator has another seed");
    if (now.mesh != before->mesh) ws_fail(run, "the default mesh is another one");
    if (now.guard != before->guard || now.replication != before->replication)
        ws_fail(run, "a guard is set otherwise");
    if (now.device != before->device) ws_fail(run, "the default device is another one");
    if (now.training != before->training) ws_fail(run, "the module on one device trains no more");
    if (now.reference != before->reference)
        ws_fail(run, "a tensor of the module on one device has changed");
    if (now.parameters != before->parameters) ws_fail(run, "forward or backward wrote a parameter");
    whole = hash_parameters(p, true);
    check_reference(run);
    if (hash_parameters(p, true) != whole)
        ws_fail(run, "the module on one device changed the parallel one");
}
