/* replica_check.c: replicas are compared by a hash, so that a check costs a few bytes on the wire.
 */
#include "dtensor/convert/replica_check.h"

#include "comm/comm.h"
#include "mesh/mesh.h"
#include "tensor/host_copy.h"
#include <weft/autograd.h>
#include <weft/ops.h>

/* -1 when memory for a row-major copy is short; the hash itself is never negative. */
static int64_t hash_local_elements(weft_tensor *t)
{
    if (wf_is_meta(t)) return 0;
    weft_no_grad_open();
    t = weft_contiguous(t);
    weft_no_grad_close();
    return t ? wf_tensor_hash_elements(t, "comparison of replicas") : -1;
}

void wf_mesh_all_reduce_int(weft_mesh *mesh, unsigned axes, weft_reduce how, int64_t *value)
{
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                               .dtype = WEFT_I64,
                               .reduce = how,
                               .count = 1,
                               .send = value,
                               .recv = value};

        if (!(axes >> a & 1) || weft_mesh_axis_size(mesh, a) == 1) continue;
        coll.comm = wf_mesh_axis_comm(mesh, a);
        wf_comm_run(&coll);
    }
}

bool wf_mesh_replicas_equal(weft_tensor *t, weft_mesh *mesh, unsigned axes)
{
    weft_scope *scope = weft_scope_open();
    int64_t most = hash_local_elements(t), least = most;

    weft_scope_close(scope);
    if (weft_mesh_coordinate(mesh, 0) < 0 || wf_is_meta(t)) return true;
    wf_mesh_all_reduce_int(mesh, axes, WEFT_MAX, &most);
    wf_mesh_all_reduce_int(mesh, axes, WEFT_MIN, &least);
    return most == least;
}
