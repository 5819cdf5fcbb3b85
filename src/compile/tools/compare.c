/*
 * compare.c: a list of calls as it is and compiled. Where results differ the first node that does
 * is looked for: first with the results of all nodes at once, then, since a pass may leave a node
 * alone whose result is wanted, with those of one node after another.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "compile/tools/call_list.h"
#include "compile/tools/compare_f64.h"
#include "mesh/mesh.h"
#include "tensor/host_copy.h"

/* ---- agreement ---- */

static struct wf_comm *comm_of(const struct wf_call_list *list)
{
    for (int s = 0; s < list->n_slots; s++) {
        struct wf_comm *comm = wf_mesh_all_axes_comm(list->slots[s].layout->mesh);

        if (comm) return comm;
    }
    return NULL;
}

/* The worst verdict of any rank, and the first node of any. */
static void agree(struct wf_comm *comm, int *verdict, int *first)
{
    int32_t mine[2] = {*verdict, *first}, *all;
    int ranks = comm ? wf_comm_size(comm) : 1;

    if (ranks == 1) return;
    all = wf_calloc((size_t)ranks, sizeof mine);
    wf_comm_allgather_bytes(comm, mine, all, sizeof mine);
    for (int r = 0; r < ranks; r++) {
        if (all[2 * r] > *verdict) *verdict = all[2 * r];
        if (all[2 * r + 1] >= 0 && (*first < 0 || all[2 * r + 1] < *first)) *first = all[2 * r + 1];
    }
    wf_free(all);
}

/* ---- values, by slot ---- */

static char **new_values(const struct wf_call_list *list)
{
    return wf_calloc((size_t)list->n_slots + 1, sizeof(char *));
}

static void free_values(const struct wf_call_list *list, char **values)
{
    for (int s = 0; values && s < list->n_slots; s++) wf_free(values[s]);
    wf_free(values);
}

static weft_status keep(const struct wf_call_list *list, int slot, const weft_tensor *t,
                        char **values)
{
    (void)list;
    wf_free(values[slot]);
    values[slot] =
        wf_malloc((size_t)t->layout->desc.numel * wf_dtypes[t->layout->desc.dtype].size + 1);
    return wf_tensor_download(t, values[slot], "compile compare");
}

static weft_status keep_inputs(const struct wf_call_list *list, char **values)
{
    for (int s = 0; s < list->n_slots; s++)
        if (list->slots[s].input) WF_TRY(keep(list, s, list->slots[s].input, values));
    return WEFT_OK;
}

static weft_status run_as_it_is(const struct wf_call_list *list, const weft_compile_check *check,
                                struct wf_f64_report *f64, char **values)
{
    weft_tensor **of = wf_calloc((size_t)list->n_slots + 1, sizeof(weft_tensor *));
    weft_scope *scope = weft_scope_open();
    weft_status status = wf_call_list_restore(list);

    for (int s = 0; s < list->n_slots; s++) of[s] = list->slots[s].input;
    for (int i = 0; i < list->n_calls && status == WEFT_OK; i++) {
        weft_tensor *reference = check->f64 ? wf_call_run_f64(list, i, of) : NULL;

        status = wf_call_run(list, i, of);
        if (reference && status == WEFT_OK)
            status = wf_f64_report_add(f64, check, i, of[list->calls[i].out[0]], reference);
    }
    for (int s = 0; s < list->n_slots && status == WEFT_OK; s++)
        if (of[s] && !list->slots[s].input) status = keep(list, s, of[s], values);
    if (status == WEFT_OK) status = keep_inputs(list, values);
    weft_scope_close(scope);
    wf_free(of);
    return status;
}

/* ---- compiled ---- */

struct function {
    const struct wf_call_list *list;
    int *outs, n_outs; /* slots that calls make */
};

static weft_status run_calls(weft_tensor *const *in, int n_in, weft_tensor **out, int n_out,
                             void *state)
{
    const struct function *f = state;
    weft_tensor **of = wf_calloc((size_t)f->list->n_slots + 1, sizeof(weft_tensor *));
    weft_status status = WEFT_OK;

    (void)in;
    (void)n_in;
    for (int s = 0; s < f->list->n_slots; s++) of[s] = f->list->slots[s].input;
    for (int i = 0; i < f->list->n_calls && status == WEFT_OK; i++)
        status = wf_call_run(f->list, i, of);
    for (int k = 0; k < n_out && status == WEFT_OK; k++) out[k] = of[f->outs[k]];
    wf_free(of);
    return status;
}

static weft_status call_twice(weft_compiled *compiled, const struct function *f, char **values,
                              char *why, size_t room)
{
    weft_tensor **out = wf_calloc((size_t)f->n_outs + 1, sizeof(weft_tensor *));
    weft_status status = WEFT_OK;

    for (int k = 0; k < 2 && status == WEFT_OK; k++) {
        weft_scope *scope = weft_scope_open();

        status = wf_call_list_restore(f->list);
        if (status == WEFT_OK) status = weft_compiled_call(compiled, NULL, 0, out, f->n_outs);
        if (k == 1 && status == WEFT_OK && weft_compiled_reason(compiled))
            snprintf(why, room, "it is not replayed: %s", weft_compiled_reason(compiled));
        for (int i = 0; i < f->n_outs && k == 1 && status == WEFT_OK; i++)
            status = keep(f->list, f->outs[i], out[i], values);
        if (k == 1 && status == WEFT_OK) status = keep_inputs(f->list, values);
        weft_scope_close(scope);
    }
    wf_free(out);
    return status;
}

/* Why the list does not run compiled, in `why`, or nothing. */
static void run_compiled(const struct function *f, const weft_compile_check *check, char **values,
                         char *why, size_t room)
{
    weft_compile_config config = {.name = "calls",
                                  .fullgraph = true,
                                  .passes_off = check->passes_off,
                                  .backend = check->backend};
    weft_compiled *compiled = weft_compile(run_calls, (void *)(uintptr_t)f, config);
    weft_status status =
        compiled ? call_twice(compiled, f, values, why, room) : weft_error_status();

    why[room - 1] = 0;
    if (status != WEFT_OK) {
        snprintf(why, room, "%s", weft_error_message());
        weft_error_clear();
    }
    weft_compiled_release(compiled);
}

/* ---- differences ---- */

static bool near(double got, double want, const weft_compile_check *check)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (got == want) return true; /* infinities too */
    return fabs(got - want) <= check->absolute + check->relative * fabs(want);
}

/* How many elements of a slot differ; the first of them in `text`. */
static int64_t count_differing(const struct wf_call_list *list, int slot, const char *got,
                               const char *want, const weft_compile_check *check, char *text,
                               size_t room)
{
    const struct wf_tensor_desc *desc = &list->slots[slot].layout->desc;
    const struct wf_dtype_info *dtype = &wf_dtypes[desc->dtype];
    int64_t n = 0;

    for (int64_t i = 0; i < desc->numel; i++) {
        const char *a = got + (size_t)i * dtype->size, *b = want + (size_t)i * dtype->size;

        if (memcmp(a, b, dtype->size) == 0) continue;
        if ((check->relative > 0 || check->absolute > 0) &&
            near(dtype->load(a), dtype->load(b), check))
            continue;
        if (!n++)
            snprintf(text, room, "element %lld is %.9g compiled and %.9g immediately", (long long)i,
                     dtype->load(a), dtype->load(b));
    }
    return n;
}

/* The call that a slot is made by; that writes over an input last. */
static int writer_of(const struct wf_call_list *list, int slot)
{
    for (int i = list->n_calls - 1; i >= 0; i--)
        for (int j = 0; j < list->calls[i].n_out; j++)
            if (list->calls[i].out[j] == slot) return i;
    return -1;
}

/* The first node, in order, of whose values some are there twice and differ; -1: none. */
static int first_differing(const struct wf_call_list *list, char **got, char **want,
                           const weft_compile_check *check, char *text, size_t room)
{
    int first = -1;

    for (int s = 0; s < list->n_slots; s++) {
        char here[200];
        int64_t n;
        int writer;

        if (!got[s] || !want[s]) continue;
        n = count_differing(list, s, got[s], want[s], check, here, sizeof here);
        writer = n ? writer_of(list, s) : -1;
        if (writer < 0 || (first >= 0 && writer >= first)) continue;
        first = writer;
        snprintf(text, room, "%s; %lld of %lld elements here differ", here, (long long)n,
                 (long long)list->slots[s].layout->desc.numel);
    }
    return first;
}

struct trial {
    enum wf_verdict verdict;
    int first;
    char text[600];
};

static void try_outs(const struct function *f, const weft_compile_check *check, char **want,
                     struct trial *trial)
{
    char **got = new_values(f->list);
    int verdict;

    trial->text[0] = 0;
    run_compiled(f, check, got, trial->text, sizeof trial->text);
    trial->first = -1;
    verdict = trial->text[0] ? WF_VERDICT_FAILS : WF_VERDICT_SAME;
    if (verdict == WF_VERDICT_SAME) {
        trial->first = first_differing(f->list, got, want, check, trial->text, sizeof trial->text);
        if (trial->first >= 0) verdict = WF_VERDICT_DIFFERS;
    }
    agree(comm_of(f->list), &verdict, &trial->first);
    trial->verdict = (enum wf_verdict)verdict;
    free_values(f->list, got);
}

/* Slots that calls make: of one call, or (-1) of all. */
static void choose_outs(struct function *f, int call)
{
    f->n_outs = 0;
    for (int i = 0; i < f->list->n_calls; i++) {
        if ((call >= 0 && i != call) || f->list->calls[i].in_place) continue;
        for (int j = 0; j < f->list->calls[i].n_out; j++)
            if (f->list->calls[i].out[j] >= 0) f->outs[f->n_outs++] = f->list->calls[i].out[j];
    }
}

static void choose_results(struct function *f)
{
    f->n_outs = 0;
    for (int i = 0; i < f->list->n_results; i++)
        if (!f->list->slots[f->list->results[i]].input) f->outs[f->n_outs++] = f->list->results[i];
}

static void find_first(struct function *f, const weft_compile_check *check, char **want,
                       struct trial *trial)
{
    struct trial found;

    choose_outs(f, -1);
    try_outs(f, check, want, &found);
    for (int i = 0; i < f->list->n_calls && found.verdict != WF_VERDICT_DIFFERS; i++) {
        if (f->list->calls[i].in_place) continue;
        choose_outs(f, i);
        try_outs(f, check, want, &found);
    }
    if (found.verdict == WF_VERDICT_DIFFERS) *trial = found;
}

static void print_verdict(const struct wf_call_list *list, const struct trial *trial, FILE *out)
{
    char name[200];

    if (trial->verdict == WF_VERDICT_SAME)
        fprintf(out, "%d nodes: compiled as immediately\n", list->n_calls);
    else if (trial->verdict == WF_VERDICT_FAILS)
        fprintf(out, "%d nodes: compiled they fail: %s\n", list->n_calls,
                trial->text[0] ? trial->text : "on another rank");
    else
        fprintf(out, "%d nodes: the first that differs is %s: %s\n", list->n_calls,
                wf_call_name(list, trial->first, name, sizeof name),
                trial->text[0] ? trial->text : "on another rank");
}

weft_status wf_call_list_compare(struct wf_call_list *list, const weft_compile_check *check,
                                 FILE *out, enum wf_verdict *verdict, int *first)
{
    struct function f = {.list = list};
    struct wf_f64_report f64 = {.node = -1};
    struct trial trial = {0};
    char **want = new_values(list);
    weft_status status;

    weft_no_grad_open();
    f.outs = wf_calloc((size_t)list->n_slots + (size_t)list->n_results + 1, sizeof *f.outs);
    status = run_as_it_is(list, check, &f64, want);
    if (status == WEFT_OK) {
        choose_results(&f);
        try_outs(&f, check, want, &trial);
        if (trial.verdict == WF_VERDICT_DIFFERS && out) find_first(&f, check, want, &trial);
        *verdict = trial.verdict;
        *first = trial.first;
        if (out) print_verdict(list, &trial, out);
        if (out && check->f64) wf_f64_report_print(&f64, list, out);
    }
    weft_no_grad_close();
    wf_free(f.outs);
    free_values(list, want);
    return status;
}
