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

/** Modes of a scope. They end when it closes, also after an error; inner scopes inherit them. */
enum wf_scope_mode { WF_MODE_LOSS_PARALLEL = 1 };

/** Get / set the modes of the innermost scope, as bits. Outside every scope there are none. */
unsigned wf_scope_modes(void);
void wf_scope_set_modes(unsigned modes);

/** The same for the mesh over which tensors saved for backward are sharded; NULL: they are not. */
void wf_scope_set_saved_shard_mesh(weft_mesh *mesh);
weft_mesh *wf_scope_saved_shard_mesh(void);
