/*
 * boundary.c: inputs and outputs of a module: layouts as text, and the conversion from plain to
 * distributed and to the wanted layout. Which layouts those are is decided by style.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "parallel_styles/style.h"

/* ---- layouts as text ---- */

/* The end of the entry that begins at `text`: a comma outside parentheses, or the end. */
static const char *end_of_layout_entry(const char *text)
{
    int depth = 0;

    for (; *text && (*text != ',' || depth > 0); text++) {
        if (*text == '(') depth++;
        if (*text == ')') depth--;
    }
    return text;
}

static weft_status read_layout_entry(struct wf_layout_list *layouts, const char *entry)
{
    weft_placement *at = &layouts->at[layouts->count];
    bool none;

    entry += strspn(entry, " \t");
    none = strncmp(entry, "none", 4) == 0 && !entry[4 + strspn(entry + 4, " \t")];
    layouts->given[layouts->count] = !none;
    if (!none && weft_placements_parse(at, 1, entry) < 0) return weft_error_status();
    layouts->count++;
    return WEFT_OK;
}

weft_status wf_layout_list_parse(struct wf_layout_list *layouts, const char *text,
                                 const char *field)
{
    weft_status status = WEFT_OK;
    const char *at = text, *end;

    memset(layouts, 0, sizeof *layouts);
    do {
        char *entry;

        WF_NEED(layouts->count < WEFT_MODULE_INPUTS, WEFT_ERR_ARG,
                "%s \"%s\": more than %d layouts", field, text, WEFT_MODULE_INPUTS);
        end = end_of_layout_entry(at);
        entry = wf_format("%.*s", (int)(end - at), at);
        status = read_layout_entry(layouts, entry);
        wf_free(entry);
        at = end + 1;
    } while (status == WEFT_OK && *end);
    return status;
}

/* ---- converting at the boundary ---- */

/*
 * The global shape of a plain input. A feature dim's size is known from the layer, so uneven shards
 * are fine there; any other sharded dim is taken to be even (NULL).
 */
static const int64_t *global_shape_of_plain_input(int64_t *shape, const weft_module *m,
                                                  const weft_tensor *x, weft_placement declared)
{
    const struct wf_features *f = m->features;
    int ndim = weft_ndim(x), dim = declared.dim < 0 ? declared.dim + ndim : declared.dim;
    int from = f && f->n_in > 0 ? ndim - f->n_in : 0, n_known = f ? abs(f->n_in) : 0;
    int64_t known = 0;

    if (dim >= 0 && dim < ndim && dim >= from && dim - from < n_known)
        known = f->in_sizes[dim - from];
    if (!weft_shards(declared, declared.dim) || !known) return NULL;
    for (int d = 0; d < ndim; d++) shape[d] = weft_size(x, d);
    shape[dim] = known;
    return shape;
}

/* A masked partial tensor, where at most one rank's term is not zero (a row-wise embedding), is a
 * partial sum too. */
static bool is_masked_partial_as_sum(const weft_tensor *t, weft_placement wants)
{
    weft_placement p = weft_tensor_placement(t, 0);

    return weft_is_partial(p) && p.reduce == WEFT_MASKED &&
           weft_placement_equal(wants, weft_partial(WEFT_SUM));
}

/*
 * A partial sum that a module of a 16-bit `dtype` gives in f32: the module's product, which is
 * rounded once it is reduced, or the gradient of its input, which this makes room for.
 */
static weft_tensor *redistribute_wide(weft_tensor *t, weft_dtype dtype, const weft_placement *wants)
{
    bool product = weft_tensor_dtype(t) == WEFT_F32;
    weft_redistribute_options options = {.backward = WEFT_AS(product ? dtype : WEFT_F32)};
    weft_tensor *moved = weft_redistribute_with(t, wants, &options);

    return product ? weft_cast(moved, dtype) : moved;
}

static weft_tensor *redistribute_at_boundary(const weft_module *m, weft_tensor *t,
                                             const struct wf_boundary *boundary)
{
    weft_dtype dtype = m->n_parameters > 0 ? weft_tensor_dtype(m->parameters[0].tensor) : WEFT_F32;

    if (boundary->wide && wf_dtype_is_16_bit_float(dtype))
        return redistribute_wide(t, dtype, &boundary->wants);
    return weft_redistribute(t, &boundary->wants);
}

static weft_tensor *refuse_other_mesh(const weft_module *m, const weft_mesh *own,
                                      const weft_mesh *mesh)
{
    char theirs[128], ours[128];

    weft_mesh_format(own, theirs, sizeof theirs);
    weft_mesh_format(mesh, ours, sizeof ours);
    WF_FAIL(WEFT_ERR_LAYOUT, "%s: a tensor lies on mesh %s, the style on %s", m->kind->type, theirs,
            ours);
    return NULL;
}

weft_tensor *wf_convert_at_boundary(const weft_module *m, weft_tensor *t, weft_mesh *mesh,
                                    const struct wf_boundary *boundary)
{
    weft_placement declared = boundary->declared;
    weft_mesh *own = weft_tensor_mesh(t);
    int64_t shape[WEFT_MAX_DIMS];

    if (!boundary->taken) return t;
    if (!own)
        t = weft_from_local(t, mesh, &declared, global_shape_of_plain_input(shape, m, t, declared));
    else if (own != mesh)
        return refuse_other_mesh(m, own, mesh);
    if (!t || !boundary->moved || is_masked_partial_as_sum(t, boundary->wants)) return t;
    return redistribute_at_boundary(m, t, boundary);
}

weft_status wf_convert_inputs_at_boundary(weft_module *m, weft_tensor **inputs, int n,
                                          weft_mesh *mesh, const struct wf_resolved_style *use)
{
    int left_out = use->n_inputs - n; /* optional inputs, which a call may lack */

    WF_NEED(!use->n_inputs || (left_out >= 0 && left_out <= m->kind->optional), WEFT_ERR_ARG,
            "%s: module inputs and input_layouts should have same length, not %d and %d",
            m->kind->type, n, use->n_inputs);
    for (int i = 0; i < n; i++) {
        inputs[i] = wf_convert_at_boundary(m, inputs[i], mesh, &use->inputs[i]);
        if (inputs[i] && use->local_inputs && use->inputs[i].taken)
            inputs[i] = weft_to_local(inputs[i], NULL);
        if (!inputs[i]) return weft_error_status();
    }
    return WEFT_OK;
}
