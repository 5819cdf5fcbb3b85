/*
 * registry.c: ops and rules that the program brought, per rank. An op that is taken back keeps its
 * place until the library ends: tapes may still need its gradient, tensors its name.
 */
#include "dtensor/registry.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/plan.h"

struct entry {
    weft_op_spec spec;
    struct wf_user_rule rule; /* the spec's, or what replaced it */
    bool gone;
};

static _Thread_local struct {
    struct entry **ops;
    struct wf_user_rule *rules; /* of built-in ops, WF_OP_COUNT of them once there is one */
    char **texts;
    int n_ops, n_texts;
} registry;

/* ---- finding ---- */

static struct entry *entry_named(const char *name)
{
    for (int i = 0; i < registry.n_ops; i++)
        if (!registry.ops[i]->gone && strcmp(registry.ops[i]->spec.name, name) == 0)
            return registry.ops[i];
    return NULL;
}

/* WF_OP_COUNT when there is none. */
static enum wf_op built_in(const char *name)
{
    int op = 0;

    while (op < WF_OP_COUNT && strcmp(wf_ops[op].name, name) != 0) op++;
    return (enum wf_op)op;
}

static int number_of(const struct entry *entry)
{
    int i = 0;

    while (registry.ops[i] != entry) i++;
    return i;
}

const weft_op_spec *wf_registered(int64_t id, bool gone)
{
    if (id < 0 || id >= registry.n_ops || (registry.ops[id]->gone && !gone)) return NULL;
    return &registry.ops[id]->spec;
}

struct wf_user_rule wf_user_rule(enum wf_op op, const int64_t *attr)
{
    if (op == WF_OP_custom) return registry.ops[attr[WF_CUSTOM_OP]]->rule;
    return registry.rules ? registry.rules[op] : (struct wf_user_rule){0};
}

const char *wf_op_name(enum wf_op op, const int64_t *attr)
{
    return op == WF_OP_custom ? registry.ops[attr[WF_CUSTOM_OP]]->spec.name : wf_ops[op].name;
}

/* ---- ops ---- */

static weft_status check(const weft_op_spec *spec)
{
    WF_NEED(spec && spec->name && spec->name[0], WEFT_ERR_ARG, "register_op: an op needs a name");
    WF_NEED(spec->shape && spec->kernel, WEFT_ERR_ARG,
            "register_op: %s needs a shape and a kernel function", spec->name);
    WF_NEED(spec->n_out >= 1 && spec->n_out <= WEFT_OP_OUTPUTS, WEFT_ERR_ARG,
            "register_op: %s with %d outputs; 1 to %d are possible", spec->name, spec->n_out,
            WEFT_OP_OUTPUTS);
    WF_NEED(!entry_named(spec->name) && built_in(spec->name) == WF_OP_COUNT, WEFT_ERR_ARG,
            "register_op: there is an op %s already; weft_register_rule replaces its rule",
            spec->name);
    return WEFT_OK;
}

int weft_register_op(const weft_op_spec *spec)
{
    struct entry *entry;

    if (check(spec) != WEFT_OK) return -1;
    entry = WF_NEW(struct entry);
    entry->spec = *spec;
    entry->spec.name = wf_strdup(spec->name);
    entry->rule = (struct wf_user_rule){spec->rule, spec->payload};
    registry.ops = wf_realloc(registry.ops, (size_t)(registry.n_ops + 1) * sizeof(struct entry *));
    registry.ops[registry.n_ops] = entry;
    return registry.n_ops++;
}

weft_status weft_unregister_op(const char *name)
{
    struct entry *entry = name ? entry_named(name) : NULL;

    WF_NEED(entry, WEFT_ERR_NOT_FOUND, "unregister_op: no op %s is registered",
            name ? name : "without a name");
    entry->gone = true;
    wf_plan_forget(WF_OP_custom, number_of(entry));
    return WEFT_OK;
}

/* ---- rules ---- */

static weft_status set_built_in(const char *who, const char *name, struct wf_user_rule rule)
{
    enum wf_op op = built_in(name);

    WF_NEED(op != WF_OP_COUNT, WEFT_ERR_NOT_FOUND, "%s: no op %s", who, name);
    WF_NEED(!wf_ops[op].planner, WEFT_ERR_ARG, "%s: %s decides its layouts by itself", who, name);
    if (!registry.rules) registry.rules = wf_calloc(WF_OP_COUNT, sizeof *registry.rules);
    registry.rules[op] = rule;
    wf_plan_forget(op, -1);
    return WEFT_OK;
}

static weft_status set_rule(const char *who, const char *name, struct wf_user_rule rule)
{
    struct entry *entry = name ? entry_named(name) : NULL;

    WF_NEED(name, WEFT_ERR_ARG, "%s: which op?", who);
    if (!entry) return set_built_in(who, name, rule);
    entry->rule = rule;
    wf_plan_forget(WF_OP_custom, number_of(entry));
    return WEFT_OK;
}

weft_status weft_register_rule(const char *op, weft_rule_function *rule, void *payload)
{
    WF_NEED(rule, WEFT_ERR_ARG, "register_rule: no rule for %s", op ? op : "no op");
    return set_rule("register_rule", op, (struct wf_user_rule){rule, payload});
}

weft_status weft_unregister_rule(const char *op)
{
    return set_rule("unregister_rule", op, (struct wf_user_rule){0});
}

/* ---- texts ---- */

int64_t wf_text_number(const char *text)
{
    for (int i = 0; i < registry.n_texts; i++)
        if (strcmp(registry.texts[i], text) == 0) return i;
    registry.texts = wf_realloc(registry.texts, (size_t)(registry.n_texts + 1) * sizeof(char *));
    registry.texts[registry.n_texts] = wf_strdup(text);
    return registry.n_texts++;
}

const char *wf_text_of(int64_t number) { return registry.texts[number]; }

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
