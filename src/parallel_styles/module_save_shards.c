/* module_save_shards.c: a module whose calls save tensors for backward as shards. */
#include <weft/autograd.h>

#include "base/error.h"
#include "parallel_styles/style.h"

static weft_scope *open_saved_shards_scope(void *payload)
{
    return weft_saved_shards_open(payload);
}

static void release_mesh_payload(void *payload) { weft_mesh_release(payload); }

weft_status weft_module_use_saved_shards(weft_module *m, weft_mesh *mesh)
{
    WF_TRY(wf_check_module_and_mesh(m, &mesh, "save shards"));
    weft_mesh_retain(mesh);
    return wf_module_add_hook(m, (struct wf_hook){.open_scope = open_saved_shards_scope,
                                                  .payload = mesh,
                                                  .release = release_mesh_payload});
}
