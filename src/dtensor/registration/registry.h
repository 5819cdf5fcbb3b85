/*
 * registry.h: what programs have registered on this rank. The tables are registry.c's; how a
 * registered op is planned and run is registered_op.c's.
 */
#pragma once

#include "ops/op_table.h"
#include <weft/extend/register.h>

/** A rule that replaces an op's row; function NULL: there is none. */
struct wf_user_rule {
    weft_rule_function *function;
    void *payload;
};

/** The rule registered for the op of this row; `attrs` are the call's. */
struct wf_user_rule wf_user_rule(const struct wf_op_row *row, const union wf_op_attrs *attrs);

/** A registered op; NULL when there is none of this number or it was unregistered (`gone`). */
const weft_op_spec *wf_registered_op(int64_t id, bool gone);

/** The op's name for messages; lives as long as the library. */
const char *wf_op_name(enum wf_op op, const void *attrs);

/** One copy per rank of a text that is an argument, and its number. */
int64_t wf_intern_text(const char *text);
const char *wf_interned_text(int64_t number);

/** The description of a call that a rule gets. */
void wf_fill_op_info(weft_op_info *info, const struct wf_infer *call);

/** Drop what this thread registered. */
void wf_registry_finalize(void);
