/*
 * scope.c: temporaries as one stack per thread; a scope is a mark in it.
 *
 * Outside every scope the stack's bottom acts as one that closes at weft_finalize.
 */
#include "tensor/scope.h"

#include "base/mem.h"

struct weft_scope {
    size_t start;
    weft_scope *outer;
    unsigned modes;
    weft_mesh *parts;
};

static _Thread_local struct {
    weft_tensor **items;
    size_t count, room;
    weft_scope *open, *spare;
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

    if (scope)
        stack.spare = scope->outer;
    else
        scope = WF_NEW(weft_scope);
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

void weft_scope_close(weft_scope *scope)
{
    weft_scope *s;

    if (!scope) return;
    do {
        s = stack.open;
        drop_above(s->start);
        stack.open = s->outer;
        s->outer = stack.spare;
        stack.spare = s;
    } while (s != scope);
}

weft_tensor *weft_scope_return(weft_scope *scope, weft_tensor *t)
{
    weft_retain(t);
    weft_scope_close(scope);
    if (t) wf_scope_own(t);
    return t;
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
    stack.open = stack.spare = NULL;
}
