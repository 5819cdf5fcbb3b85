/* report.h: what is printed and logged while training. Only rank 0 writes. */
#pragma once

#include <stdio.h>

#include <weft/weft.h>

#include "options.h"

struct step_result {
    int step;
    double loss, norm, lr;
    double seconds; /* of the step */
    double comm;    /* of them in communication */
    double tokens;  /* trained on */
};

struct report {
    FILE *jsonl; /* NULL on other ranks and without --jsonl */
    int steps;
    double seconds, tokens; /* over all steps but the first, which makes plans and buffers */
};

/** Open the log, which a resumed run goes on with. Returns false on the rank that could not. */
bool report_open(struct report *report, const struct options *o, char *problem, int room);
void report_model(weft_module *model, weft_mesh *mesh, int64_t steps_done);
void report_step(struct report *report, const struct step_result *r);
/** Speed over the run, the collectives of one step, and memory. */
void report_costs(struct report *report, const weft_ledger *step);
/** NaN: there was no text left to measure with. */
void report_validation(struct report *report, double loss);
void report_close(struct report *report);
