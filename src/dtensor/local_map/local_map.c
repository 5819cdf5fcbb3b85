/*
 * local_map.c: calls a function on this rank's local tensors and wraps the results. In typed calls
 * the local tensors keep their gradient types (dtensor/dispatch/grad_types.h): ops inside the
 * function and the wrapping check them.
 */
#include <weft/extend/local_map.h>

#include <string.h>

#include "autograd/tape.h"
#include "base/error.h"
#include "dtensor/dispatch/placement_args.h"
#include "dtensor/local_map/local_region.h"
#include "mesh/mesh.h"
#include "placement/layout.h"
#include <weft/dtensor.h>

/* Placements of one argument or result as text, for messages. */
struct text {
    char of[WF_PLACEMENTS_TEXT];
};

static struct text placements_text(const weft_placement *placements, int n)
{
    struct text text;

    weft_placements_format(placements, n, text.of, sizeof text.of);
    return text;
}

static weft_mesh *mesh_of_arguments(const weft_local_map *map, weft_tensor *const *in)
{
    for (int i = 0; !map->mesh && i < map->n_in; i++)
        if (in[i] && !wf_is_plain(in[i])) return in[i]->layout->mesh;
    return map->mesh;
}

/* Placements of argument or result i. */
static weft_mesh *mesh_or_default(weft_mesh *const *meshes, int i, weft_mesh *mesh)
{
    return meshes && meshes[i] ? meshes[i] : mesh;
}

/* ---- checks, before any communication ---- */

/* The gradient of a replicated argument is replicated or partial, as in_grad says; that of a
 * sharded or partial one follows from its placement. */
static weft_status check_in_grad(const weft_tensor *t, int i, const weft_placement *placements,
                                 const weft_placement *gradient)
{
    int n = t->layout->n_axes;

    for (int a = 0; a < n; a++) {
        weft_placement p = placements[a], g = gradient ? gradient[a] : p;
        bool right = weft_placement_equal(p, g);

        WF_NEED(p.kind != WEFT_KIND_STRIDED, WEFT_ERR_LAYOUT,
                "local_map: typed argument %d is a strided shard: %s", i,
                placements_text(&p, 1).of);
        if (p.kind == WEFT_KIND_REPLICATE) {
            WF_NEED(gradient || !t->requires_grad || !wf_grad_is_enabled(), WEFT_ERR_LAYOUT,
                    "local_map: argument %d is replicated on axis %s and wants a gradient: in_grad "
                    "must say whether that is R or P there",
                    i, weft_mesh_axis_name(t->layout->mesh, a));
            right = g.kind == WEFT_KIND_REPLICATE || g.kind == WEFT_KIND_PARTIAL;
        } else if (p.kind == WEFT_KIND_PARTIAL) {
            right = !gradient || g.kind == WEFT_KIND_REPLICATE;
        }
        WF_NEED(right, WEFT_ERR_LAYOUT,
                "local_map: argument %d is %s on axis %s, so its gradient cannot be %s", i,
                placements_text(&p, 1).of, weft_mesh_axis_name(t->layout->mesh, a),
                placements_text(&g, 1).of);
    }
    return WEFT_OK;
}

/* The placements that argument i has to have; `moves` is false when it has them already. */
static weft_status check_argument_placements(const weft_local_map *map, const weft_tensor *t, int i,
                                             weft_placement *to, bool *moves)
{
    const struct wf_layout *layout = t->layout;

    memcpy(to, layout->placements, sizeof layout->placements);
    *moves = false;
    if (!map->in) return WEFT_OK;
    WF_NEED(map->in[i], WEFT_ERR_ARG,
            "local_map: argument %d is distributed and expects placements, none are given", i);
    WF_TRY(wf_placements_normalize(to, map->in[i], layout->n_axes, layout->desc.ndim, "local_map"));
    WF_TRY(wf_placements_check_segments(to, layout->n_axes, layout->desc.global, "local_map"));
    for (int a = 0; a < layout->n_axes; a++)
        *moves |= !weft_placement_equal(to[a], layout->placements[a]);
    WF_NEED(!*moves || map->redistribute_inputs, WEFT_ERR_LAYOUT,
            "local_map: argument %d is placed [%s], expected is [%s]; set "
            ".redistribute_inputs = true to have it redistributed",
            i, placements_text(layout->placements, layout->n_axes).of,
            placements_text(to, layout->n_axes).of);
    return WEFT_OK;
}

struct argument {
    weft_placement to[WEFT_MAX_AXES], gradient[WEFT_MAX_AXES];
    bool wrapped, moves, has_gradient;
};

static weft_status check_map_argument(const weft_local_map *map, weft_mesh *mesh, weft_tensor *t,
                                      int i, struct argument *argument)
{
    const weft_placement *gradient = map->in_grad ? map->in_grad[i] : NULL;

    argument->wrapped = t && !wf_is_plain(t);
    if (!argument->wrapped) return WEFT_OK;
    WF_NEED(
        t->layout->mesh == mesh_or_default(map->in_meshes, i, mesh), WEFT_ERR_LAYOUT,
        "local_map: argument %d is on another mesh than the call; in_meshes says where it is to "
        "be",
        i);
    WF_NEED(!map->typed || t->layout->mesh == mesh, WEFT_ERR_LAYOUT,
            "local_map: typed argument %d is on another mesh than the call: types are of one mesh",
            i);
    WF_TRY(check_argument_placements(map, t, i, argument->to, &argument->moves));
    argument->has_gradient = gradient != NULL;
    if (gradient)
        WF_TRY(wf_placements_normalize(argument->gradient, gradient, t->layout->n_axes,
                                       weft_ndim(t), "local_map's in_grad"));
    if (!map->typed) return WEFT_OK;
    return check_in_grad(t, i, argument->to, gradient ? argument->gradient : NULL);
}

static weft_status check_map_call(const weft_local_map *map, weft_tensor *const *in,
                                  weft_tensor **out)
{
    WF_NEED(map, WEFT_ERR_ARG, "local_map: there is no map");
    WF_NEED(map->function, WEFT_ERR_ARG, "local_map: there is no function");
    WF_NEED(map->n_in >= 0 && map->n_in <= WEFT_LOCAL_MAP_TENSORS && map->n_out >= 0 &&
                map->n_out <= WEFT_LOCAL_MAP_TENSORS,
            WEFT_ERR_ARG, "local_map: %d arguments and %d results; %d are possible", map->n_in,
            map->n_out, WEFT_LOCAL_MAP_TENSORS);
    WF_NEED((in || !map->n_in) && (out || !map->n_out), WEFT_ERR_ARG, "local_map: no list of %s",
            in || !map->n_in ? "results" : "arguments");
    for (int i = 0; i < map->n_in; i++)
        if (!in[i] && weft_error_status() != WEFT_OK) return weft_error_status();
    return WEFT_OK;
}

static weft_status check_result_meshes(const weft_local_map *map, weft_mesh *mesh)
{
    for (int j = 0; map->typed && j < map->n_out; j++)
        WF_NEED(mesh_or_default(map->out_meshes, j, mesh) == mesh, WEFT_ERR_LAYOUT,
                "local_map: typed result %d is on another mesh than the call: types are of one "
                "mesh",
                j);
    return WEFT_OK;
}

/* ---- the call ---- */

static weft_status argument_to_local(const weft_local_map *map, const struct argument *argument,
                                     weft_tensor *t, weft_tensor **local)
{
    *local = t;
    if (!argument->wrapped) return WEFT_OK;
    if (argument->moves) t = weft_redistribute(t, argument->to);
    *local = weft_to_local(t, argument->has_gradient ? argument->gradient : NULL);
    if (!map->typed) *local = weft_drop_grad_types(*local); /* without its gradient type */
    return *local ? WEFT_OK : weft_error_status();
}

/* Backward reaches all arguments from any result, whichever of them the function used on this rank.
 */
static weft_status call_in_local_region(const weft_local_map *map, weft_tensor **local,
                                        weft_tensor **out)
{
    struct wf_local_region region;
    weft_status before, status;

    wf_local_region_open(&region);
    for (int i = 0; i < map->n_in; i++) local[i] = wf_local_region_argument(&region, local[i]);
    for (int j = 0; j < map->n_out; j++) out[j] = NULL;
    before = weft_error_status();
    status = map->function(local, out, map->context);
    if (status == WEFT_OK && before == WEFT_OK) status = weft_error_status();
    for (int j = 0; j < map->n_out && status == WEFT_OK; j++)
        out[j] = wf_local_region_result(&region, out[j]);
    wf_local_region_close(&region);
    return status;
}

/* Checks what can be said before wrapping; shapes and placements are checked by weft_from_local. */
static weft_status check_map_results(const weft_local_map *map, weft_mesh *mesh,
                                     weft_tensor *const *out)
{
    for (int j = 0; j < map->n_out; j++) {
        const weft_placement *declared = map->out ? map->out[j] : NULL;

        if (!out[j] || !wf_is_plain(out[j])) continue;
        WF_NEED(declared, WEFT_ERR_LAYOUT,
                "local_map: typed result %d is a tensor and has no placements", j);
        for (int a = 0; a < weft_mesh_ndim(mesh); a++)
            WF_NEED(declared[a].kind != WEFT_KIND_STRIDED, WEFT_ERR_LAYOUT,
                    "local_map: typed result %d is declared a strided shard: %s", j,
                    placements_text(&declared[a], 1).of);
    }
    return WEFT_OK;
}

static weft_status result_from_local(const weft_local_map *map, weft_mesh *mesh, int j,
                                     weft_tensor **out)
{
    const weft_placement *declared = map->out ? map->out[j] : NULL;

    if (!declared) return WEFT_OK;
    WF_NEED_LOCAL(*out, WEFT_ERR_ARG, "local_map: result %d has placements but is no tensor", j);
    *out = weft_from_local(*out, mesh, declared, map->out_shapes ? map->out_shapes[j] : NULL);
    return *out ? WEFT_OK : weft_error_status();
}

weft_status weft_local_map_call(const weft_local_map *map, weft_tensor *const *in,
                                weft_tensor **out)
{
    struct argument arguments[WEFT_LOCAL_MAP_TENSORS] = {{.wrapped = false}};
    weft_tensor *local[WEFT_LOCAL_MAP_TENSORS];
    bool any = false;
    weft_mesh *mesh;

    WF_TRY(check_map_call(map, in, out));
    for (int i = 0; i < map->n_in; i++) WF_TRY(wf_tensor_check_alive(in[i], "local_map"));
    mesh = mesh_of_arguments(map, in);
    WF_TRY(check_result_meshes(map, mesh));
    for (int i = 0; i < map->n_in; i++) {
        WF_TRY(check_map_argument(map, mesh, in[i], i, &arguments[i]));
        any |= arguments[i].wrapped;
    }
    for (int i = 0; i < map->n_in; i++)
        WF_TRY(argument_to_local(map, &arguments[i], in[i], &local[i]));
    WF_TRY(call_in_local_region(map, local, out));
    if (map->typed && any) WF_TRY(check_map_results(map, mesh, out));
    for (int j = 0; any && j < map->n_out; j++)
        WF_TRY(result_from_local(map, mesh_or_default(map->out_meshes, j, mesh), j, &out[j]));
    return WEFT_OK;
}
