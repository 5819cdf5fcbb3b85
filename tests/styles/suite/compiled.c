/* compiled.c: a module as a compiled function. Whether its calls run a list is WEFT_COMPILE's. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static weft_status call_module(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                               void *state)
{
    const struct ws_compiled *c = state;

    (void)n_out;
    out[0] = weft_call_n(c->module, in, n);
    return out[0] ? WEFT_OK : weft_error_status();
}

static uint64_t bits_of(weft_tensor *x, weft_tensor *y, const struct ws_parameters *p)
{
    uint64_t bits = ws_hash(y, 0);

    if (weft_requires_grad(x)) bits = ws_hash(weft_grad(x), bits);
    for (int i = 0; i < p->n; i++) bits = ws_hash(weft_grad(p->at[i].tensor), bits);
    return bits;
}

static void clear_gradients(weft_tensor *x, const struct ws_parameters *p)
{
    if (weft_requires_grad(x)) weft_zero_grad(x);
    for (int i = 0; i < p->n; i++)
        if (weft_requires_grad(p->at[i].tensor)) weft_zero_grad(p->at[i].tensor);
}

weft_tensor *ws_compiled_call(struct ws_compiled *c, weft_tensor *x, weft_tensor *target)
{
    weft_tensor *in[] = {x, target}, *y = NULL;

    return weft_compiled_call(c->compiled, in, target ? 2 : 1, &y, 1) == WEFT_OK ? y : NULL;
}

/* One call and its backward; what it gave is in the bits. */
static bool try_call(struct ws_compiled *c, uint64_t seed, bool immediate, weft_tensor *x,
                     weft_tensor *target, weft_tensor *g, const struct ws_parameters *p)
{
    weft_tensor *in[] = {x, target}, *y;

    weft_manual_seed(seed);
    y = immediate ? weft_call_n(c->module, in, target ? 2 : 1) : ws_compiled_call(c, x, target);
    if (!y) return false;
    if (weft_requires_grad(y) && weft_backward_from(y, g) != WEFT_OK) return false;
    if (immediate) c->bits = bits_of(x, y, p);
    clear_gradients(x, p);
    return true;
}

void ws_compiled_begin(struct ws_compiled *c, struct ws_run *run, weft_module *m, weft_tensor *x,
                       weft_tensor *target, weft_tensor *g, const struct ws_parameters *p)
{
    c->module = m;
    c->compiled = weft_compile(call_module, c,
                               (weft_compile_config){.name = "case", .fullgraph = run->whole});
    if (!c->compiled) return;
    for (int k = 0; k < 2; k++)
        if (!try_call(c, run->seed, k == 0, x, target, g, p)) return;
}

void ws_compiled_check(const struct ws_compiled *c, struct ws_run *run, weft_tensor *x,
                       weft_tensor *y, const struct ws_parameters *p)
{
    const char *level = getenv("WEFT_COMPILE"), *why = weft_compiled_reason(c->compiled);
    bool replays = !level || !level[0] || strcmp(level, "aot") == 0 || strcmp(level, "full") == 0;

    if (replays && why) ws_fail(run, "the compiled module was not replayed: %s", why);
    if (bits_of(x, y, p) != c->bits)
        ws_fail(run, "compiled, output or gradients have other bits than immediately");
}
