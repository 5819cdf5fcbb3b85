/* mesh_parse.h: a mesh as text, "dp=2,tp=4": sizes and names, before any rank is looked at. */
#pragma once

#include <weft/mesh.h>

enum { WF_AXIS_NAME = 32 }; /* room for a name and its zero */

struct wf_mesh_shape {
    int n_axes;
    int sizes[WEFT_MAX_AXES];
    char names[WEFT_MAX_AXES][WF_AXIS_NAME]; /* all empty: no names */
};

/** fails: WEFT_ERR_ARG naming the place in the text */
weft_status wf_mesh_parse(struct wf_mesh_shape *out, const char *text);

/** Sizes, and names as "dp,tp" or NULL. fails: WEFT_ERR_ARG */
weft_status wf_mesh_shape_from_arrays(struct wf_mesh_shape *out, const int *sizes, int n_axes,
                                      const char *names);

/** Names as "dp,tp" only: how many, at most WEFT_MAX_AXES, each once. -1 with WEFT_ERR_ARG */
int wf_mesh_parse_names(char names[][WF_AXIS_NAME], const char *text);
