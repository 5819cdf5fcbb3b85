/* state.c: lists of things with names. How things become text is in state_value.c. */
#include "io/checkpoint/state.h"

#include <string.h>

#include <weft/autograd.h>
#include <weft/dtensor.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/safetensors.h"
#include "io/weights/weights_map.h"
#include "tensor/tensor.h"

weft_state *weft_state_new(void) { return WF_NEW(weft_state); }

/* Keep the first `count` things. */
static void truncate_items(weft_state *state, int64_t count)
{
    while (state->count > count) {
        struct wf_state_item *last = &state->items[--state->count];

        wf_free(last->name);
        weft_release(last->tensor);
    }
}

void weft_state_release(weft_state *state)
{
    if (!state) return;
    truncate_items(state, 0);
    wf_free(state->items);
    wf_free(state);
}

int64_t wf_state_find_item(const weft_state *state, const char *name)
{
    for (int64_t i = 0; i < state->count; i++)
        if (strcmp(state->items[i].name, name) == 0) return i;
    return -1;
}

static weft_status check_new_item(const weft_state *state, const char *name,
                                  const struct wf_state_item *item)
{
    WF_NEED(state, WEFT_ERR_ARG, "state: the list is NULL");
    WF_NEED(wf_is_valid_tensor_name(name), WEFT_ERR_ARG, "state: '%s' is no name", name);
    WF_NEED(wf_state_find_item(state, name) < 0, WEFT_ERR_ARG, "state: the name '%s' is in use",
            name);
    WF_NEED_GIVEN(item->where || item->tensor, "state: '%s' is NULL", name);
    WF_TRY(wf_tensor_check_alive(item->tensor, "state"));
    WF_NEED(item->kind != WF_STATE_TENSOR || !item->tensor->layout->partial, WEFT_ERR_LAYOUT,
            "state: tensor '%s' is partial, each rank has a term of it only; "
            "redistribute it first",
            name);
    return WEFT_OK;
}

/* Takes over `name`. */
static weft_status add_state_item(weft_state *state, char *name, struct wf_state_item item)
{
    weft_status status = check_new_item(state, name, &item);

    if (status != WEFT_OK) {
        wf_free(name);
        return status;
    }
    item.name = name;
    weft_retain(item.tensor);
    state->items = wf_array_grow(state->items, state->count, sizeof *state->items);
    state->items[state->count++] = item;
    return WEFT_OK;
}

static weft_status add_value_item(weft_state *state, const char *name, enum wf_state_item_kind kind,
                                  void *where, size_t bytes)
{
    return add_state_item(state, wf_strdup(name ? name : ""),
                          (struct wf_state_item){.kind = kind, .where = where, .bytes = bytes});
}

weft_status weft_state_add_tensor(weft_state *state, const char *name, weft_tensor *t)
{
    return add_state_item(state, wf_strdup(name ? name : ""),
                          (struct wf_state_item){.kind = WF_STATE_TENSOR, .tensor = t});
}

weft_status weft_state_add_int(weft_state *state, const char *name, int64_t *value)
{
    return add_value_item(state, name, WF_STATE_INT, value, 0);
}

weft_status weft_state_add_real(weft_state *state, const char *name, double *value)
{
    return add_value_item(state, name, WF_STATE_REAL, value, 0);
}

weft_status weft_state_add_bytes(weft_state *state, const char *name, void *bytes, size_t count)
{
    return add_value_item(state, name, WF_STATE_BYTES, bytes, count);
}

weft_status weft_state_add_generator(weft_state *state, const char *name, weft_generator *g)
{
    return add_value_item(state, name, WF_STATE_GENERATOR, g ? g : weft_default_generator(), 0);
}

/* ---- many at once: all, or none where one is refused ---- */

static weft_status undo_if_failed(weft_state *state, int64_t before, weft_status status)
{
    if (state && status != WEFT_OK) truncate_items(state, before);
    return status;
}

struct adding {
    weft_state *state;
    const char *prefix;
    weft_module *root;
    weft_optim *optim;
};

static weft_status add_module_tensor(const weft_module_tensor *it, void *payload)
{
    struct adding *adding = payload;

    if (it->unsaved) return WEFT_OK;
    return add_state_item(adding->state, wf_format("%s.%s", adding->prefix, it->path),
                          (struct wf_state_item){.kind = WF_STATE_TENSOR, .tensor = it->tensor});
}

weft_status weft_state_add_module(weft_state *state, const char *prefix, weft_module *module)
{
    struct adding adding = {.state = state, .prefix = prefix, .root = module};
    int64_t before = weft_state_count(state);

    WF_NEED(prefix && prefix[0], WEFT_ERR_ARG, "state: a module needs a name");
    return undo_if_failed(state, before,
                          weft_module_each_tensor(module, add_module_tensor, &adding));
}

/* An optimizer's state of one parameter; none of a frozen one. */
static weft_status add_optimizer_state(weft_module *m, const char *name, weft_tensor *parameter,
                                       void *payload)
{
    struct adding *adding = payload;
    weft_status status = WEFT_OK;
    char *path;

    if (!weft_requires_grad(parameter)) return WEFT_OK;
    path = wf_parameter_path(adding->root, m, name);
    for (int s = 0; s < weft_optim_state_count(adding->optim, parameter) && status == WEFT_OK;
         s++) {
        weft_scope *scope = weft_scope_open();

        status = add_state_item(
            adding->state,
            wf_format("%s.%s.%s", adding->prefix, path,
                      weft_optim_state_name(adding->optim, parameter, s)),
            (struct wf_state_item){.kind = WF_STATE_TENSOR,
                                   .tensor = weft_optim_state(adding->optim, parameter, s)});
        weft_scope_close(scope);
    }
    if (status == WEFT_OK)
        status = add_state_item(adding->state, wf_format("%s.%s.updates", adding->prefix, path),
                                (struct wf_state_item){.kind = WF_STATE_OPTIM_UPDATES,
                                                       .tensor = parameter,
                                                       .where = adding->optim});
    wf_free(path);
    return status;
}

static weft_status add_optimizer_items(struct adding *adding)
{
    WF_TRY(add_state_item(
        adding->state, wf_format("%s.steps", adding->prefix),
        (struct wf_state_item){.kind = WF_STATE_OPTIM_STEPS, .where = adding->optim}));
    WF_TRY(
        add_state_item(adding->state, wf_format("%s.lr", adding->prefix),
                       (struct wf_state_item){.kind = WF_STATE_OPTIM_LR, .where = adding->optim}));
    return weft_module_each_parameter(adding->root, add_optimizer_state, adding);
}

weft_status weft_state_add_optim(weft_state *state, const char *prefix, weft_optim *optim,
                                 weft_module *module)
{
    struct adding adding = {.state = state, .prefix = prefix, .root = module, .optim = optim};
    int64_t before = weft_state_count(state);

    WF_NEED(prefix && prefix[0], WEFT_ERR_ARG, "state: an optimizer needs a name");
    return undo_if_failed(state, before, add_optimizer_items(&adding));
}

static weft_status add_items_of_state(weft_state *state, const char *prefix,
                                      const weft_state *other)
{
    for (int64_t i = 0; i < other->count; i++)
        WF_TRY(add_state_item(state, wf_format("%s.%s", prefix, other->items[i].name),
                              other->items[i]));
    return WEFT_OK;
}

weft_status weft_state_add_state(weft_state *state, const char *prefix, const weft_state *other)
{
    int64_t before = weft_state_count(state);

    WF_NEED(other && other != state && prefix && prefix[0], WEFT_ERR_ARG,
            "state: a list in a list is another one and has a name");
    return undo_if_failed(state, before, add_items_of_state(state, prefix, other));
}

/* ---- asking ---- */

int64_t weft_state_count(const weft_state *state) { return state ? state->count : 0; }

const char *weft_state_name(const weft_state *state, int64_t index)
{
    return state && index >= 0 && index < state->count ? state->items[index].name : NULL;
}

weft_tensor *weft_state_tensor(const weft_state *state, const char *name)
{
    int64_t at = state && name ? wf_state_find_item(state, name) : -1;

    return at >= 0 && state->items[at].kind == WF_STATE_TENSOR ? state->items[at].tensor : NULL;
}

weft_state *weft_state_gather(const weft_state *state, const int *ranks, int count)
{
    weft_state *whole;
    weft_status status = WEFT_OK;
    bool wanted = !ranks;

    for (int i = 0; ranks && i < count; i++) wanted |= ranks[i] == weft_world_rank();
    if (!state) return NULL;
    whole = weft_state_new();
    weft_no_grad_open();
    for (int64_t i = 0; i < state->count && status == WEFT_OK; i++) {
        weft_scope *scope = weft_scope_open();
        struct wf_state_item item = state->items[i];

        if (item.kind == WF_STATE_TENSOR) {
            item.tensor = weft_full_tensor(item.tensor);
            if (!item.tensor) status = weft_error_status();
        }
        if (wanted && status == WEFT_OK) status = add_state_item(whole, wf_strdup(item.name), item);
        weft_scope_close(scope);
    }
    weft_no_grad_close();
    if (status == WEFT_OK) return whole;
    weft_state_release(whole);
    return NULL;
}
