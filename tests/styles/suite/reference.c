/*
 * reference.c: what one device computes, kept while cases need the same: they differ in layouts,
 * and in what is frozen, far more often than in anything that it depends on.
 */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static void numbers_free(struct ws_numbers *numbers)
{
    free(numbers->of);
    *numbers = (struct ws_numbers){0};
}

/* false: with the error recorded */
static bool numbers_read(struct ws_numbers *numbers, const weft_tensor *t)
{
    numbers_free(numbers);
    if (!t) return false;
    numbers->ndim = weft_ndim(t);
    numbers->n = weft_numel(t);
    for (int d = 0; d < numbers->ndim; d++) numbers->shape[d] = weft_size(t, d);
    numbers->of = malloc((size_t)(numbers->n + 1) * sizeof *numbers->of);
    if (!numbers->of || weft_read_f64(t, numbers->of, numbers->n) != WEFT_OK) return false;
    for (int64_t i = 0; i < numbers->n; i++) {
        double magnitude = numbers->of[i] < 0 ? -numbers->of[i] : numbers->of[i];

        if (magnitude > numbers->largest) numbers->largest = magnitude;
    }
    return true;
}

void ws_reference_clear(struct ws_reference *r)
{
    weft_release(r->x);
    weft_release(r->target);
    weft_release(r->y);
    weft_release(r->g);
    weft_module_release(r->module);
    numbers_free(&r->y_numbers);
    numbers_free(&r->x_gradient);
    for (int i = 0; i < WS_PARAMETERS; i++) numbers_free(&r->gradient[i]);
    *r = (struct ws_reference){0};
}

weft_tensor *ws_reference_again(const struct ws_reference *r, uint64_t seed)
{
    weft_tensor *inputs[] = {r->x, r->target};

    weft_manual_seed(seed);
    return weft_call_n(r->module, inputs, r->target ? 2 : 1);
}

static weft_status run(struct ws_reference *r, const struct ws_case *c, struct ws_source source)
{
    bool ok;

    r->module = ws_module(c, r->ways, source.seed);
    r->x = weft_retain(ws_input(c, r->ways, source));
    r->target = weft_retain(ws_target(c, r->ways, source));
    if (!r->module || !r->x) return weft_error_status();
    if (weft_dtype_is_float(weft_tensor_dtype(r->x))) weft_set_requires_grad(r->x, true);
    r->y = weft_retain(ws_reference_again(r, source.seed));
    if (!r->y) return weft_error_status();
    r->g = weft_retain(ws_output_gradient(r->y, source));
    if (weft_backward_from(r->y, r->g) != WEFT_OK) return weft_error_status();
    r->draws = weft_generator_draws(weft_default_generator());
    ok = numbers_read(&r->y_numbers, r->y);
    if (weft_requires_grad(r->x)) ok &= numbers_read(&r->x_gradient, weft_grad(r->x));
    ws_parameters_of(&r->parameters, r->module);
    for (int i = 0; i < r->parameters.n; i++)
        ok &= numbers_read(&r->gradient[i], weft_grad(r->parameters.at[i].tensor));
    return ok ? WEFT_OK : weft_error_status();
}

weft_status ws_reference_for(struct ws_reference *r, const struct ws_case *c, int ways,
                             struct ws_source source)
{
    struct ws_case of = *c;
    weft_scope *scope;
    weft_status status;

    of.at[WS_INPUT] = of.at[WS_OUTPUT] = of.at[WS_FROZEN] = 0;
    if (r->made && r->ways == ways && memcmp(&r->of, &of, sizeof of) == 0) return WEFT_OK;
    ws_reference_clear(r);
    r->of = of;
    r->ways = ways;
    scope = weft_scope_open();
    status = run(r, c, source);
    weft_scope_close(scope);
    r->made = status == WEFT_OK;
    return status;
}
