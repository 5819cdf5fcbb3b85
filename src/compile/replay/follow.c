/*
 * follow.c: comparing, putting off, and running what was put off.
 *
 * Dispatch has made the results' blocks by the time an op comes here, so addresses are known and
 * only the kernel waits. What nobody holds any more when the segment ends was never needed in its
 * own block: the segment's program keeps it in its own memory, or not at all.
 */
#include "compile/replay/follow.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "redistribute/in_flight.h"

/* ---- the call that is followed ---- */

struct follower {
    struct wf_recorder base;
    struct wf_segmented *const *candidates;
    int n_candidates;
    weft_tensor *const *in;
    struct wf_segmented *of;     /* NULL: the program differs, and runs on as it is */
    struct wf_binding *bindings; /* of the storages of the list */
    int room;
    int at;      /* the next node */
    int done;    /* nodes before it have run */
    int segment; /* the one that `done` is the first node of */
    bool running;
    struct wf_follow_result *result;
};

static const struct wf_list_node *next_node(const struct follower *f)
{
    return f->at < f->of->list->n_nodes ? &f->of->list->nodes[f->at] : NULL;
}

static void unbind(struct wf_binding *bound)
{
    if (!bound->block) return;
    if (bound->marked) bound->block->flags &= (uint8_t)~WF_BLOCK_HELD;
    wf_block_release(bound->block);
    bound->block = NULL;
}

static void bind(struct follower *f, int s, struct wf_block *block, char *base)
{
    unbind(&f->bindings[s]);
    f->bindings[s] =
        (struct wf_binding){wf_block_retain(block), base, !(block->flags & WF_BLOCK_HELD)};
    block->flags |= WF_BLOCK_HELD;
}

/* What other code has filled is met when it is read. */
static bool matches_operand(struct follower *f, const struct wf_operand *operand,
                            const weft_tensor *t)
{
    struct wf_binding *bound;

    if (operand->storage < 0) return t == NULL;
    if (!t) return false;
    bound = &f->bindings[operand->storage];
    if (!bound->block && f->of->list->storages[operand->storage].from_host)
        bind(f, operand->storage, t->block, (char *)t->data - operand->offset);
    return bound->block == t->block && bound->base + operand->offset == (char *)t->data;
}

/* ---- running what was put off ---- */

static void set_bases(const struct follower *f, const struct wf_op_list *list,
                      const struct wf_program_run *run)
{
    for (int s = 0; s < list->n_storages; s++)
        if (list->storages[s].kind != WF_STORAGE_MADE) run->base[s] = f->bindings[s].base;
}

static void run_program(struct follower *f, const struct wf_op_list *list,
                        struct wf_program *program)
{
    struct wf_program_run run;

    if (wf_program_begin_run(program, &run) != WEFT_OK)
        WF_DIE("compiled function: %s", weft_error_message()); /* other ranks are in it */
    set_bases(f, list, &run);
    wf_program_run_all(program, &run);
    wf_program_end_run(program, &run);
}

static void run_plain(struct follower *f)
{
    int n = f->of->list->n_storages;
    bool *given = wf_malloc((size_t)n + 1);
    struct wf_op_list *list;
    struct wf_program *program;

    memset(given, true, (size_t)n + 1);
    list = wf_op_list_cut(f->of->list, f->done, f->at, given);
    program = wf_segment_program_new(list, false, NULL, NULL);
    if (!program) WF_DIE("compiled function: %s", weft_error_message());
    run_program(f, list, program);
    wf_program_free(program);
    wf_op_list_free(list);
    wf_free(given);
    f->result->plain++;
}

/* Whoever holds one of them now did not when the segment was made ready. */
static bool holds_what_was_dead(const struct follower *f, const struct wf_list_segment *segment)
{
    for (int s = 0; s < f->of->list->n_storages; s++)
        if (!segment->given[s] && f->bindings[s].block && f->bindings[s].block->refs > 1)
            return true;
    return false;
}

static void unbind_dead(struct follower *f)
{
    for (int s = 0; f->of && s < f->of->list->n_storages; s++) {
        struct wf_binding *bound = &f->bindings[s];

        if (!bound->block || bound->block->refs > 1 ||
            f->of->list->storages[s].kind != WF_STORAGE_MADE)
            continue;
        unbind(bound);
    }
}

static void run_put_off(struct follower *f)
{
    const struct wf_list_segment *segment =
        f->of && f->segment < f->of->n_segments ? &f->of->segments[f->segment] : NULL;

    if (!f->of || f->done == f->at || f->running) return;
    f->running = true;
    if (segment && segment->first == f->done && segment->end == f->at &&
        !holds_what_was_dead(f, segment)) {
        run_program(f, segment->list, segment->program);
        f->result->segments++;
        f->result->nodes += wf_program_call_count(segment->program);
        if (wf_program_memory(segment->program) > f->result->memory)
            f->result->memory = wf_program_memory(segment->program);
    } else {
        run_plain(f);
    }
    while (f->segment < f->of->n_segments && f->of->segments[f->segment].first < f->at)
        f->segment++;
    f->done = f->at;
    unbind_dead(f);
    f->running = false;
}

/* ---- where the program differs ---- */

static void release_bindings(struct follower *f)
{
    for (int s = 0; s < f->room; s++) unbind(&f->bindings[s]);
    f->candidates[0]->bindings = f->bindings;
    f->candidates[0]->room = f->room;
    f->bindings = NULL;
    f->room = 0;
}

static void grow_bindings(struct follower *f, int n)
{
    if (n <= f->room) return;
    f->bindings = wf_realloc(f->bindings, (size_t)n * sizeof *f->bindings);
    memset(&f->bindings[f->room], 0, (size_t)(n - f->room) * sizeof *f->bindings);
    f->room = n;
}

/* Storages of the list that the program has not made. */
static void bind_what_was_there(struct follower *f)
{
    const struct wf_op_list *list = f->of->list;

    grow_bindings(f, list->n_storages);
    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];

        if (f->bindings[s].block) continue;
        if (storage->kind == WF_STORAGE_INPUT)
            bind(f, s, f->in[storage->index]->block, f->in[storage->index]->data);
        if (storage->kind == WF_STORAGE_EXTERNAL) bind(f, s, storage->block, storage->block->data);
        if (storage->kind == WF_STORAGE_GRADIENT) {
            const weft_tensor *grad = list->gradients[storage->index].leaf->grad;

            if (grad) bind(f, s, grad->block, grad->data); /* else the program has dropped it */
        }
    }
}

/* Another call that was the same up to here and then did `matches`. */
static bool try_others(struct follower *f, bool (*matches)(struct follower *f, const void *event),
                       const void *event)
{
    struct wf_segmented *before = f->of;

    for (int i = 0; i < f->n_candidates; i++) {
        if (f->candidates[i] == before ||
            !wf_op_lists_equal_to(before->list, f->candidates[i]->list, f->at))
            continue;
        run_put_off(f); /* with the list that it was compared with */
        f->of = f->candidates[i];
        bind_what_was_there(f);
        f->segment = 0;
        while (f->segment < f->of->n_segments && f->of->segments[f->segment].first < f->at)
            f->segment++;
        if (matches(f, event)) return true;
        f->of = before;
    }
    return false;
}

static void stop_following(struct follower *f, const char *what)
{
    const struct wf_list_node *expected = next_node(f);

    snprintf(f->result->reason, sizeof f->result->reason, "node %d is %s%s%s", f->at, what,
             expected ? ", it was " : ", the list had ended", expected ? expected->name : "");
    f->result->differed_at = f->at;
    run_put_off(f);
    f->of = NULL;
    f->base.wait = NULL; /* nothing is put off from now on */
}

/* The event is the list's next node, or that of another list: true, and the node is passed. */
static bool match_or_stop(struct follower *f,
                          bool (*matches)(struct follower *f, const void *event), const void *event,
                          const char *what)
{
    if (!f->of || f->running || f->base.suspended) return false;
    if (matches(f, event) || try_others(f, matches, event)) {
        f->at++;
        return true;
    }
    stop_following(f, what);
    return false;
}

/* ---- events ---- */

static void wait_if_async(const weft_tensor *t)
{
    if (t && t->in_flight && wf_redist_is_in_flight(t)) wf_tensor_wait(t);
}

/* The segment would draw the numbers that the program draws. */
static bool same_draw(const struct follower *f, const struct wf_list_node *node,
                      const struct wf_scalars *scalars)
{
    uint64_t seed, number;

    wf_step_draws_numbers(f->of->list->draws, node->draw, &seed, &number);
    return scalars->v[0] == (int64_t)seed && scalars->v[1] == (int64_t)number;
}

static bool matches_kernel(struct follower *f, const void *event)
{
    const struct wf_kernel_run_request *call = event;
    const struct wf_list_node *node = next_node(f);
    const struct wf_op_plan *plan = call->plan;

    if (!node || node->kind != WF_LIST_KERNEL || node->plan != plan ||
        node->in_place != call->in_place)
        return false;
    if (node->draws ? !same_draw(f, node, &call->args->scalars)
                    : memcmp(&node->scalars, &call->args->scalars, sizeof node->scalars) != 0)
        return false;
    for (int i = 0; i < plan->n_in; i++)
        if (!matches_operand(f, &node->in[i], call->in[i])) return false;
    for (int j = 0; j < node->n_out; j++) {
        int s = node->out[j].storage;

        if ((s < 0) != !call->blocks[j]) return false;
        if (s >= 0 && call->in_place &&
            (f->bindings[s].block != call->blocks[j] ||
             f->bindings[s].base + node->out[j].offset != (char *)call->to[j]))
            return false;
    }
    for (int j = 0; j < node->n_out; j++)
        if (node->out[j].storage >= 0 && !call->in_place)
            bind(f, node->out[j].storage, call->blocks[j], call->blocks[j]->data);
    return true;
}

static void run_kernel_now(struct follower *f, const struct wf_kernel_run_request *call)
{
    run_put_off(f);
    wf_recording_run_kernel(call);
}

/* A write that others see by handles of their own is not put off. */
static void run_if_visible(struct follower *f, const struct wf_list_node *node)
{
    const struct wf_storage *storage = &f->of->list->storages[node->out[0].storage];

    if (storage->kind != WF_STORAGE_MADE || storage->from_host) run_put_off(f);
}

static void follow_kernel(struct wf_recorder *base, const struct wf_kernel_run_request *call)
{
    struct follower *f = (struct follower *)base;

    for (int i = 0; i < call->plan->n_in; i++) wait_if_async(call->in[i]);
    if (!match_or_stop(f, matches_kernel, call, call->plan->name))
        run_kernel_now(f, call);
    else if (call->in_place)
        run_if_visible(f, &f->of->list->nodes[f->at - 1]);
}

struct copy_event {
    const struct wf_strided_copy *copy;
    struct wf_block *to, *from;
    void *dst;
    const void *src;
};

static bool matches_copy(struct follower *f, const void *event)
{
    const struct copy_event *e = event;
    const struct wf_list_node *node = next_node(f);
    const struct wf_binding *to, *from;

    if (!node || node->kind != WF_LIST_COPY || memcmp(node->copies, e->copy, sizeof *e->copy) != 0)
        return false;
    to = &f->bindings[node->out[0].storage];
    from = &f->bindings[node->in[0].storage];
    return to->block == e->to && to->base + node->out[0].offset == e->dst &&
           from->block == e->from && from->base + node->in[0].offset == e->src;
}

static void follow_copy(struct wf_recorder *base, const struct wf_strided_copy *copy,
                        struct wf_block *to, void *dst, struct wf_block *from, const void *src)
{
    struct follower *f = (struct follower *)base;
    struct copy_event event = {copy, to, from, dst, src};

    if (match_or_stop(f, matches_copy, &event, "a copy"))
        run_if_visible(f, &f->of->list->nodes[f->at - 1]);
    else
        wf_device_strided_copy(wf_block_device(to), copy, dst, src);
}

struct fill_event {
    struct wf_block *to;
    const void *element;
    size_t size, count;
};

static bool matches_fill(struct follower *f, const void *event)
{
    const struct fill_event *e = event;
    const struct wf_list_node *node = next_node(f);

    if (!node || node->kind != WF_LIST_FILL || node->element_bytes != e->size ||
        node->count != e->count || memcmp(node->element, e->element, e->size) != 0)
        return false;
    bind(f, node->out[0].storage, e->to, e->to->data);
    return true;
}

/* It is filled already. */
static void follow_fill(struct wf_recorder *base, struct wf_block *to, const void *element,
                        size_t size, size_t count)
{
    struct fill_event event = {to, element, size, count};

    (void)match_or_stop((struct follower *)base, matches_fill, &event, "a fill");
}

struct move_event {
    const struct wf_redist_plan *move;
    const weft_tensor *from;
};

static bool matches_move(struct follower *f, const void *event)
{
    const struct move_event *e = event;
    const struct wf_list_node *node = next_node(f);

    return node && node->kind == WF_LIST_MOVE && node->move == e->move &&
           matches_operand(f, &node->in[0], e->from);
}

static struct wf_block *follow_move(struct wf_recorder *base, struct wf_op_plan *owner,
                                    const struct wf_redist_plan *move, const weft_tensor *from)
{
    struct follower *f = (struct follower *)base;
    struct move_event event = {move, from};
    const struct wf_storage *result;
    struct wf_block *block;
    int s;

    wait_if_async(from);
    if (!match_or_stop(f, matches_move, &event, owner->name))
        return wf_redist_run(move, from->data);
    s = f->of->list->nodes[f->at - 1].out[0].storage;
    result = &f->of->list->storages[s];
    block = wf_block_new_on((weft_device)result->device, (size_t)result->bytes,
                            (enum wf_category)result->category);
    if (!block) WF_DIE("redistribute: %s", weft_error_message());
    bind(f, s, block, block->data);
    return block;
}

struct view_event {
    const struct wf_op_plan *plan;
    const weft_tensor *of, *view;
};

static bool matches_view(struct follower *f, const void *event)
{
    const struct view_event *e = event;
    const struct wf_list_node *node = next_node(f);

    return node && node->kind == WF_LIST_VIEW && node->plan == e->plan &&
           matches_operand(f, &node->in[0], e->of) && matches_operand(f, &node->out[0], e->view);
}

static void follow_view(struct wf_recorder *base, struct wf_op_plan *plan, const weft_tensor *of,
                        const weft_tensor *view)
{
    struct view_event event = {plan, of, view};

    (void)match_or_stop((struct follower *)base, matches_view, &event, plan->name);
}

static void follow_update(struct wf_recorder *base, const struct wf_changing_call *call,
                          weft_tensor *const *parameters, struct wf_optimizer_item *items, int n)
{
    run_put_off((struct follower *)base);
    wf_recording_run_update(parameters, items, n);
    call->release(call->self);
}

static void follow_wait(struct wf_recorder *base, const weft_tensor *t)
{
    (void)t;
    run_put_off((struct follower *)base);
}

static void follow_leave(struct wf_recorder *base, const char *reason)
{
    (void)reason;
    run_put_off((struct follower *)base);
}

static void ignore_block(struct wf_recorder *base, struct wf_block *block)
{
    (void)base;
    (void)block;
}

static void ignore_write(struct wf_recorder *base, struct wf_block *block, const char *op)
{
    (void)base;
    (void)block;
    (void)op;
}

static void ignore_gradient(struct wf_recorder *base, weft_tensor *leaf)
{
    (void)base;
    (void)leaf;
}

static bool delivers_nothing(struct wf_recorder *base, const weft_tensor *leaf)
{
    (void)base;
    (void)leaf;
    return false;
}

/* ---- a call ---- */

weft_status wf_follow(struct wf_segmented *const *candidates, int n, weft_tensor *const *in,
                      wf_followed_call *call, void *payload, struct wf_follow_result *result)
{
    struct follower f = {.base = {.kernel = follow_kernel,
                                  .copy = follow_copy,
                                  .fill = follow_fill,
                                  .move = follow_move,
                                  .view = follow_view,
                                  .update = follow_update,
                                  .block_made = ignore_block,
                                  .block_released = ignore_block,
                                  .block_written = ignore_write,
                                  .gradient_changes = ignore_gradient,
                                  .delivers = delivers_nothing,
                                  .collective = follow_leave,
                                  .wait = follow_wait,
                                  .leave = follow_leave},
                         .candidates = candidates,
                         .n_candidates = n,
                         .of = candidates[0],
                         .in = in,
                         .bindings = candidates[0]->bindings,
                         .room = candidates[0]->room,
                         .result = result};
    weft_status status;

    result->differed_at = -1;
    result->nodes = result->segments = result->plain = 0;
    result->memory = 0;
    result->reason[0] = 0;
    bind_what_was_there(&f);
    wf_recorder = &f.base;
    status = call(payload);
    run_put_off(&f);
    wf_recorder = NULL;
    release_bindings(&f);
    return status;
}
