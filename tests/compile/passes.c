/* passes.c: calls of a compiled function beside the function itself, and its list as text. */
#include "passes.h"

#include <stdlib.h>
#include <string.h>

static weft_tensor *input(struct wt_world *w, const struct pass_case *c, int which, int i)
{
    weft_tensor *whole = wt_whole(c->dtype, which, c->rows[i], c->columns[i] ? c->columns[i] : 1);

    if (c->whole_numbers) whole = weft_round(weft_mul_scalar(whole, 4));
    if (!c->columns[i]) {
        int64_t shape[] = {c->rows[i]};

        whole = weft_reshape(whole, shape, 1);
    }
    if (c->placements[i]) whole = wt_spread(w, whole, c->placements[i]);
    return c->gradients ? weft_set_requires_grad(weft_detach(whole), true) : whole;
}

static void go_back(weft_tensor **out, int n)
{
    weft_tensor *loss = NULL;

    for (int i = 0; i < n; i++) {
        weft_tensor *term = weft_sum(weft_mul(out[i], out[i]), NULL, 0, false);

        loss = loss ? weft_add(loss, term) : term;
    }
    WT_ALL(weft_backward(loss) == WEFT_OK);
}

static void call_both(struct wt_world *w, const struct pass_case *c, weft_compiled *compiled,
                      int call)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[PASS_INPUTS], *plain[PASS_INPUTS], *out[4] = {NULL}, *want[4] = {NULL};

    for (int i = 0; i < c->n_in; i++) {
        in[i] = input(w, c, 3 * call + i, i);
        plain[i] = input(w, c, 3 * call + i, i);
    }
    WT_ALL(weft_compiled_call(compiled, in, c->n_in, out, c->n_out) == WEFT_OK);
    WT_ALL(c->function(plain, c->n_in, want, c->n_out, c->state) == WEFT_OK);
    for (int i = 0; i < c->n_out; i++) WT_ALL(wt_near_tensors(out[i], want[i], c->tolerance));
    if (c->gradients) {
        go_back(out, c->n_out);
        go_back(want, c->n_out);
        for (int i = 0; i < c->n_in; i++)
            WT_ALL(wt_near_tensors(weft_grad(in[i]), weft_grad(plain[i]), c->tolerance));
    }
    weft_scope_close(scope);
}

weft_compiled *given_compiled(struct wt_world *w, const struct pass_case *c, const char *off)
{
    weft_compiled_counts counts;
    weft_compiled *compiled = wt_own(weft_compile(
        c->function, c->state,
        (weft_compile_config){.name = "tested", .fullgraph = true, .passes_off = off}));

    for (int call = 0; call < 3; call++) call_both(w, c, compiled, call);
    counts = weft_compiled_get_counts(compiled);
    WT_EQ(counts.captures, 1);
    WT_EQ(counts.replays, 2);
    if (c->gradients) WT_EQ(counts.backward_replays, 2);
    return compiled;
}

int given_lines(const weft_compiled *compiled, bool backward, bool lowered, const char *word)
{
    char *text = NULL, *from, *end, *next;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    int n = 0;

    weft_compiled_print(compiled, lowered, out);
    fclose(out);
    end = strstr(text, ", backward\n");
    from = backward && end ? end : text;
    if (backward && !end) from = text + strlen(text);
    if (!backward && end) *end = 0;
    for (char *line = strtok_r(from, "\n", &next); line; line = strtok_r(NULL, "\n", &next))
        n += strncmp(line, "  ", 2) == 0 && strstr(line, word) != NULL;
    free(text);
    return n;
}
