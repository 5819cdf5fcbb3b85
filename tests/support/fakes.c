/* fakes.c: see fakes.h. Plain libcheck assertions: nothing here has ranks. */
#include "support/fakes.h"

#include <check.h>

#include "mesh/mesh.h"

weft_mesh *wt_fake_mesh(const struct wt_grid *grid)
{
    static const char *const names[WEFT_MAX_AXES] = {"a", "b", "c", "d"};
    static const int origin[WEFT_MAX_AXES];

    return wf_mesh_new_fake(grid->sizes, origin, names, grid->n_axes);
}

struct wf_layout *wt_fake_layout(weft_mesh *mesh, const char *placements, int ndim,
                                 const int64_t *shape)
{
    weft_placement p[WEFT_MAX_AXES], normal[WEFT_MAX_AXES];
    int n = weft_mesh_ndim(mesh);

    ck_assert_int_eq(weft_placements_parse(p, WEFT_MAX_AXES, placements), n);
    ck_assert_int_eq(wf_placements_normalize(normal, p, n, ndim, "test"), WEFT_OK);
    return wf_layout_new(mesh, normal, WEFT_F32, shape, NULL, ndim);
}
