/*
 * mesh_parse.c: reads "dp=2,tp=4", "dp,tp" and "cpu". Whether the world has that many ranks is not
 * asked here.
 */
#include "mesh/mesh_parse.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"

static const char *skip_blanks(const char *at)
{
    while (isspace((unsigned char)*at)) at++;
    return at;
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
    *at = end;
    return WEFT_OK;
}

/* The name at `at` becomes names[axis]; each name is there once. */
static weft_status read_unique_name(char names[][WF_AXIS_NAME], int axis, const char **at,
                                    const char *text)
{
    size_t length = 0;

    WF_NEED(axis < WEFT_MAX_AXES, WEFT_ERR_ARG, "mesh \"%s\": more than %d axes", text,
            WEFT_MAX_AXES);
    *at = skip_blanks(*at);
    while (isalnum((unsigned char)(*at)[length]) || (*at)[length] == '_') length++;
    WF_NEED(length > 0, WEFT_ERR_ARG, "mesh \"%s\": a name is missing at character %d", text,
            (int)(*at - text));
    WF_NEED(length < WF_AXIS_NAME, WEFT_ERR_ARG, "mesh \"%s\": a name has at most %d letters", text,
            WF_AXIS_NAME - 1);
    memcpy(names[axis], *at, length);
    names[axis][length] = '\0';
    *at += length;
    for (int a = 0; a < axis; a++)
        WF_NEED(strcmp(names[a], names[axis]) != 0, WEFT_ERR_ARG,
                "mesh \"%s\": two axes are called \"%s\", but each axis name must be unique", text,
                names[axis]);
    return WEFT_OK;
}

/* True when something follows a comma. */
static weft_status read_comma(bool *more, const char **at, const char *text)
{
    *at = skip_blanks(*at);
    *more = **at != '\0';
    if (!*more) return WEFT_OK;
    WF_NEED(**at == ',', WEFT_ERR_ARG, "mesh \"%s\": unexpected '%c' at character %d", text, **at,
            (int)(*at - text));
    ++*at;
    return WEFT_OK;
}

weft_status wf_mesh_parse(struct wf_mesh_shape *out, const char *text)
{
    const char *at = text;
    bool more = true;

    *out = (struct wf_mesh_shape){0};
    while (more) {
        int axis = out->n_axes;

        WF_TRY(read_unique_name(out->names, axis, &at, text));
        WF_TRY(read_size(&out->sizes[axis], &at, out->names[axis], text));
        out->n_axes++;
        WF_TRY(read_comma(&more, &at, text));
    }
    return WEFT_OK;
}

int wf_mesh_parse_names(char names[][WF_AXIS_NAME], const char *text)
{
    const char *at = text;
    bool more = true;
    int count = 0;

    for (; more; count++)
        if (read_unique_name(names, count, &at, text) != WEFT_OK ||
            read_comma(&more, &at, text) != WEFT_OK)
            return -1;
    return count;
}

weft_status wf_mesh_shape_from_arrays(struct wf_mesh_shape *out, const int *sizes, int n_axes,
                                      const char *names)
{
    int n_names = n_axes;

    *out = (struct wf_mesh_shape){.n_axes = n_axes};
    WF_NEED(n_axes >= 1 && n_axes <= WEFT_MAX_AXES, WEFT_ERR_ARG, "a mesh has 1 to %d axes, not %d",
            WEFT_MAX_AXES, n_axes);
    WF_NEED(sizes, WEFT_ERR_ARG, "a mesh of %d axes is asked for without their sizes", n_axes);
    for (int a = 0; a < n_axes; a++) {
        WF_NEED(sizes[a] >= 1, WEFT_ERR_ARG, "axis %d of a mesh has the size %d", a, sizes[a]);
        out->sizes[a] = sizes[a];
    }
    if (names) n_names = wf_mesh_parse_names(out->names, names);
    if (n_names < 0) return weft_error_status();
    WF_NEED(n_names == n_axes, WEFT_ERR_ARG,
            "mesh shape and axis names should have the same length: \"%s\" are %d names for %d "
            "axes",
            names, n_names, n_axes);
    return WEFT_OK;
}

weft_status weft_device_parse(weft_device *device, const char *text)
{
    static const char *const names[WEFT_DEVICES] = {
        [WEFT_CPU] = "cpu", [WEFT_META] = "meta", [WEFT_CUDA] = "cuda"};
    const char *colon = text ? strchr(text, ':') : NULL;

    WF_NEED(!colon, WEFT_ERR_ARG,
            "device \"%s\": a device type with an index is not supported; write \"%.*s\"", text,
            (int)(colon - text), text);
    for (int d = 0; text && d < WEFT_DEVICES; d++) {
        if (strcmp(text, names[d]) != 0) continue;
        *device = (weft_device)d;
        return WEFT_OK;
    }
    return WF_FAIL(WEFT_ERR_ARG, "unknown device \"%s\"", text ? text : "");
}
