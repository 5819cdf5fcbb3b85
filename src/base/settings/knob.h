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

/** Values in force; written by these functions only, before any rank runs. */
extern struct wf_knobs wf_knobs;

/** For what may be called before weft_init: the environment is read unless it was. */
void wf_knobs_ensure_read(void);

/** Read the environment. A value that is no number is reported in the log and ignored. */
void wf_knobs_read(void);

/** One line per knob: variable, value, meaning. */
void wf_knobs_print(FILE *out);
