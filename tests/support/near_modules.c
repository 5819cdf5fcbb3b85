/* near_modules.c: two modules compared parameter by parameter. */
#include "support/near_modules.h"

#include <stdio.h>

#include <weft/autograd.h>

#include "support/given.h"

struct walk {
    weft_module *want;
    bool gradients;
    struct wt_tolerance tolerance;
    const char *file;
    int line;
};

/* An assertion per parameter: all ranks stop at the same one, and none waits for it in the next. */
static weft_status visit(weft_module *m, const char *name, weft_tensor *got, void *payload)
{
    const struct walk *walk = payload;
    weft_tensor *want =
        weft_module_parameter(weft_module_child(walk->want, weft_module_path(m)), name);
    bool near, trained = weft_requires_grad(got);
    char what[256];

    if (walk->gradients) got = weft_grad(got), want = want ? weft_grad(want) : NULL;
    near =
        walk->gradients && !trained ? !got && !want : wt_near_tensors(got, want, walk->tolerance);
    snprintf(what, sizeof what, "%s of %s.%s is near", walk->gradients ? "gradient" : "value",
             weft_module_path(m), name);
    wt_all(near, what, walk->file, walk->line);
    return WEFT_OK;
}

void wt_near_modules(weft_module *got, weft_module *want, bool gradients,
                     struct wt_tolerance tolerance, const char *file, int line)
{
    struct walk walk = {want, gradients, tolerance, file, line};

    wt_all(weft_module_each_parameter(got, visit, &walk) == WEFT_OK, "every parameter is visited",
           file, line);
}

static weft_status backward_from_weighted(weft_tensor *y)
{
    weft_tensor *weights = given_like(y);

    if (weft_tensor_mesh(y))
        weights = weft_distribute_tensor(weights, weft_tensor_mesh(y), NULL, -1);
    return weft_backward(weft_sum_all(weft_mul(y, weights)));
}

weft_tensor *wt_near_steps(weft_module *got, weft_tensor *x, weft_module *want, weft_tensor *x_want,
                           struct wt_tolerance tolerance, const char *file, int line)
{
    weft_tensor *y_want = weft_call(want, x_want), *y = weft_call(got, x);

    wt_all(wt_near_tensors(y, y_want, tolerance), "the outputs are near", file, line);
    wt_all(backward_from_weighted(y_want) == WEFT_OK, "backward of one device", file, line);
    wt_all(backward_from_weighted(y) == WEFT_OK, "backward", file, line);
    wt_near_modules(got, want, true, tolerance, file, line);
    return y;
}
