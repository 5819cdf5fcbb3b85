/* knob.c: reads and lists the environment variables of knobs.def. */
#include "base/settings/knob.h"

#include <stdlib.h>

#include "base/log.h"

struct wf_knobs wf_knobs = {
#define WF_KNOB(field, variable, standard, least, most, meaning) .field = (standard),
#define WF_TEXT_KNOB(field, variable, meaning) .field = "",
#include "base/settings/knobs.def"
#undef WF_KNOB
#undef WF_TEXT_KNOB
};

static const struct knob {
    const char *variable, *meaning;
    long standard, least, most, *value;
} knobs[] = {
#define WF_KNOB(field, variable, standard, least, most, meaning)                                   \
    {variable, meaning, standard, least, most, &wf_knobs.field},
#define WF_TEXT_KNOB(field, variable, meaning)
#include "base/settings/knobs.def"
#undef WF_KNOB
#undef WF_TEXT_KNOB
};

static const struct text_knob {
    const char *variable, *meaning, **value;
} text_knobs[] = {
#define WF_KNOB(field, variable, standard, least, most, meaning)
#define WF_TEXT_KNOB(field, variable, meaning) {variable, meaning, &wf_knobs.field},
#include "base/settings/knobs.def"
#undef WF_KNOB
#undef WF_TEXT_KNOB
};

static long read_knob(const struct knob *knob)
{
    const char *text = getenv(knob->variable);
    char *end;
    long value;

    if (!text || !text[0]) return knob->standard;
    value = strtol(text, &end, 10); /* the nearest number there is where it is too large */
    if (*end == '\0' && value >= knob->least && value <= knob->most) return value;
    WF_LOG(WF_LOG_WARN, "knob", "%s=%.40s is not a whole number from %ld to %ld; using %ld",
           knob->variable, text, knob->least, knob->most, knob->standard);
    return knob->standard;
}

static bool was_read;

void wf_knobs_ensure_read(void)
{
    if (!was_read) wf_knobs_read();
}

void wf_knobs_read(void)
{
    was_read = true;
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        if (knobs[i].value != &wf_knobs.log) *knobs[i].value = read_knob(&knobs[i]);
    for (size_t i = 0; i < sizeof text_knobs / sizeof *text_knobs; i++) {
        const char *text = getenv(text_knobs[i].variable);

        *text_knobs[i].value = text ? text : "";
    }
    wf_knobs.log = wf_log_configure(getenv("WEFT_LOG"));
}

void wf_knobs_print(FILE *out)
{
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        fprintf(out, "%-16s %8ld  %s\n", knobs[i].variable, *knobs[i].value, knobs[i].meaning);
    for (size_t i = 0; i < sizeof text_knobs / sizeof *text_knobs; i++)
        fprintf(out, "%-16s %8s  %s\n", text_knobs[i].variable, *text_knobs[i].value,
                text_knobs[i].meaning);
}
