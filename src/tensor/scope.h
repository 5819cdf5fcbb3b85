/* scope.h: the stack of temporaries of one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <weft/tensor.h>

/** The temporaries of this thread; a scope is a mark in it. */
struct wf_temporaries {
    weft_tensor **items;
    size_t count, room;
};
extern _Thread_local struct wf_temporaries wf_temporaries;

void wf_scope_grow_stack(void);
static inline bool wf_scope_stack_is_full(void)
{
    return wf_temporaries.count == wf_temporaries.room;
}

/** Give the innermost scope the handle's first reference; it has room. */
static inline void wf_scope_push_temporary(weft_tensor *t)
{
    wf_temporaries.items[wf_temporaries.count++] = t;
}

/** Close every scope and drop the stack. */
void wf_scope_finalize(void);

/** What holds until a scope closes, however it comes to that: scopes opened inside inherit it. */
enum wf_scope_mode { WF_MODE_LOSS_PARALLEL = 1 };

/** The modes that are on in the innermost scope, as bits / others instead. Outside every scope
 * nothing is on. */
unsigned wf_scope_modes(void);
void wf_scope_set_modes(unsigned modes);

/** The same for the mesh over which what backward needs is cut; NULL: it is kept whole. */
void wf_scope_set_saved_shard_mesh(weft_mesh *mesh);
weft_mesh *wf_scope_saved_shard_mesh(void);
