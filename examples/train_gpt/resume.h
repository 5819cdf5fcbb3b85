/* resume.h: what a run is at a step, on disk. */
#pragma once

#include <weft/weft.h>

#include "options.h"

/** What a run is beside its model and optimizer. Which tokens a step learns from follows from step,
 * seed, and the text. */
struct progress {
    int64_t step; /* steps done */
    int64_t seed;
    int64_t tokens; /* of the text: another one is refused */
};

/** Is there a folder to save to, or can it be made? Asked before the first step; rank 0 looks. On
 *  failure returns false with a sentence in `problem`. */
bool progress_folder(const struct options *o, char *problem, int room);

/** Save to / load from a folder, on any number of ranks. ranks: all */
weft_status progress_save(const char *folder, weft_module *model, weft_optim *optim,
                          struct progress *progress);
weft_status progress_load(const char *folder, weft_module *model, weft_optim *optim,
                          struct progress *progress);
