/* scope.h: the stack of temporaries of one thread. */
#pragma once

#include <weft/tensor.h>

/** Give the innermost scope the handle's first reference. */
void wf_scope_own(weft_tensor *t);

/** Close every scope and drop the stack. */
void wf_scope_finalize(void);

/** What holds until a scope closes, however it comes to that: scopes opened inside inherit it. */
enum wf_mode { WF_MODE_LOSS_PARALLEL = 1 };

/** The modes that are on in the innermost scope, as bits / others instead. Outside every scope
 * nothing is on. */
unsigned wf_scope_modes(void);
void wf_scope_set_modes(unsigned modes);

/** The same for the mesh over which what backward needs is cut; NULL: it is kept whole. */
void wf_scope_set_parts(weft_mesh *mesh);
weft_mesh *wf_scope_parts(void);
