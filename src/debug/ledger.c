/*
 * ledger.c: counts collectives and ops by kind, axis, direction and module. Modules and their
 * parameters are in ledger_modules.c, texts in ledger_print.c.
 */
#include "debug/ledger.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "dtensor/dispatch/slow_path.h"
#include "ops/op_plan.h"

static bool is_op_plan_distributed(const struct wf_op_plan *plan)
{
    bool distributed = plan->out[0] && plan->out[0]->mesh;

    for (int i = 0; i < plan->n_in; i++) distributed |= plan->in[i] && plan->in[i]->mesh;
    return distributed;
}

/* Views that move nothing, and changes of dtype: what PyTorch's tables leave out too. */
static bool is_op_plan_trivial(const struct wf_op_plan *plan)
{
    bool moves = plan->slow_path & (WF_SLOW_IMPLICIT_MOVE | WF_SLOW_EXPLICIT_MOVE);
    const struct wf_op_row *row = &wf_ops[plan->op];

    return (!wf_op_has_kernel(row) && !moves) || (row->linear & (uint32_t)WF_CONVERTS);
}

static struct wf_ledger_line ledger_line_of_event(const struct wf_event *event)
{
    const struct wf_op_plan *plan = event->kind == WF_EVENT_OP ? event->subject : NULL;

    return (struct wf_ledger_line){.kind = event->kind,
                                   .name = (char *)event->name,
                                   .axis = (char *)event->axis,
                                   .path = (char *)(event->where.module ? event->where.module : ""),
                                   .place = event->where.module,
                                   .phase = event->where.phase,
                                   .coalesced = event->coalesced,
                                   .distributed = plan && is_op_plan_distributed(plan),
                                   .trivial = plan && is_op_plan_trivial(plan)};
}

static uint64_t hash_ledger_line(const struct wf_ledger_line *line)
{
    uint64_t key = wf_hash_mix((uint64_t)(uintptr_t)line->place,
                               (uint64_t)line->kind << 8 | (uint64_t)line->phase << 3 |
                                   (uint64_t)line->coalesced << 2 |
                                   (uint64_t)line->distributed << 1 | (uint64_t)line->trivial);

    key = wf_hash_mix(key, wf_hash_bytes(line->name, strlen(line->name)));
    return wf_hash_mix(key, wf_hash_bytes(line->axis, strlen(line->axis)));
}

static bool is_same_ledger_line(const struct wf_ledger_line *a, const struct wf_ledger_line *b)
{
    return a->key == b->key && a->kind == b->kind && a->place == b->place && a->phase == b->phase &&
           a->coalesced == b->coalesced && a->distributed == b->distributed &&
           a->trivial == b->trivial && strcmp(a->name, b->name) == 0 &&
           strcmp(a->axis, b->axis) == 0 && strcmp(a->path, b->path) == 0;
}

/* The slot of an equal line, or the free one where it belongs. */
static uint32_t *find_line_slot(const weft_ledger *ledger, const struct wf_ledger_line *line)
{
    for (size_t at = (size_t)line->key;; at++) {
        uint32_t *slot = &ledger->slots[at & (ledger->n_slots - 1)];

        if (!*slot || is_same_ledger_line(&ledger->lines[*slot - 1], line)) return slot;
    }
}

static void grow_line_table(weft_ledger *ledger)
{
    if (2 * (ledger->n_lines + 1) <= ledger->n_slots) return;
    wf_free(ledger->slots);
    ledger->n_slots = ledger->n_slots ? 2 * ledger->n_slots : 64;
    ledger->slots = wf_calloc(ledger->n_slots, sizeof *ledger->slots);
    ledger->lines = wf_realloc(ledger->lines, ledger->n_slots / 2 * sizeof *ledger->lines);
    for (size_t i = 0; i < ledger->n_lines; i++)
        *find_line_slot(ledger, &ledger->lines[i]) = (uint32_t)i + 1;
}

static struct wf_ledger_line *find_or_add_line(weft_ledger *ledger, struct wf_ledger_line line)
{
    uint32_t *slot;

    grow_line_table(ledger);
    line.key = hash_ledger_line(&line);
    slot = find_line_slot(ledger, &line);
    if (!*slot) {
        line.name = wf_strdup(line.name);
        line.axis = wf_strdup(line.axis);
        line.path = wf_strdup(line.path);
        ledger->lines[ledger->n_lines++] = line;
        *slot = (uint32_t)ledger->n_lines;
    }
    return &ledger->lines[*slot - 1];
}

static void record_event(const struct wf_event *event, void *payload)
{
    struct weft_ledger_sum sum = {.count = 1,
                                  .coalesced = event->coalesced,
                                  .bytes = (int64_t)event->bytes,
                                  .sent = (int64_t)event->sent,
                                  .seconds = event->seconds};

    if (event->kind == WF_EVENT_ENTER)
        wf_ledger_count_module_call(payload, event);
    else
        wf_ledger_sum_add(&find_or_add_line(payload, ledger_line_of_event(event))->sum, &sum);
}

/* ---- the scope ---- */

static void start_observing(weft_ledger *ledger)
{
    ledger->observer =
        wf_observer_add(WF_EVENT_COLL | WF_EVENT_OP | WF_EVENT_ENTER | WF_EVENT_SYNCHRONIZATION,
                        record_event, ledger);
}

static void clear_ledger(weft_ledger *ledger)
{
    for (size_t i = 0; i < ledger->n_lines; i++) {
        wf_free(ledger->lines[i].name);
        wf_free(ledger->lines[i].axis);
        wf_free(ledger->lines[i].path);
    }
    wf_free(ledger->lines);
    wf_free(ledger->slots);
    ledger->lines = NULL;
    ledger->slots = NULL;
    ledger->n_lines = ledger->n_slots = 0;
    wf_ledger_free_modules(ledger);
}

static _Thread_local weft_ledger *open_ledgers;

weft_ledger *weft_ledger_open(void)
{
    weft_ledger *ledger = WF_NEW(weft_ledger);

    wf_ledger_init_modules(ledger);
    start_observing(ledger);
    ledger->next = open_ledgers;
    open_ledgers = ledger;
    return ledger;
}

void weft_ledger_stop(weft_ledger *ledger)
{
    WF_NEED_VOID(ledger, WEFT_ERR_ARG, "ledger stop: no ledger");
    if (ledger->observer >= 0) wf_observer_remove(ledger->observer);
    ledger->observer = -1;
}

void weft_ledger_reset(weft_ledger *ledger)
{
    WF_NEED_VOID(ledger, WEFT_ERR_ARG, "ledger reset: no ledger");
    clear_ledger(ledger);
    wf_ledger_init_modules(ledger);
}

void weft_ledger_start(weft_ledger *ledger)
{
    WF_NEED_VOID(ledger, WEFT_ERR_ARG, "ledger start: no ledger");
    weft_ledger_reset(ledger);
    if (ledger->observer < 0) start_observing(ledger);
}

weft_status weft_ledger_close(weft_ledger *ledger)
{
    weft_ledger **at = &open_ledgers;

    if (!ledger) return WEFT_OK;
    while (*at && *at != ledger) at = &(*at)->next;
    WF_NEED(*at, WEFT_ERR_STATE,
            "ledger_close: the ledger was closed before, or is another thread's");
    *at = ledger->next;
    weft_ledger_stop(ledger);
    clear_ledger(ledger);
    wf_free(ledger);
    return WEFT_OK;
}

/* ---- sums ---- */

void wf_ledger_sum_add(struct weft_ledger_sum *sum, const struct weft_ledger_sum *more)
{
    sum->count += more->count;
    sum->coalesced += more->coalesced;
    sum->bytes += more->bytes;
    sum->sent += more->sent;
    sum->seconds += more->seconds;
}

static bool has_direction(const struct wf_ledger_line *line, weft_direction direction)
{
    return direction == WEFT_DIRECTION_ANY || (int)direction == (int)line->phase;
}

bool wf_ledger_line_matches(const struct wf_ledger_line *line, weft_coll kind,
                            weft_direction direction)
{
    return line->kind == WF_EVENT_COLL &&
           (kind == WEFT_COLL_COUNT || strcmp(line->name, wf_coll_name(kind)) == 0) &&
           has_direction(line, direction);
}

weft_ledger_sum weft_ledger_total(const weft_ledger *ledger, weft_coll kind,
                                  weft_direction direction, const char *module)
{
    weft_ledger_sum total = {0};

    for (size_t i = 0; ledger && i < ledger->n_lines; i++)
        if (wf_ledger_line_matches(&ledger->lines[i], kind, direction) &&
            (!module || strcmp(module, ledger->lines[i].path) == 0))
            wf_ledger_sum_add(&total, &ledger->lines[i].sum);
    return total;
}

weft_ledger_sum weft_ledger_synchronizations(const weft_ledger *ledger, weft_direction direction)
{
    weft_ledger_sum total = {0};

    for (size_t i = 0; ledger && i < ledger->n_lines; i++)
        if (ledger->lines[i].kind == WF_EVENT_SYNCHRONIZATION &&
            has_direction(&ledger->lines[i], direction))
            wf_ledger_sum_add(&total, &ledger->lines[i].sum);
    return total;
}

int64_t weft_ledger_count(const weft_ledger *ledger, weft_coll kind, weft_direction direction,
                          const char *module)
{
    return weft_ledger_total(ledger, kind, direction, module).count;
}

int64_t weft_ledger_bytes(const weft_ledger *ledger, weft_coll kind, weft_direction direction,
                          const char *module)
{
    return weft_ledger_total(ledger, kind, direction, module).bytes;
}

double weft_ledger_seconds(const weft_ledger *ledger)
{
    return weft_ledger_total(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL).seconds;
}
