/* save_parts.c: a module whose calls keep what backward needs in parts. */
#include <weft/autograd.h>

#include "base/error.h"
#include "parallel_styles/style.h"

static weft_scope *open_parts(void *payload) { return weft_saved_parts_open(payload); }

static void let_go(void *payload) { weft_mesh_release(payload); }

weft_status weft_module_save_parts(weft_module *m, weft_mesh *mesh)
{
    WF_TRY(wf_style_subject(m, &mesh, "save parts"));
    weft_mesh_retain(mesh);
    if (m->surroundings.release) m->surroundings.release(m->surroundings.payload);
    m->surroundings = (struct wf_surroundings){open_parts, mesh, let_go};
    return WEFT_OK;
}
