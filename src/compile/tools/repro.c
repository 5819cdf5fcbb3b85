/* repro.c: comparing a function with itself compiled, files that do it elsewhere, and the smallest
 * of them that still shows a difference. */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/recorder.h"
#include "compile/passes/passes.h"
#include "compile/record/guards.h"
#include "compile/tools/call_list.h"
#include "tensor/host_copy.h"

static weft_status check_arguments(weft_compiled_function *function, weft_tensor *const *in,
                                   int n_in, int n_out, const char *who)
{
    WF_NEED(function && n_in >= 0 && n_in <= WF_COMPILED_INPUTS && (in || !n_in) && n_out >= 0 &&
                n_out <= WF_COMPILED_INPUTS,
            WEFT_ERR_ARG, "%s: no function, or %d inputs without a list", who, n_in);
    WF_NEED(!wf_recorder, WEFT_ERR_STATE, "%s: within a compiled function", who);
    for (int i = 0; i < n_in; i++) WF_TRY(wf_tensor_check_alive(in[i], who));
    return WEFT_OK;
}

static weft_status compare_and_free(struct wf_call_list *list, const weft_compile_check *check,
                                    FILE *out, int *first)
{
    enum wf_verdict verdict;
    int node = -1;
    weft_status status = wf_call_list_compare(list, check, out, &verdict, &node);

    if (first) *first = node;
    wf_call_list_free(list);
    if (status == WEFT_OK && verdict == WF_VERDICT_FAILS)
        return WF_FAIL(WEFT_ERR_STATE, "compile compare: the list does not run compiled");
    return status;
}

weft_status weft_compile_compare_print(weft_compiled_function *function, void *state,
                                       weft_tensor *const *in, int n_in, int n_out,
                                       weft_compile_check check, FILE *out, int *first)
{
    struct wf_call_list *list;

    WF_TRY(check_arguments(function, in, n_in, n_out, "compile compare"));
    WF_NEED(out, WEFT_ERR_ARG, "compile compare: no file");
    WF_TRY(wf_call_list_record(function, state, in, n_in, n_out, &list));
    return compare_and_free(list, &check, out, first);
}

weft_status weft_compile_record(weft_compiled_function *function, void *state,
                                weft_tensor *const *in, int n_in, int n_out, const char *path)
{
    struct wf_call_list *list;
    weft_scope *scope;
    weft_status status;

    WF_TRY(check_arguments(function, in, n_in, n_out, "compile record"));
    WF_NEED(path, WEFT_ERR_ARG, "compile record: no path");
    WF_TRY(wf_call_list_record(function, state, in, n_in, n_out, &list));
    scope = weft_scope_open();
    status = wf_call_list_write(list, path);
    weft_scope_close(scope);
    wf_call_list_free(list);
    return status;
}

weft_status weft_compile_replay_print(const char *path, weft_compile_check check, FILE *out,
                                      int *first)
{
    struct wf_call_list *list;

    WF_NEED(path && out, WEFT_ERR_ARG, "compile replay: no path, or no file to print to");
    WF_TRY(wf_call_list_read(path, &list));
    return compare_and_free(list, &check, out, first);
}

/* ---- the smallest list ---- */

struct shrink {
    const struct wf_call_list *whole;
    const weft_compile_check *check;
    char **values; /* by slot of the whole: as they were made */
    bool *kept;    /* calls of the smallest list so far */
    enum wf_verdict verdict;
    int tried;
};

/* What every call makes, as it makes it: a later one may write over it. */
static weft_status take_values(struct shrink *s)
{
    const struct wf_call_list *list = s->whole;
    weft_tensor **of = wf_calloc((size_t)list->n_slots + 1, sizeof(weft_tensor *));
    weft_scope *scope = weft_scope_open();
    weft_status status = wf_call_list_restore(list);

    for (int k = 0; k < list->n_slots; k++) of[k] = list->slots[k].input;
    for (int i = 0; i < list->n_calls && status == WEFT_OK; i++) {
        const struct wf_call *call = &list->calls[i];

        status = wf_call_run(list, i, of);
        for (int j = 0; j < call->n_out && status == WEFT_OK && !call->in_place; j++) {
            int slot = call->out[j];

            if (slot < 0) continue;
            s->values[slot] = wf_malloc(wf_slot_bytes(&list->slots[slot]) + 1);
            status = wf_tensor_download(of[slot], s->values[slot], "compile minify");
        }
    }
    weft_scope_close(scope);
    wf_free(of);
    return status;
}

static void copy_call(struct wf_call_list *to, const struct wf_call *call, const int *number)
{
    struct wf_call *copy = wf_call_list_add_call(to, (enum wf_call_kind)call->kind);

    *copy = *call;
    if (copy->want) wf_layout_retain(copy->want);
    if (copy->module) copy->module = wf_strdup(copy->module);
    for (int i = 0; i < copy->n_in; i++)
        if (copy->in[i] >= 0) copy->in[i] = number[copy->in[i]];
    for (int j = 0; j < copy->n_out; j++)
        if (copy->out[j] >= 0) copy->out[j] = number[copy->out[j]];
}

/* The slot in the smaller list: an input where no call of it makes it. */
static weft_status bring_slot(const struct shrink *s, struct wf_call_list *to, int *number,
                              int slot, bool made)
{
    const struct wf_slot *of = &s->whole->slots[slot];

    if (slot < 0 || number[slot] >= 0) return WEFT_OK;
    number[slot] = wf_call_list_add_slot(to, of->layout);
    if (made) return WEFT_OK;
    return wf_call_list_set_input(to, number[slot], of->input ? of->bytes : s->values[slot]);
}

static weft_status fill_part(const struct shrink *s, const bool *kept, struct wf_call_list *to,
                             int *number, bool *read)
{
    const struct wf_call_list *from = s->whole;

    for (int i = 0; i < from->n_calls; i++) {
        const struct wf_call *call = &from->calls[i];

        if (!kept[i]) continue;
        for (int k = 0; k < call->n_in; k++) {
            WF_TRY(bring_slot(s, to, number, call->in[k], false));
            if (call->in[k] >= 0) read[call->in[k]] = true;
        }
        for (int j = 0; j < call->n_out; j++)
            WF_TRY(bring_slot(s, to, number, call->out[j], !call->in_place));
        copy_call(to, call, number);
    }
    to->results = wf_calloc((size_t)from->n_slots + 1, sizeof *to->results);
    for (int i = 0; i < from->n_calls; i++) /* what nobody in it reads */
        for (int j = 0; kept[i] && j < from->calls[i].n_out; j++)
            if (from->calls[i].out[j] >= 0 && !read[from->calls[i].out[j]])
                to->results[to->n_results++] = number[from->calls[i].out[j]];
    return WEFT_OK;
}

/* The kept calls as a list of their own. */
static weft_status make_part(const struct shrink *s, const bool *kept, struct wf_call_list **part)
{
    size_t n = (size_t)s->whole->n_slots + 1;
    struct wf_call_list *to = WF_NEW(struct wf_call_list);
    int *number = wf_malloc(n * sizeof *number);
    bool *read = wf_calloc(n, sizeof *read);
    weft_scope *scope = weft_scope_open();
    weft_status status;

    for (size_t i = 0; i < n; i++) number[i] = -1;
    to->exact = s->whole->exact;
    status = fill_part(s, kept, to, number, read);
    weft_scope_close(scope);
    wf_free(number);
    wf_free(read);
    if (status == WEFT_OK)
        *part = to;
    else
        wf_call_list_free(to);
    return status;
}

static weft_status judge(struct shrink *s, const bool *kept, const weft_compile_check *check,
                         bool *same)
{
    struct wf_call_list *part;
    enum wf_verdict verdict = WF_VERDICT_SAME;
    weft_status status;
    int first;

    WF_TRY(make_part(s, kept, &part));
    status = wf_call_list_compare(part, check, NULL, &verdict, &first);
    wf_call_list_free(part);
    s->tried++;
    *same = verdict == s->verdict;
    return status;
}

static int count_kept(const struct shrink *s)
{
    int n = 0;

    for (int i = 0; i < s->whole->n_calls; i++) n += s->kept[i];
    return n;
}

/* Leave out the kept calls number `begin` to `begin + n`, if the verdict stays. */
static weft_status try_without(struct shrink *s, int begin, int n, bool *stays)
{
    int calls = s->whole->n_calls, at = 0;
    bool *kept = wf_calloc((size_t)calls + 1, sizeof *kept);
    weft_status status;

    for (int i = 0; i < calls; i++) {
        if (!s->kept[i]) continue;
        kept[i] = at < begin || at >= begin + n;
        at++;
    }
    status = judge(s, kept, s->check, stays);
    if (status == WEFT_OK && *stays)
        for (int i = 0; i < calls; i++) s->kept[i] = kept[i];
    wf_free(kept);
    return status;
}

/* Halves, quarters, ... down to single calls, until none can go (delta debugging). */
static weft_status shrink_calls(struct shrink *s)
{
    for (int n = (count_kept(s) + 1) / 2; n > 0;) {
        bool any = false, last = n == 1;

        for (int begin = 0; begin < count_kept(s) && count_kept(s) > 1;) {
            bool stays = false;

            if (n < count_kept(s)) WF_TRY(try_without(s, begin, n, &stays));
            any |= stays;
            if (!stays) begin += n;
        }
        if (last && !any) break;
        n = last ? 1 : n / 2;
    }
    return WEFT_OK;
}

/* Passes one by one: those without which it is gone. */
static weft_status name_passes(struct shrink *s, FILE *out)
{
    for (int p = 0; wf_pass_name(p); p++) {
        weft_compile_check without = *s->check;
        bool same = true;
        char *off =
            wf_format("%s,%s", s->check->passes_off ? s->check->passes_off : "", wf_pass_name(p));
        weft_status status;

        without.passes_off = off;
        status = judge(s, s->kept, &without, &same);
        wf_free(off);
        WF_TRY(status);
        if (!same) fprintf(out, "gone without the pass %s\n", wf_pass_name(p));
    }
    return WEFT_OK;
}

static weft_status write_smallest(struct shrink *s, const char *path, FILE *out, int *left)
{
    struct wf_call_list *part;
    enum wf_verdict verdict;
    weft_scope *scope;
    weft_status status;
    int first;

    WF_TRY(make_part(s, s->kept, &part));
    *left = part->n_calls;
    fprintf(out, "%d of %d nodes are left after %d trials\n", part->n_calls, s->whole->n_calls,
            s->tried);
    for (int i = 0; i < part->n_calls; i++) {
        char name[200];

        fprintf(out, "  %s\n", wf_call_name(part, i, name, sizeof name));
    }
    status = wf_call_list_compare(part, s->check, out, &verdict, &first);
    scope = weft_scope_open();
    if (status == WEFT_OK) status = name_passes(s, out);
    weft_no_grad_open();
    if (status == WEFT_OK) status = wf_call_list_write(part, path);
    weft_no_grad_close();
    weft_scope_close(scope);
    wf_call_list_free(part);
    return status;
}

static weft_status shrink(struct shrink *s, const char *path, FILE *out, int *left)
{
    int first;

    WF_TRY(wf_call_list_compare((struct wf_call_list *)(uintptr_t)s->whole, s->check, NULL,
                                &s->verdict, &first));
    if (s->verdict == WF_VERDICT_SAME) {
        fprintf(out, "%d nodes: compiled as immediately\n", s->whole->n_calls);
        return WEFT_OK;
    }
    WF_TRY(take_values(s));
    for (int i = 0; i < s->whole->n_calls; i++) s->kept[i] = true;
    WF_TRY(shrink_calls(s));
    return write_smallest(s, path, out, left);
}

weft_status weft_compile_minify_print(const char *path, const char *smaller,
                                      weft_compile_check check, FILE *out, int *left)
{
    struct shrink s = {.check = &check};
    struct wf_call_list *list;
    weft_status status;
    int n = 0;

    WF_NEED(path && smaller && out, WEFT_ERR_ARG,
            "compile minify: two paths and a file to print to are needed");
    WF_TRY(wf_call_list_read(path, &list));
    s.whole = list;
    s.values = wf_calloc((size_t)list->n_slots + 1, sizeof(char *));
    s.kept = wf_calloc((size_t)list->n_calls + 1, sizeof *s.kept);
    weft_no_grad_open();
    status = shrink(&s, smaller, out, &n);
    weft_no_grad_close();
    for (int k = 0; k < list->n_slots; k++) wf_free(s.values[k]);
    wf_free(s.values);
    wf_free(s.kept);
    wf_call_list_free(list);
    if (left) *left = n;
    return status;
}
