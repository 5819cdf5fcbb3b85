/* model.h: the model that writes: from files of Hugging Face, a checkpoint, or random. */
#pragma once

#include <weft/weft.h>

#include "options.h"

struct model {
    weft_mesh *mesh;
    weft_module *module;
    int64_t vocab;
    int64_t context; /* tokens it can see; 0: no limit */
};

/** Make it, split over all ranks. On failure the library's error; model_free frees what there is.
 */
weft_status model_make(struct model *m, const struct options *o);
void model_free(struct model *m);
