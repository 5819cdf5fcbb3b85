/* all_reduce_max_min.c: see the header. */
#include "dtensor/convert/all_reduce_max_min.h"

#include "comm/comm.h"
#include "mesh/mesh.h"

void wf_all_reduce_max_min(weft_mesh *mesh, const int64_t *words, int n, int64_t *most,
                           int64_t *least)
{
    int64_t both[2 * WF_MAX_REDUCED_WORDS];

    for (int i = 0; i < n; i++) {
        both[i] = words[i];
        both[n + i] = -words[i];
    }
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                               .dtype = WEFT_I64,
                               .reduce = WEFT_MAX,
                               .count = 2 * (size_t)n,
                               .send = both,
                               .recv = both};

        if (weft_mesh_axis_size(mesh, a) == 1) continue;
        coll.comm = wf_mesh_axis_comm(mesh, a);
        wf_comm_run(&coll);
    }
    for (int i = 0; i < n; i++) {
        most[i] = both[i];
        least[i] = -both[n + i];
    }
}
