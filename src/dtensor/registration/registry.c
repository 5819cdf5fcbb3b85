/*
 * registry.c: ops and rules that the program registered, per rank. An unregistered op keeps its
 * entry until the library ends: tapes may still need its gradient, tensors its name.
 */
#include "dtensor/registration/registry.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/dispatch/plan_cache.h"

struct registered_op {
    weft_op_spec spec;
    struct wf_user_rule rule; /* the spec's, or what replaced it */
    bool gone;
};

static _Thread_local struct {
    struct registered_op **ops;
    struct wf_user_rule *rules; /* of built-in ops, WF_OP_COUNT of them once there is one */
    char **texts;
    int n_ops, n_texts;
} registry;

/* ---- lookup ---- */

static struct registered_op *find_registered_op(const char *name)
{
    for (int i = 0; i < registry.n_ops; i++)
        if (!registry.ops[i]->gone && strcmp(registry.ops[i]->spec.name, name) == 0)
            return registry.ops[i];
    return NULL;
}

/* WF_OP_COUNT when there is none. */
static enum wf_op find_built_in_op(const char *name)
{
    int op = 0;

    while (op < WF_OP_COUNT && strcmp(wf_ops[op].name, name) != 0) op++;
    return (enum wf_op)op;
}

static int id_of_registered_op(const struct registered_op *registered_op)
{
    int i = 0;

    while (registry.ops[i] != registered_op) i++;
    return i;
}

const weft_op_spec *wf_registered_op(int64_t id, bool gone)
{
    if (id < 0 || id >= registry.n_ops || (registry.ops[id]->gone && !gone)) return NULL;
    return &registry.ops[id]->spec;
}

struct wf_user_rule wf_user_rule(const struct wf_op_row *row, const union wf_op_attrs *attrs)
{
    if (row->attrs == WF_ATTRS_registered) return registry.ops[attrs->registered.op]->rule;
    return registry.rules ? registry.rules[row - wf_ops] : (struct wf_user_rule){0};
}

bool wf_op_has_user_rule(unsigned op) { return registry.rules && registry.rules[op].function; }

const char *wf_op_name(enum wf_op op, const void *attrs)
{
    const struct wf_registered_attrs *registered = attrs;

    return wf_ops[op].attrs == WF_ATTRS_registered ? registry.ops[registered->op]->spec.name
                                                   : wf_ops[op].name;
}

/* ---- ops ---- */

static weft_status check_op_spec(const weft_op_spec *spec)
{
    WF_NEED(spec && spec->name && spec->name[0], WEFT_ERR_ARG, "register_op: an op needs a name");
    WF_NEED(spec->shape && spec->kernel, WEFT_ERR_ARG,
            "register_op: %s needs a shape and a kernel function", spec->name);
    WF_NEED(spec->n_out >= 1 && spec->n_out <= WEFT_OP_OUTPUTS, WEFT_ERR_ARG,
            "register_op: %s with %d outputs; 1 to %d are possible", spec->name, spec->n_out,
            WEFT_OP_OUTPUTS);
    WF_NEED(!find_registered_op(spec->name) && find_built_in_op(spec->name) == WF_OP_COUNT,
            WEFT_ERR_ARG,
            "register_op: there is an op %s already; weft_register_rule replaces its rule",
            spec->name);
    return WEFT_OK;
}

int weft_register_op(const weft_op_spec *spec)
{
    struct registered_op *registered_op;

    if (check_op_spec(spec) != WEFT_OK) return -1;
    registered_op = WF_NEW(struct registered_op);
    registered_op->spec = *spec;
    registered_op->spec.name = wf_strdup(spec->name);
    registered_op->rule = (struct wf_user_rule){spec->rule, spec->payload};
    registry.ops =
        wf_realloc(registry.ops, (size_t)(registry.n_ops + 1) * sizeof(struct registered_op *));
    registry.ops[registry.n_ops] = registered_op;
    return registry.n_ops++;
}

weft_status weft_unregister_op(const char *name)
{
    struct registered_op *registered_op = name ? find_registered_op(name) : NULL;

    WF_NEED(registered_op, WEFT_ERR_NOT_FOUND, "unregister_op: no op %s is registered",
            name ? name : "without a name");
    registered_op->gone = true;
    wf_plan_cache_evict_op(WF_OP_custom, id_of_registered_op(registered_op));
    return WEFT_OK;
}

/* ---- rules ---- */

static weft_status set_rule_of_op(const char *who, const char *name, struct wf_user_rule rule)
{
    struct registered_op *registered_op = name ? find_registered_op(name) : NULL;
    enum wf_op op;

    WF_NEED(name, WEFT_ERR_ARG, "%s: which op?", who);
    if (registered_op) {
        registered_op->rule = rule;
        wf_plan_cache_evict_op(WF_OP_custom, id_of_registered_op(registered_op));
        return WEFT_OK;
    }
    op = find_built_in_op(name);
    WF_NEED(op != WF_OP_COUNT, WEFT_ERR_NOT_FOUND, "%s: no op %s", who, name);
    WF_NEED(!wf_ops[op].planner, WEFT_ERR_ARG, "%s: %s decides its layouts by itself", who, name);
    if (!registry.rules) registry.rules = wf_calloc(WF_OP_COUNT, sizeof *registry.rules);
    registry.rules[op] = rule;
    wf_plan_cache_evict_op(op, -1);
    return WEFT_OK;
}

weft_status weft_register_rule(const char *op, weft_rule_function *rule, void *payload)
{
    WF_NEED(rule, WEFT_ERR_ARG, "register_rule: no rule for %s", op ? op : "no op");
    return set_rule_of_op("register_rule", op, (struct wf_user_rule){rule, payload});
}

weft_status weft_unregister_rule(const char *op)
{
    return set_rule_of_op("unregister_rule", op, (struct wf_user_rule){0});
}

/* ---- texts ---- */

int64_t wf_intern_text(const char *text)
{
    for (int i = 0; i < registry.n_texts; i++)
        if (strcmp(registry.texts[i], text) == 0) return i;
    registry.texts = wf_realloc(registry.texts, (size_t)(registry.n_texts + 1) * sizeof(char *));
    registry.texts[registry.n_texts] = wf_strdup(text);
    return registry.n_texts++;
}

const char *wf_interned_text(int64_t number) { return registry.texts[number]; }

weft_status weft_op_refuse(const char *format, ...)
{
    char text[512];
    va_list args;

    WF_NEED_GIVEN(format, "op_refuse: no text");
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return WF_FAIL(WEFT_ERR_SHAPE, "%s", text);
}

void wf_registry_finalize(void)
{
    for (int i = 0; i < registry.n_ops; i++) {
        wf_free((char *)registry.ops[i]->spec.name);
        wf_free(registry.ops[i]);
    }
    for (int i = 0; i < registry.n_texts; i++) wf_free(registry.texts[i]);
    wf_free(registry.ops);
    wf_free(registry.rules);
    wf_free(registry.texts);
    memset(&registry, 0, sizeof registry);
}
