/* weight_names.h: from a parameter's path to names in a file, by the rules of a family. */
#pragma once

#include <stdbool.h>

#include <weft/weights.h>

/** Most names that one parameter is joined from, and ways to say them. */
enum { WF_JOINED = 8, WF_ALTERNATIVES = 16 };

/** A rule's alternatives for one path: the names of each, in order. */
struct wf_name_candidates {
    const weft_weight_rule *rule;            /* NULL: none fits (or there are no rules) */
    char *names[WF_ALTERNATIVES][WF_JOINED]; /* wf_malloc'ed; what is in brackets present first */
    int joined[WF_ALTERNATIVES];
    int count;
};

/** `names` NULL: the path itself. fails: WEFT_ERR_ARG for a rule that cannot be read */
weft_status wf_name_candidates_of(struct wf_name_candidates *c, const weft_weight_names *names,
                                  const char *path);
void wf_name_candidates_free(struct wf_name_candidates *c);

/** True when a name may be in a file without being asked for. */
bool wf_is_name_ignored(const weft_weight_names *names, const char *name);
