/*
 * optim_settings.c: configs as lists of named settings: defaults, ranges, and groups of parameters
 * that have their own. Knows no optimizer.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text/pattern.h"
#include "optim/optim.h"

/* ---- one setting ---- */

static double read_setting_value(const struct wf_optim_setting *s,
                                 const union wf_optim_config *config)
{
    const char *at = (const char *)config + s->offset;

    if (s->type == WF_SETTING_FLAG) return *(const bool *)at;
    return s->type == WF_SETTING_INT ? *(const int *)at : *(const double *)at;
}

static void write_setting_value(const struct wf_optim_setting *s, union wf_optim_config *config,
                                double value)
{
    char *at = (char *)config + s->offset;

    if (s->type == WF_SETTING_FLAG)
        *(bool *)at = value != 0;
    else if (s->type == WF_SETTING_INT)
        *(int *)at = (int)value;
    else
        *(double *)at = value;
}

static weft_status check_setting_value(const struct wf_optim_kind *kind,
                                       const struct wf_optim_setting *s, double value)
{
    WF_NEED(isfinite(value) && (value >= 0 || s->any_sign) && (s->below == 0 || value < s->below),
            WEFT_ERR_ARG, "%s: %s is %g, out of range", kind->name, s->name, value);
    WF_NEED(s->type == WF_SETTING_REAL || value == floor(value), WEFT_ERR_ARG,
            "%s: %s is %g, no whole number", kind->name, s->name, value);
    return WEFT_OK;
}

weft_status wf_optim_config_complete(const struct wf_optim_kind *kind,
                                     union wf_optim_config *config)
{
    WF_NEED(config->lr >= 0 && isfinite(config->lr), WEFT_ERR_ARG, "%s: lr is %g", kind->name,
            config->lr);
    for (const struct wf_optim_setting *s = kind->settings; s->name; s++)
        if (read_setting_value(s, config) == 0) write_setting_value(s, config, s->fallback);
    for (const struct wf_optim_setting *s = kind->settings; s->name; s++)
        WF_TRY(check_setting_value(kind, s, read_setting_value(s, config)));
    return kind->check_config ? kind->check_config(config) : WEFT_OK;
}

/* ---- groups ---- */

static const struct wf_optim_setting lr_factor = {.name = "lr_factor"};

static const struct wf_optim_setting *find_setting(const struct wf_optim_kind *kind,
                                                   const char *name)
{
    if (strcmp(name, lr_factor.name) == 0) return &lr_factor;
    for (const struct wf_optim_setting *s = kind->settings; s->name; s++)
        if (strcmp(s->name, name) == 0) return s;
    WF_FAIL(WEFT_ERR_NOT_FOUND, "%s has no setting '%s'%s", kind->name, name,
            strcmp(name, "lr") == 0 ? " of its own for a parameter; set its lr_factor" : "");
    return NULL;
}

struct change {
    const struct wf_optim_setting *setting;
    double value;
    bool fixed;  /* the set of states cannot change any more */
    bool put;    /* else it is only checked */
    bool remake; /* result: some parameter needs other states */
};

static weft_status change_slot_setting(weft_optim *optim, struct wf_optim_slot *slot,
                                       struct change *change)
{
    struct wf_optim_slot changed = *slot;

    if (change->setting == &lr_factor)
        changed.lr_factor = change->value;
    else
        write_setting_value(change->setting, &changed.config, change->value);
    changed.state_mask = wf_optim_slot_state_mask(optim->kind, &changed);
    WF_NEED(changed.state_mask == slot->state_mask || !change->fixed, WEFT_ERR_STATE,
            "%s: %s decides which state '%s' has, and there were updates, or a captured step",
            optim->kind->name, change->setting->name, slot->path);
    if (optim->kind->check_config) WF_TRY(optim->kind->check_config(&changed.config));
    change->remake |= changed.state_mask != slot->state_mask;
    if (change->put) *slot = changed;
    return WEFT_OK;
}

static weft_status change_matching_slots(weft_optim *optim, const char *pattern,
                                         struct change *change)
{
    bool any = false;

    for (int i = 0; i < optim->n_slots; i++) {
        if (!wf_pattern_match(pattern, optim->slots[i].path, NULL)) continue;
        any = true;
        WF_TRY(change_slot_setting(optim, &optim->slots[i], change));
    }
    WF_NEED(any, WEFT_ERR_NOT_FOUND, "%s: pattern '%s' matches no parameter", optim->kind->name,
            pattern);
    return WEFT_OK;
}

weft_status weft_optim_set(weft_optim *optim, const char *pattern, const char *setting,
                           double value)
{
    struct change change = {.value = value};

    WF_NEED_GIVEN(optim, "optim_set: the optimizer is NULL");
    WF_NEED(pattern && setting, WEFT_ERR_ARG, "optim_set: an argument is NULL");
    change.setting = find_setting(optim->kind, setting);
    if (!change.setting) return WEFT_ERR_NOT_FOUND;
    WF_TRY(check_setting_value(optim->kind, change.setting, value));
    /* updates in backward come before the step that counts them */
    change.fixed = optim->steps > 0 || optim->captured;
    for (int i = 0; i < optim->n_slots; i++) change.fixed |= optim->slots[i].step > 0;
    WF_TRY(change_matching_slots(optim, pattern, &change));
    change.put = true;
    WF_TRY(change_matching_slots(optim, pattern, &change));
    for (int i = 0; i < optim->n_slots; i++)
        change.remake |= optim->slots[i].wanted && !optim->slots[i].state;
    return change.remake ? wf_optim_alloc_state(optim) : WEFT_OK;
}

double weft_optim_setting(const weft_optim *optim, const weft_tensor *parameter,
                          const char *setting)
{
    const struct wf_optim_slot *slot = wf_optim_find_slot(optim, parameter);
    const struct wf_optim_setting *s = slot && setting ? find_setting(optim->kind, setting) : NULL;

    if (slot && s) return s == &lr_factor ? slot->lr_factor : read_setting_value(s, &slot->config);
    if (optim && setting && !slot)
        WF_FAIL(WEFT_ERR_NOT_FOUND, "%s: no such parameter", optim->kind->name);
    return NAN;
}
