/* current_mesh.c: the stack of default meshes of a thread. */
#include "base/error.h"
#include "base/mem.h"
#include "mesh/mesh_internal.h"

static _Thread_local struct {
    weft_mesh **at;
    int depth, room;
} stack;

weft_status weft_default_mesh_open(weft_mesh *mesh)
{
    WF_NEED(mesh, WEFT_ERR_ARG, "default_mesh_open: there is no mesh");
    if (stack.depth == stack.room) {
        stack.room = stack.room ? 2 * stack.room : 8;
        stack.at = wf_realloc(stack.at, (size_t)stack.room * sizeof *stack.at);
    }
    stack.at[stack.depth++] = weft_mesh_retain(mesh);
    return WEFT_OK;
}

weft_status weft_default_mesh_close(weft_mesh *mesh)
{
    WF_NEED(stack.depth > 0, WEFT_ERR_STATE, "default_mesh_close: no mesh is currently active");
    WF_NEED(stack.at[stack.depth - 1] == mesh, WEFT_ERR_STATE,
            "default_mesh_close: the mesh is not the innermost one");
    weft_mesh_release(stack.at[--stack.depth]);
    return WEFT_OK;
}

weft_mesh *weft_default_mesh(void)
{
    WF_NEED_PTR(stack.depth > 0, WEFT_ERR_STATE,
                "no mesh is currently active: call weft_default_mesh_open, or give one");
    return stack.at[stack.depth - 1];
}

weft_mesh *wf_mesh_or_current(weft_mesh *mesh)
{
    if (mesh) return mesh;
    return weft_error_status() == WEFT_OK ? weft_default_mesh() : NULL;
}

void wf_mesh_finalize(void)
{
    while (stack.depth > 0) weft_mesh_release(stack.at[--stack.depth]);
    wf_free(stack.at);
    stack.at = NULL;
    stack.room = 0;
    wf_mesh_release_flattened();
}
