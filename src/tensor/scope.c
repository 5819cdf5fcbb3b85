/*
 * scope.c: temporaries as one stack per thread; a scope is a mark in it.
 *
 * Outside every scope the stack's bottom acts as one that closes at weft_finalize.
 */
#include "tensor/scope.h"

#include "base/error.h"
#include "base/mem.h"
#include "tensor/tensor.h"

struct weft_scope {
    size_t start;
    weft_scope *outer;
    unsigned modes;
    weft_mesh *saved_shard_mesh;
    bool is_open;
};

enum { SCOPES_AT_REST = 64 };

_Thread_local struct wf_temporaries wf_temporaries;

/* Closed scopes are reused in the order of closing, and only while SCOPES_AT_REST others wait: a
 * second close of one is recognised that long. */
static _Thread_local struct {
    weft_scope *open, *spare, *last; /* spare ones: a queue that is never empty after the first */
    int n_spare;
} scopes;

void wf_scope_grow_stack(void)
{
    struct wf_temporaries *all = &wf_temporaries;

    all->room = all->room ? 2 * all->room : 1024;
    all->items = wf_realloc(all->items, all->room * sizeof *all->items);
}

static void retire_scope(weft_scope *s)
{
    s->is_open = false;
    scopes.last->outer = s;
    scopes.last = s;
    scopes.n_spare++;
}

static void make_spare_scopes(void)
{
    if (!scopes.spare) {
        scopes.spare = scopes.last = WF_NEW(weft_scope);
        scopes.n_spare = 1;
    }
    while (scopes.n_spare <= SCOPES_AT_REST) retire_scope(WF_NEW(weft_scope));
}

weft_scope *weft_scope_open(void)
{
    weft_scope *outer = scopes.open, *scope;

    if (scopes.n_spare <= SCOPES_AT_REST) make_spare_scopes();
    scope = scopes.spare;
    scopes.spare = scope->outer;
    scopes.n_spare--;
    scope->is_open = true;
    scope->start = wf_temporaries.count;
    scope->outer = outer;
    scope->modes = outer ? outer->modes : 0;
    scope->saved_shard_mesh = outer ? outer->saved_shard_mesh : NULL;
    scopes.open = scope;
    return scope;
}

void wf_scope_set_modes(unsigned modes) { scopes.open->modes = modes; }

unsigned wf_scope_modes(void) { return scopes.open ? scopes.open->modes : 0; }

void wf_scope_set_saved_shard_mesh(weft_mesh *mesh) { scopes.open->saved_shard_mesh = mesh; }

weft_mesh *wf_scope_saved_shard_mesh(void)
{
    return scopes.open ? scopes.open->saved_shard_mesh : NULL;
}

static void release_temporaries_above(size_t start)
{
    struct wf_temporaries *all = &wf_temporaries;

    while (all->count > start) weft_release(all->items[--all->count]);
}

static bool is_open_on_this_thread(const weft_scope *scope)
{
    const weft_scope *s = scopes.open;

    while (s && s != scope) s = s->outer;
    return s != NULL;
}

static weft_status check_open(const char *who, const weft_scope *scope)
{
    if (scope == scopes.open) return WEFT_OK;
    WF_NEED(scope->is_open, WEFT_ERR_STATE,
            "%s: the scope was closed before, by itself or with one around it", who);
    WF_NEED(is_open_on_this_thread(scope), WEFT_ERR_STATE,
            "%s: the scope was opened by another thread", who);
    return WEFT_OK;
}

static void close_scopes_down_to(weft_scope *scope)
{
    weft_scope *s;

    do {
        s = scopes.open;
        release_temporaries_above(s->start);
        scopes.open = s->outer;
        retire_scope(s);
    } while (s != scope);
}

weft_status weft_scope_close(weft_scope *scope)
{
    if (!scope) return WEFT_OK;
    WF_TRY(check_open("scope_close", scope));
    close_scopes_down_to(scope);
    return WEFT_OK;
}

weft_status weft_scope_return_n(weft_scope *scope, weft_tensor **tensors, int n)
{
    WF_NEED(n == 0 || tensors, WEFT_ERR_ARG, "scope_return: no list of %d tensors", n);
    for (int i = 0; i < n; i++) WF_TRY(wf_tensor_check_alive(tensors[i], "scope_return"));
    if (!scope) return WEFT_OK;
    WF_TRY(check_open("scope_return", scope));
    for (int i = 0; i < n; i++) weft_retain(tensors[i]);
    close_scopes_down_to(scope);
    for (int i = 0; i < n; i++) {
        if (!tensors[i]) continue;
        if (wf_scope_stack_is_full()) wf_scope_grow_stack();
        wf_scope_push_temporary(tensors[i]);
    }
    return WEFT_OK;
}

weft_tensor *weft_scope_return(weft_scope *scope, weft_tensor *t)
{
    return weft_scope_return_n(scope, &t, 1) == WEFT_OK ? t : NULL;
}

static void free_scope_list(weft_scope *scope)
{
    while (scope) {
        weft_scope *outer = scope->outer;

        wf_free(scope);
        scope = outer;
    }
}

void wf_scope_finalize(void)
{
    release_temporaries_above(0);
    free_scope_list(scopes.open);
    if (scopes.last) scopes.last->outer = NULL;
    free_scope_list(scopes.spare);
    wf_free(wf_temporaries.items);
    wf_temporaries.items = NULL;
    wf_temporaries.count = wf_temporaries.room = 0;
    scopes.open = scopes.spare = scopes.last = NULL;
    scopes.n_spare = 0;
}
