/* describe.c: reads "dp=2,tp=4". Whether the world has that many ranks is not asked here. */
#include "mesh/describe.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"

static const char *skip_blanks(const char *at)
{
    while (isspace((unsigned char)*at)) at++;
    return at;
}

static weft_status read_name(char *name, const char **at, const char *text)
{
    size_t length = 0;

    while (isalnum((unsigned char)(*at)[length]) || (*at)[length] == '_') length++;
    WF_NEED(length > 0, WEFT_ERR_ARG, "mesh \"%s\": a name is missing at character %d", text,
            (int)(*at - text));
    WF_NEED(length < WF_AXIS_NAME, WEFT_ERR_ARG, "mesh \"%s\": a name has at most %d letters", text,
            WF_AXIS_NAME - 1);
    memcpy(name, *at, length);
    name[length] = '\0';
    *at += length;
    return WEFT_OK;
}

static weft_status read_size(int *size, const char **at, const char *name, const char *text)
{
    char *end;
    long value;

    *at = skip_blanks(*at);
    WF_NEED(**at == '=', WEFT_ERR_ARG, "mesh \"%s\": '=' is missing after \"%s\"", text, name);
    *at = skip_blanks(*at + 1);
    value = strtol(*at, &end, 10);
    WF_NEED(end != *at && value >= 1 && value <= INT_MAX, WEFT_ERR_ARG,
            "mesh \"%s\": the size of \"%s\" is not a positive number", text, name);
    *size = (int)value;
    *at = skip_blanks(end);
    return WEFT_OK;
}

static weft_status read_axis(struct wf_mesh_text *out, const char **at, const char *text)
{
    int axis = out->n_axes;

    WF_NEED(axis < WEFT_MAX_AXES, WEFT_ERR_ARG, "mesh \"%s\": more than %d axes", text,
            WEFT_MAX_AXES);
    *at = skip_blanks(*at);
    WF_TRY(read_name(out->names[axis], at, text));
    for (int a = 0; a < axis; a++)
        WF_NEED(strcmp(out->names[a], out->names[axis]) != 0, WEFT_ERR_ARG,
                "mesh \"%s\": two axes are called \"%s\"", text, out->names[axis]);
    WF_TRY(read_size(&out->sizes[axis], at, out->names[axis], text));
    out->n_axes++;
    return WEFT_OK;
}

weft_status wf_mesh_parse(struct wf_mesh_text *out, const char *text)
{
    const char *at = text;

    *out = (struct wf_mesh_text){0};
    for (;;) {
        WF_TRY(read_axis(out, &at, text));
        if (*at == '\0') return WEFT_OK;
        WF_NEED(*at == ',', WEFT_ERR_ARG, "mesh \"%s\": unexpected '%c' at character %d", text, *at,
                (int)(at - text));
        at++;
    }
}
