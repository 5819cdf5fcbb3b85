/*
 * scope.c: temporaries as one stack per thread; a scope is a mark in it.
 *
 * Outside every scope the stack's bottom acts as one that closes at weft_finalize.
 */
#include "tensor/scope.h"

#include "base/error.h"
#include "base/mem.h"

struct weft_scope {
    size_t start;
    weft_scope *outer;
    unsigned modes;
    weft_mesh *parts;
    bool is_open;
};

enum { SCOPES_AT_REST = 64 };

static _Thread_local struct {
    weft_tensor **items;
    size_t count, room;
    weft_scope *open, *spare, *last; /* spare ones are used again in the order of closing */
    int n_spare;
} stack;

static void grow(void)
{
    stack.room = stack.room ? 2 * stack.room : 1024;
    stack.items = wf_realloc(stack.items, stack.room * sizeof *stack.items);
}

void wf_scope_own(weft_tensor *t)
{
    if (stack.count == stack.room) grow();
    stack.items[stack.count++] = t;
}

weft_scope *weft_scope_open(void)
{
    weft_scope *scope = stack.spare;

    if (stack.n_spare > SCOPES_AT_REST) {
        stack.spare = scope->outer;
        stack.n_spare--;
    } else {
        scope = WF_NEW(weft_scope);
    }
    scope->is_open = true;
    scope->start = stack.count;
    scope->outer = stack.open;
    scope->modes = stack.open ? stack.open->modes : 0;
    scope->parts = stack.open ? stack.open->parts : NULL;
    stack.open = scope;
    return scope;
}

void wf_scope_set_modes(unsigned modes) { stack.open->modes = modes; }

unsigned wf_scope_modes(void) { return stack.open ? stack.open->modes : 0; }

void wf_scope_set_parts(weft_mesh *mesh) { stack.open->parts = mesh; }

weft_mesh *wf_scope_parts(void) { return stack.open ? stack.open->parts : NULL; }

static void drop_above(size_t start)
{
    while (stack.count > start) weft_release(stack.items[--stack.count]);
}

static void rest(weft_scope *s)
{
    s->is_open = false;
    s->outer = NULL;
    if (stack.spare)
        stack.last->outer = s;
    else
        stack.spare = s;
    stack.last = s;
    stack.n_spare++;
}

static bool is_mine(const weft_scope *scope)
{
    const weft_scope *s = stack.open;

    while (s && s != scope) s = s->outer;
    return s != NULL;
}

static weft_status check_open(const char *who, const weft_scope *scope)
{
    WF_NEED(scope->is_open, WEFT_ERR_STATE,
            "%s: the scope was closed before, by itself or with one around it", who);
    WF_NEED(stack.open == scope || is_mine(scope), WEFT_ERR_STATE,
            "%s: the scope was opened by another thread", who);
    return WEFT_OK;
}

static void close_to(weft_scope *scope)
{
    weft_scope *s;

    do {
        s = stack.open;
        drop_above(s->start);
        stack.open = s->outer;
        rest(s);
    } while (s != scope);
}

void weft_scope_close(weft_scope *scope)
{
    if (scope && check_open("scope_close", scope) == WEFT_OK) close_to(scope);
}

weft_status weft_scope_return_n(weft_scope *scope, weft_tensor **tensors, int n)
{
    WF_NEED(n == 0 || tensors, WEFT_ERR_ARG, "scope_return: no list of %d tensors", n);
    if (!scope) return WEFT_OK;
    WF_TRY(check_open("scope_return", scope));
    for (int i = 0; i < n; i++) tensors[i] = weft_retain(tensors[i]);
    close_to(scope);
    for (int i = 0; i < n; i++)
        if (tensors[i]) wf_scope_own(tensors[i]);
    return WEFT_OK;
}

weft_tensor *weft_scope_return(weft_scope *scope, weft_tensor *t)
{
    return weft_scope_return_n(scope, &t, 1) == WEFT_OK ? t : NULL;
}

static void free_list(weft_scope *scope)
{
    while (scope) {
        weft_scope *outer = scope->outer;

        wf_free(scope);
        scope = outer;
    }
}

void wf_scope_finalize(void)
{
    drop_above(0);
    free_list(stack.open);
    free_list(stack.spare);
    wf_free(stack.items);
    stack.items = NULL;
    stack.count = stack.room = 0;
    stack.open = stack.spare = stack.last = NULL;
    stack.n_spare = 0;
}
