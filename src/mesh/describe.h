/* describe.h: a mesh as text, "dp=2,tp=4": sizes and names, before any rank is looked at. */
#pragma once

#include <weft/mesh.h>

enum { WF_AXIS_NAME = 32 }; /* room for a name and its zero */

struct wf_mesh_text {
    int n_axes;
    int sizes[WEFT_MAX_AXES];
    char names[WEFT_MAX_AXES][WF_AXIS_NAME];
};

/** fails: WEFT_ERR_ARG naming the place in the text */
weft_status wf_mesh_parse(struct wf_mesh_text *out, const char *text);
