/* einsum_equation.c: see einsum.h. */
#include "ops/products/einsum.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

static void append(char *letters, char letter)
{
    size_t n = strlen(letters);

    letters[n] = letter;
    letters[n + 1] = '\0';
}

static bool ends_term(const char *at) { return *at == '\0' || *at == ',' || *at == '-'; }

/* Letters that stand in a term, the ellipsis left out; `ellipsis`: how often it stands there. */
static int count_letters(const char *term, int *ellipsis)
{
    int n = 0;

    *ellipsis = 0;
    for (; !ends_term(term); term++) {
        if (*term == '.') {
            if (strncmp(term, "...", 3) == 0) ++*ellipsis, term += 2;
        } else if (*term != ' ') {
            n++;
        }
    }
    return n;
}

/* One term, whose ellipsis stands for `hidden` dims. */
static weft_status read_term(char *letters, const char **at, int hidden, const char *equation)
{
    letters[0] = '\0';
    for (; !ends_term(*at); ++*at) {
        char c = **at;

        if (c == ' ') continue;
        if (c == '.') {
            WF_NEED(strncmp(*at, "...", 3) == 0, WEFT_ERR_ARG,
                    "einsum: \"%s\" has a dot that is no ellipsis", equation);
            *at += 2;
            for (int d = hidden - 1; d >= 0; d--) append(letters, (char)('0' + d));
            continue;
        }
        WF_NEED(isalpha((unsigned char)c), WEFT_ERR_ARG,
                "einsum: \"%s\" has '%c' where a letter should be", equation, c);
        WF_NEED(!strchr(letters, c), WEFT_ERR_ARG,
                "einsum: \"%s\" has '%c' twice in one term: diagonals are not taken", equation, c);
        append(letters, c);
    }
    return WEFT_OK;
}

/* Without an arrow: the ellipsis, then the letters that stand in one operand, by alphabet. */
static void infer_result(struct wf_einsum *e, int hidden)
{
    int n = 0;

    for (int d = hidden - 1; d >= 0; d--) e->out[n++] = (char)('0' + d);
    for (char c = 'A'; c <= 'z' && n < WEFT_MAX_DIMS; c++) {
        int in = 0;

        for (int i = 0; i < e->n_in && isalpha((unsigned char)c); i++)
            in += strchr(e->in[i], c) != NULL;
        if (in == 1) e->out[n++] = c;
    }
    e->out[n] = '\0';
}

static weft_status read_result(struct wf_einsum *e, const char *at, int hidden,
                               const char *equation)
{
    int ellipsis, n = count_letters(at, &ellipsis);

    WF_NEED(ellipsis <= 1 && n + (ellipsis ? hidden : 0) <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE,
            "einsum: \"%s\": the result would have more than %d dims", equation, WEFT_MAX_DIMS);
    WF_TRY(read_term(e->out, &at, hidden, equation));
    WF_NEED(*at == '\0', WEFT_ERR_ARG, "einsum: \"%s\" has one arrow and one result", equation);
    for (const char *c = e->out; *c; c++)
        WF_NEED(strchr(e->in[0], *c) || (e->n_in > 1 && strchr(e->in[1], *c)), WEFT_ERR_ARG,
                "einsum: \"%s\" has '%c' in the result alone", equation, *c);
    return WEFT_OK;
}

weft_status wf_einsum_parse(struct wf_einsum *e, const char *equation, const int *ndims, int n)
{
    const char *at = equation;
    int hidden = 0;
    bool another;

    *e = (struct wf_einsum){.n_in = n};
    for (int i = 0; i < n; i++) {
        int ellipsis, letters = count_letters(at, &ellipsis), rest = ndims[i] - letters;

        WF_NEED(ellipsis <= 1 && (ellipsis ? rest >= 0 : rest == 0), WEFT_ERR_SHAPE,
                "einsum: \"%s\" does not name the %d dims of operand %d", equation, ndims[i], i);
        if (rest > hidden) hidden = rest;
        WF_TRY(read_term(e->in[i], &at, rest, equation));
        another = *at == ',';
        WF_NEED(another == (i < n - 1), WEFT_ERR_ARG, "einsum: \"%s\" is not about %d operands",
                equation, n);
        if (another) at++;
    }
    if (*at == '\0') {
        infer_result(e, hidden);
        return WEFT_OK;
    }
    WF_NEED(strncmp(at, "->", 2) == 0, WEFT_ERR_ARG, "einsum: \"%s\" has no arrow ->", equation);
    return read_result(e, at + 2, hidden, equation);
}

void wf_einsum_classify(struct wf_einsum_dims *dims, const struct wf_einsum *e)
{
    memset(dims, 0, sizeof *dims);
    for (int i = 0; i < e->n_in; i++)
        for (const char *c = e->in[i]; *c; c++) {
            bool in_other = e->n_in > 1 && strchr(e->in[1 - i], *c) != NULL;
            bool out = strchr(e->out, *c) != NULL;

            if (in_other && i == 1) continue;
            if (in_other)
                append(out ? dims->batch : dims->contracting, *c);
            else if (out)
                append(i == 0 ? dims->left : dims->right, *c);
            else
                append(dims->summed[i], *c);
        }
}
