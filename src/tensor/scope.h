/* scope.h: the stack of temporaries of one thread. */
#pragma once

#include <weft/tensor.h>

/** Give the innermost scope the handle's first reference. */
void wf_scope_own(weft_tensor *t);

/** Close every scope and drop the stack. */
void wf_scope_finalize(void);
