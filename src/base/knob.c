/* knob.c: reads and lists the environment variables of knobs.def. */
#include "base/knob.h"

#include <stdlib.h>

#include "base/log.h"

struct wf_knobs wf_knobs = {
#define WF_KNOB(field, variable, standard, meaning) .field = (standard),
#include "base/knobs.def"
#undef WF_KNOB
};

static const struct {
    const char *variable, *meaning;
    long standard, *value;
} knobs[] = {
#define WF_KNOB(field, variable, standard, meaning) {variable, meaning, standard, &wf_knobs.field},
#include "base/knobs.def"
#undef WF_KNOB
};

static long read_one(const char *variable, long standard)
{
    const char *text = getenv(variable);
    char *end;
    long value;

    if (!text || !text[0]) return standard;
    value = strtol(text, &end, 10);
    if (*end == '\0') return value;
    WF_LOG(WF_LOG_WARN, "knob", "%s=%s is not a whole number; using %ld", variable, text, standard);
    return standard;
}

void wf_knobs_read(void)
{
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        if (knobs[i].value != &wf_knobs.log)
            *knobs[i].value = read_one(knobs[i].variable, knobs[i].standard);
    wf_knobs.log = wf_log_configure(getenv("WEFT_LOG"));
}

void wf_knobs_print(FILE *out)
{
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        fprintf(out, "%-16s %8ld  %s\n", knobs[i].variable, *knobs[i].value, knobs[i].meaning);
}
