/* backend.h: backends by their names. */
#pragma once

#include <weft/extend/compile_backend.h>

/** True when there is such a backend; NULL in `backend`: the library runs the list. `plain`:
 * without passes. */
bool wf_backend_find(const char *name, weft_compile_backend **backend, bool *plain);
