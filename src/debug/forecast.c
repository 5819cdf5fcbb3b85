/*
 * forecast.c: runs a training step on tensors without elements, and adds up what it would take:
 * memory by the allocator's simulated blocks, communication by the observers' events, time by the
 * links' latency and bandwidth.
 */
#include <weft/extend/explain.h>

#include <inttypes.h>
#include <string.h>

#include <weft/autograd.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/observers.h"
#include "redistribute/link_cost.h"
#include "redistribute/transitions.h"
#include "tensor/memory.h"

/* ---- communication ---- */

static weft_forecast_axis *forecast_entry_of_axis(weft_forecast *f, const struct wf_event *event)
{
    weft_forecast_axis *axis;

    for (int a = 0; a < f->n_axes; a++)
        if (strcmp(f->axes[a].name, event->axis) == 0 && f->axes[a].ranks == event->ranks)
            return &f->axes[a];
    if (f->n_axes == WEFT_FORECAST_AXES) return &f->axes[WEFT_FORECAST_AXES - 1];
    axis = &f->axes[f->n_axes++];
    snprintf(axis->name, sizeof axis->name, "%s", event->axis);
    axis->ranks = event->ranks;
    return axis;
}

static void add_collective_cost(const struct wf_event *event, void *payload)
{
    weft_forecast *f = payload;
    weft_forecast_axis *axis = forecast_entry_of_axis(f, event);
    double seconds = 1e-6 * wf_collective_time(wf_link_of_axis(event->axis),
                                               wf_redist_collective_hops(event->name, event->ranks),
                                               (double)event->sent);

    if (event->ranks == 1) return;
    axis->collectives++;
    axis->bytes += (int64_t)event->bytes;
    axis->sent += (int64_t)event->sent;
    axis->seconds += seconds;
    f->seconds += seconds;
}

/* ---- the step ---- */

struct leaves {
    weft_tensor **items;
    int n;
    bool real; /* some have elements */
};

static weft_status add_parameter_leaf(weft_module *m, const char *name, weft_tensor *parameter,
                                      void *payload)
{
    struct leaves *leaves = payload;

    (void)m;
    (void)name;
    leaves->items = wf_array_grow(leaves->items, leaves->n, sizeof *leaves->items);
    leaves->items[leaves->n++] = parameter;
    leaves->real |= weft_tensor_device(parameter) != WEFT_META;
    return WEFT_OK;
}

static weft_status run_training_step(weft_module *model, weft_optim *optim,
                                     const struct leaves *leaves, weft_tensor *const *inputs, int n)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *result = weft_call_n(model, inputs, n);
    weft_status status;

    if (!result)
        status = weft_error_status();
    else if (weft_numel(result) == 1)
        status = weft_backward(result);
    else
        status = weft_backward_from(result, weft_empty_like(result, WEFT_META));
    if (status == WEFT_OK)
        status = optim ? weft_step(optim) : weft_reduce_gradients(leaves->items, leaves->n);
    weft_scope_close(scope);
    return status;
}

static weft_status forecast_training_step(weft_forecast *f, weft_module *model, weft_optim *optim,
                                          const struct leaves *leaves, weft_tensor *const *inputs,
                                          int n)
{
    weft_status status;
    int observer;

    WF_NEED(leaves->n && !leaves->real, WEFT_ERR_STATE,
            "forecast: the model has %s; make it on WEFT_META",
            leaves->n ? "parameters with elements" : "no parameters");
    weft_memory_reset_peak();
    observer = wf_observer_add(WF_EVENT_COLL, add_collective_cost, f);
    status = run_training_step(model, optim, leaves, inputs, n);
    wf_observer_remove(observer);
    for (int c = 0; c <= WEFT_MEMORY_CATEGORIES; c++)
        f->memory[c] = weft_memory_simulated((weft_memory_category)c);
    return status;
}

weft_status weft_forecast_step(weft_forecast *forecast, weft_module *model, weft_optim *optim,
                               weft_tensor *const *inputs, int n)
{
    struct leaves leaves = {0};
    weft_status status;

    WF_NEED(forecast, WEFT_ERR_ARG, "forecast: nothing to write it to");
    WF_NEED(inputs || n <= 0, WEFT_ERR_ARG, "forecast: %d inputs, but no list of them", n);
    memset(forecast, 0, sizeof *forecast);
    WF_TRY(weft_module_each_parameter(model, add_parameter_leaf, &leaves));
    forecast->parameters = weft_module_numel(model);
    status = forecast_training_step(forecast, model, optim, &leaves, inputs, n);
    wf_free(leaves.items);
    return status;
}

/* ---- printing ---- */

void weft_forecast_print(const weft_forecast *f, FILE *out)
{
    WF_NEED_VOID(f && out, WEFT_ERR_ARG, "forecast print: no %s", f ? "file" : "forecast");
    fprintf(out, "%" PRId64 " parameters\n", f->parameters);
    fprintf(out, "%-14s %14s %14s  MiB per rank\n", "memory", "after", "most");
    for (int c = 0; c <= WEFT_MEMORY_CATEGORIES; c++)
        fprintf(out, "%-14s %14.2f %14.2f\n", wf_memory_category_name(c),
                (double)f->memory[c].live / 1048576, (double)f->memory[c].peak / 1048576);
    fprintf(out, "%-14s %6s %12s %14s %14s %10s\n", "communication", "ranks", "collectives",
            "bytes", "sent", "ms");
    for (int a = 0; a < f->n_axes; a++)
        fprintf(out, "%-14s %6d %12" PRId64 " %14" PRId64 " %14" PRId64 " %10.3f\n",
                f->axes[a].name, f->axes[a].ranks, f->axes[a].collectives, f->axes[a].bytes,
                f->axes[a].sent, 1e3 * f->axes[a].seconds);
    fprintf(out, "%-14s %62.3f\n", "all", 1e3 * f->seconds);
}
