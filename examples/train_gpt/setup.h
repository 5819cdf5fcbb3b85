/* setup.h: from options to a mesh, a model spread over it, and its optimizer. */
#pragma once

#include <weft/weft.h>

#include "options.h"

enum { PLAN_LINES = 24 };

struct setup {
    const struct options *o;
    weft_mesh *mesh;
    weft_mesh *tp, *dp; /* its axes; NULL without one of that name */
    weft_plan lines[PLAN_LINES];
    weft_plan *read;       /* the plan of --plan FILE, */
    const weft_plan *plan; /* or whichever it is */
    weft_module *model;
    weft_optim *optim;
    int64_t vocab;
};

/**
 * Make all of it, `fake` for a forecast: a mesh without ranks, a model without elements.
 *
 * What is wrong is told, or is the library's error. Either way setup_free frees what there is.
 */
weft_status setup_make(struct setup *s, const struct options *o, bool fake);
void setup_free(struct setup *s);

/** How many replicas there are along dp, and which of them this rank belongs to. */
int setup_replicas(const struct setup *s);
int setup_replica(const struct setup *s);

/** Print what --dry-run promises. */
weft_status setup_forecast(struct setup *s);
