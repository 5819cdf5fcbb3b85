/* knob.h: settings from the environment, read once by weft_init. The list is knobs.def. */
#pragma once

#include <stdio.h>

struct wf_knobs {
#define WF_KNOB(field, variable, standard, least, most, meaning) long field;
#define WF_TEXT_KNOB(field, variable, meaning) const char *field;
#include "base/settings/knobs.def"
#undef WF_KNOB
#undef WF_TEXT_KNOB
};

/** Values in force; written by wf_knobs_read only, before any rank runs. */
extern struct wf_knobs wf_knobs;

/** Read the environment. A value that is no number is reported in the log and ignored. */
void wf_knobs_read(void);

/** One line per knob: variable, value, meaning. */
void wf_knobs_print(FILE *out);
